package fetcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// HeaderRule adds a header to requests to one host. Its value may be a secret.
type HeaderRule struct {
	// Host is a host, or *.example.com for all hosts below example.com and example.com
	// itself. It may have a port; without one it means the default port of the scheme.
	Host string
	// Methods are the methods of the requests that get the header; nil means all.
	Methods []string
	// Header and Value are the header.
	Header, Value string
	// KeepScripts leaves a header that the script has set. Without it, the rule replaces
	// that header.
	KeepScripts bool
	// Plain adds the header to requests over http too, and not only over https.
	Plain bool
}

// String returns the rule without the value.
func (r HeaderRule) String() string { return fmt.Sprintf("header %s for %s", r.Header, r.Host) }

// GoString returns String, because %#v would print the value.
func (r HeaderRule) GoString() string { return r.String() }

// LogValue returns String.
func (r HeaderRule) LogValue() slog.Value { return slog.StringValue(r.String()) }

// Check returns what is wrong with a rule. The error does not contain the value.
func (r HeaderRule) Check() error {
	pattern := strings.TrimPrefix(r.Host, "*.")
	u, err := parseTarget("https://"+pattern+"/", nil)
	switch {
	case err != nil || u.Path != "/" || u.RawQuery != "" || strings.ContainsAny(pattern, "/?#@*"):
		return fmt.Errorf("%s: the host must be a name such as api.example.com, *.example.com or api.example.com:8443", r)
	case len(r.Header) > 256 || !token.MatchString(r.Header):
		return fmt.Errorf("%s: the name of the header is malformed", r)
	case isOwnHeader(strings.ToLower(r.Header)):
		return fmt.Errorf("%s: this header follows from the request and cannot be added", r)
	case r.Value == "":
		return fmt.Errorf("%s: the value is empty", r)
	case strings.ContainsFunc(r.Value, func(c rune) bool { return c < ' ' && c != '\t' || c >= 0x7f }):
		return fmt.Errorf("%s: the value must be printable ASCII", r)
	}
	for _, m := range r.Methods {
		if _, err := checkMethod(m); err != nil || m == "" {
			return fmt.Errorf("%s: a method is malformed", r)
		}
	}
	return nil
}

// isBoundTo reports whether the value of the rule belongs to the host and port of a URL.
func (r HeaderRule) isBoundTo(u *url.URL) bool {
	pattern := strings.ToLower(r.Host)
	suffix, isWild := strings.CutPrefix(pattern, "*.")
	rule, err := parseTarget(u.Scheme+"://"+suffix+"/", nil)
	if err != nil || portOf(rule) != portOf(u) {
		return false
	}
	host, want := u.Hostname(), rule.Hostname()
	return host == want || isWild && strings.HasSuffix(host, "."+want)
}

// appliesTo reports whether a request gets the header of the rule.
func (r HeaderRule) appliesTo(method string, u *url.URL) bool {
	isMethod := len(r.Methods) == 0 || slices.ContainsFunc(r.Methods, func(m string) bool { return strings.EqualFold(m, method) })
	return isMethod && (u.Scheme == "https" || r.Plain) && r.isBoundTo(u)
}

// inject returns the headers of a request with those of the rules. The names of the added
// ones are in added.
func inject(rules []HeaderRule, method string, u *url.URL, headers []header) (all []header, added []string) {
	all = slices.Clone(headers)
	for _, r := range rules {
		if !r.appliesTo(method, u) {
			continue
		}
		name := strings.ToLower(r.Header)
		isName := func(h header) bool { return h.name == name }
		if r.KeepScripts && slices.ContainsFunc(all, isName) {
			continue
		}
		all = append(slices.DeleteFunc(all, isName), header{name, r.Value})
		added = append(added, name)
	}
	return all, added
}

