package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"daybook/internal/cli/terminal"
	"daybook/internal/web"
)

// ConfigFlag loads values from a JSON file before the other flags are resolved.
type ConfigFlag string

// BeforeResolve reads the file. Its values rank below the command line and the
// environment.
func (c ConfigFlag) BeforeResolve(app *kong.Kong, kctx *kong.Context, _ *kong.Path) error {
	path := string(kctx.FlagValue(flagNamed(app.Model.Flags, "config")).(ConfigFlag))
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	values, err := parseConfig(raw)
	if twice, ok := errors.AsType[*web.RepeatedError](err); ok {
		return fmt.Errorf("--config %s: %w; keep one of the two", path, twice)
	}
	if err != nil {
		return fmt.Errorf("--config %s: not a JSON object of flag names and values: %w", path, err)
	}
	known := map[string]bool{}
	collectFlags(app.Model.Node, known)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !known[key] {
			return fmt.Errorf("--config %s: unknown key %q; keys are flag names without the dashes, for example \"http-addr\"", path, key)
		}
		if values[key] == nil {
			return fmt.Errorf("--config %s: %q is null, which is no value; leave the key out for the default", path, key)
		}
	}
	kctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		value, ok := values[flag.Name]
		if !ok || setInEnvironment(flag) {
			return nil, nil
		}
		return configValue(flag.Target.Type(), value)
	}))
	return nil
}

// parseConfig decodes a JSON object. A number becomes a json.Number, which has all its
// digits. The error is a *web.RepeatedError if the object, or an object in it, has the same
// name twice. Objects in lists are not checked, because no flag takes such a list.
func parseConfig(raw []byte) (map[string]any, error) {
	values := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	err := in.Decode(&values)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fmt.Errorf("it is a JSON %s", wrong.Value)
	}
	if err != nil {
		return nil, err
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the object")
	}
	if values == nil {
		return nil, errors.New("it is JSON null")
	}
	return values, checkRepeated(raw)
}

// checkRepeated returns a *web.RepeatedError if a JSON object has the same name twice. It
// also checks the values that are objects.
func checkRepeated(object []byte) error {
	return web.EachMember(object, func(_ string, value []byte) error {
		if bytes.HasPrefix(value, []byte("{")) {
			return checkRepeated(value)
		}
		return nil
	})
}

// configValue returns a value of the file in the form in which kong takes it for a flag of
// type t. A number becomes text, and a number in an object a json.Number. configValue refuses
// values that kong would round, or would refuse with a message about types of Go. For nil it
// returns nil.
func configValue(t reflect.Type, value any) (any, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return value, checkNumber(t, value, strconv.Quote(value))
	case json.Number:
		text := value.String()
		switch {
		case t.Kind() == reflect.Slice:
			return text, nil
		case isWhole(t) && strings.ContainsAny(text, ".eE"):
			if n, ok := web.WholeNumber(text); ok {
				text = strconv.FormatInt(n, 10)
			}
		case slices.Contains([]reflect.Kind{reflect.Bool, reflect.Map}, t.Kind()), t == reflect.TypeFor[string]():
			return nil, fmt.Errorf("%s is a number: give %s", text, formText(t))
		}
		return text, checkNumber(t, text, value.String())
	case bool:
		if t.Kind() == reflect.Bool {
			return value, nil
		}
	case []any:
		if t.Kind() != reflect.Slice {
			break
		}
		if i := slices.IndexFunc(value, func(e any) bool { _, ok := e.(string); return !ok }); i >= 0 {
			return nil, fmt.Errorf("element %d of the list is not a text in quotes", i+1)
		}
		return value, nil
	case map[string]any:
		if t.Kind() != reflect.Map {
			break
		}
		members := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			_, isText := value[name].(string)
			member, err := configValue(t.Elem(), value[name])
			switch {
			case err != nil:
			case member == nil:
				err = fmt.Errorf("null is no value: give %s", formText(t.Elem()))
			case isText && t.Elem().Kind() != reflect.String:
				err = fmt.Errorf("%q is a text: give %s without quotes", member, formText(t.Elem()))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if members[name] = member; !isText {
				members[name] = json.Number(fmt.Sprint(member))
			}
		}
		return members, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s is in the wrong form: give %s", terminal.OneLine(string(text), 40), formText(t))
}

// isWhole reports whether a flag of the type is a whole number.
func isWhole(t reflect.Type) bool {
	return t.PkgPath() == "" && (reflect.Zero(t).CanInt() || reflect.Zero(t).CanUint())
}

// checkNumber returns an error if t is a type of numbers, or a duration, and text is not a
// value of t. The error shows the text as shown.
func checkNumber(t reflect.Type, text, shown string) error {
	var err error
	switch {
	case t == reflect.TypeFor[time.Duration]():
		_, err = time.ParseDuration(text)
	case isWhole(t) && reflect.Zero(t).CanInt():
		_, err = strconv.ParseInt(text, 0, t.Bits())
	case isWhole(t):
		_, err = strconv.ParseUint(text, 0, t.Bits())
	case t.Kind() == reflect.Float64:
		_, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		return fmt.Errorf("%s is not %s", shown, formText(t))
	}
	return nil
}

// formText describes the values of flags of a type.
func formText(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "500ms", "90s" or "2h"`
	case isWhole(t) && reflect.Zero(t).CanInt():
		return "a whole number"
	case isWhole(t):
		return "a whole number of 0 or more"
	}
	switch t.Kind() {
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a text in quotes, or a list of texts"
	case reflect.Map:
		return "an object, or a text in quotes"
	default:
		return "a text in quotes"
	}
}

func flagNamed(flags []*kong.Flag, name string) *kong.Flag {
	for _, f := range flags {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func collectFlags(n *kong.Node, into map[string]bool) {
	for _, f := range n.Flags {
		if f.Name != "config" && f.Name != "help" {
			into[f.Name] = true
		}
	}
	for _, child := range n.Children {
		collectFlags(child, into)
	}
}

func setInEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
