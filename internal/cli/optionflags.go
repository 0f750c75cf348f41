package cli

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"daybook/embed"
	"daybook/internal/cli/settings"
)

// optionFlags maps fields of embed.Options to their flags.
var optionFlags = addOptionFlags(reflect.TypeFor[struct {
	serveCmd
	stdioFlags
}](), map[string]string{"Access.TokenFile": "--auth tokens", "Access.OIDC.Issuer": "--auth oidc"})

// addOptionFlags adds the flags of a struct that have a tag "option".
func addOptionFlags(s reflect.Type, into map[string]string) map[string]string {
	for f := range s.Fields() {
		if f.Anonymous {
			addOptionFlags(f.Type, into)
		} else if option := f.Tag.Get("option"); option != "" {
			into[option] = "--" + f.Tag.Get("name")
		}
	}
	return into
}

// fieldPath matches the path of a field in a group of embed.Options, such as HTTP.Addr.
var fieldPath = regexp.MustCompile(`\b[A-Z]\w+(\.[A-Z]\w+)+\b`)

// flagError is an error about an option, with a message for the command line.
type flagError struct {
	error
	flags []*kong.Flag // of the command, to quote the values of ranges
}

func (e flagError) Unwrap() error { return e.error }

// Error returns the message with flags instead of options.
func (e flagError) Error() string {
	text := strings.TrimPrefix(e.error.Error(), "options: ")
	for _, f := range fieldErrors(e.error) {
		if flag := optionFlags[f.Field]; flag != "" {
			text = strings.Replace(text, f.Error(), e.problem(flag, f), 1)
		}
	}
	return fieldPath.ReplaceAllStringFunc(text, func(path string) string {
		if flag := optionFlags[path]; flag != "" {
			return flag
		}
		return path
	})
}

// problem returns the message about a flag. If the value is out of range, the message has
// the values that the flag permits, and an example.
func (e flagError) problem(name string, f *embed.FieldError) string {
	i := slices.IndexFunc(e.flags, func(flag *kong.Flag) bool { return "--"+flag.Name == name })
	if f.Range == nil || i < 0 {
		return name + f.Problem()
	}
	flag, rule := e.flags[i], *f.Range
	value := " " + f.Value // one entry of a flag that is a map
	if flag.Target.Kind() != reflect.Map {
		value = " is " + strings.Join(settings.TextsOf(flag.Target), ",")
	}
	if rule.Negative != "" { // on the command line 0 has this meaning
		rule.Zero, rule.Negative = rule.Negative, ""
		rule.Least = reflect.Zero(reflect.TypeOf(rule.Least)).Interface()
		if strings.HasPrefix(value, " is -") {
			rule.Most = nil // the user gave no large value: zeroIsNone replaced a negative one
		}
	}
	if most, ok := rule.Most.(int64); ok && flag.Tag.Has("mib") {
		rule.Most, rule.Unit = most>>20, " MiB"
	}
	example := flag.Tag.Get("example")
	if example == "" {
		example = flag.Default
	}
	return fmt.Sprintf("%s%s: %v; for example %s %s", name, value, rule, name, example)
}

// fieldErrors returns all field errors that err wraps.
func fieldErrors(err error) (list []*embed.FieldError) {
	switch e := err.(type) { //nolint:errorlint // the function visits the complete tree
	case *embed.FieldError:
		return []*embed.FieldError{e}
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			list = append(list, fieldErrors(one)...)
		}
	}
	return list
}

// checkOptions checks the flags of a command by the rules of embed.Options.
func checkOptions(kctx *kong.Context, o embed.Options) error {
	if err := o.Validate(); err != nil {
		return flagError{error: err, flags: kctx.Selected().Flags}
	}
	return nil
}