// ParseHeaderFlag parses a rule of the form
// "host=HOST,header=NAME,value=VALUE[,methods=GET;POST][,override=false][,plain=true]". In
// VALUE, ${NAME} is replaced with a variable from lookup, and ${file:PATH} with the text of
// a file; one of them is required, because other users can see the flags of a process.
func ParseHeaderFlag(text string, lookup func(string) (string, bool)) (HeaderRule, error) {
	r := HeaderRule{}
	var hasReference bool
	for _, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return r, errors.New("a rule has the form host=HOST,header=NAME,value=VALUE; put values with a comma in the file of --fetch-header-config")
		}
		switch strings.TrimSpace(key) {
		case "host":
			r.Host = value
		case "header":
			r.Header = value
		case "value":
			hasReference = reference.MatchString(value)
			var err error
			if r.Value, err = expand(value, lookup); err != nil {
				return r, fmt.Errorf("%s: %w", r, err)
			}
		case "methods":
			r.Methods = strings.Split(value, ";")
		case "override":
			r.KeepScripts = value == "false"
		case "plain":
			r.Plain = value == "true"
		default:
			return r, fmt.Errorf("%.40q is unknown: a rule has host, header, value, methods, override and plain", key)
		}
	}
	if r.Value != "" && !hasReference {
		return r, fmt.Errorf("%s: the value is visible to other users; take it from the environment with ${NAME} or from a file with ${file:PATH}", r)
	}
	return r, r.Check()
}

// ParseHeaderFile parses a JSON array of rules, each {"host", "methods", "headers": {NAME:
// VALUE}, "override", "plain"}. Values may have the references of ParseHeaderFlag.
func ParseHeaderFile(text []byte, lookup func(string) (string, bool)) ([]HeaderRule, error) {
	var list []struct {
		Host     string            `json:"host"`
		Methods  []string          `json:"methods"`
		Headers  map[string]string `json:"headers"`
		Override *bool             `json:"override"`
		Plain    bool              `json:"plain"`
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, fmt.Errorf("member %s is unknown: a rule has host, methods, headers, override and plain", field)
		}
		return nil, errors.New(`the file must be a JSON array such as [{"host": "api.example.com", "headers": {"Authorization": "Bearer ${TOKEN}"}}]`)
	}
	if d.More() {
		return nil, errors.New("unexpected text follows the JSON")
	}
	var rules []HeaderRule
	for _, one := range list {
		if len(one.Headers) == 0 {
			return nil, fmt.Errorf("the rule for host %.80q has no headers", one.Host)
		}
		for _, name := range slices.Sorted(maps.Keys(one.Headers)) {
			r := HeaderRule{Host: one.Host, Methods: one.Methods, Header: name, KeepScripts: one.Override != nil && !*one.Override, Plain: one.Plain}
			var err error
			if r.Value, err = expand(one.Headers[name], lookup); err == nil {
				err = r.Check()
			} else {
				err = fmt.Errorf("%s: %w", r, err)
			}
			if err != nil {
				return nil, err
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

var reference = regexp.MustCompile(`\$\{(?:file:([^}]+)|([A-Za-z_][A-Za-z0-9_]*))\}`)

// maxSecretFile is the maximum size of a file with a secret, in bytes.
const maxSecretFile = 64 << 10

// expand replaces the references in a value.
func expand(value string, lookup func(string) (string, bool)) (string, error) {
	var problem error
	value = reference.ReplaceAllStringFunc(value, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		if m[1] != "" {
			text, err := readSecret(m[1])
			problem = errors.Join(problem, err)
			return text
		}
		v, ok := lookup(m[2])
		if !ok || v == "" {
			problem = errors.Join(problem, fmt.Errorf("the environment has no %s", m[2]))
		}
		return v
	})
	return value, problem
}

// readSecret reads a file that other users cannot read. It removes one line end.
func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular() || info.Size() > maxSecretFile:
		return "", fmt.Errorf("read secret file %s: it must be a file of at most %d KiB", filepath.Base(path), maxSecretFile>>10)
	case mode.Perm()&0o007 != 0:
		return "", fmt.Errorf("read secret file %s: mode %04o lets other users read it; run chmod 600 %[1]s", path, mode.Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}
