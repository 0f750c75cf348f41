package fetcher

import (
	"cmp"
	"context"
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

// HeaderRule adds a header to requests to one host. Its value may be a secret, or an access
// token that the Fetcher gets from a token endpoint.
type HeaderRule struct {
	// Host is a host, or *.example.com for all hosts below example.com and example.com
	// itself. It may have a port; without one it means the default port of the scheme.
	Host string
	// Methods are the methods of the requests that get the header; nil means all.
	Methods []string
	// Header and Value are the header. Value is empty if OAuth is set.
	Header, Value string
	// OAuth gets access tokens, and the header is "Bearer " and a token; nil for a fixed value.
	OAuth *OAuth
	// KeepScripts leaves a header that the script has set. Without it, the rule replaces
	// that header. A rule with OAuth always leaves it.
	KeepScripts bool
	// Plain adds the header to requests over http too, and not only over https. It permits a
	// token endpoint with http.
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
	case r.OAuth != nil && r.Value != "":
		return fmt.Errorf("%s: a rule has either a value or OAuth", r)
	case r.OAuth != nil:
		if err := r.OAuth.check(r.Plain); err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
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

// rule is a HeaderRule of a Fetcher.
type rule struct {
	HeaderRule
	tokens *tokenSource // nil for a fixed value
}

// usedToken is an access token in a request.
type usedToken struct {
	source *tokenSource
	token  *accessToken
}

// inject returns the headers of a request with those of the rules, and the names of the added
// ones. It waits for access tokens and adds them to x.tokens.
func (x *exchange) inject(ctx context.Context, r *request) (all []header, added []string, err error) {
	all = slices.Clone(r.headers)
	for _, rule := range x.fetcher.rules {
		if !rule.appliesTo(r.method, r.target) {
			continue
		}
		name, value := strings.ToLower(rule.Header), rule.Value
		isName := func(h header) bool { return h.name == name }
		if (rule.KeepScripts || rule.tokens != nil) && slices.ContainsFunc(all, isName) {
			continue
		}
		if rule.tokens != nil {
			token, err := rule.tokens.take(ctx)
			if err != nil {
				return nil, nil, err
			}
			x.tokens = append(x.tokens, usedToken{rule.tokens, token})
			value = token.value
		}
		all = append(slices.DeleteFunc(all, isName), header{name, value})
		added = append(added, name)
	}
	return all, added, nil
}

// errVisible is returned for a secret in the flag of a process.
var errVisible = errors.New("the value is visible to other users; take it from the environment with ${NAME} or from a file with ${file:PATH}")

// ParseHeaderFlag parses a rule of the form
// "host=HOST,header=NAME,value=VALUE[,methods=GET;POST][,override=false][,plain=true]". In
// VALUE, ${NAME} is replaced with a variable from lookup, and ${file:PATH} with the text of
// a file; one of them is required, because other users can see the flags of a process.
//
// In place of value, a rule with OAuth has "token_url=URL,client_id=ID,client_secret=VALUE
// [,scope=SCOPE][,refresh_buffer_secs=30]". Its header is Authorization by default.
func ParseHeaderFlag(text string, lookup func(string) (string, bool)) (HeaderRule, error) {
	r := HeaderRule{}
	var hasOverride bool
	for _, part := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return r, errors.New("a rule has the form host=HOST,header=NAME,value=VALUE; put values with a comma in the file of --fetch-header-config")
		}
		var err error
		switch key = strings.TrimSpace(key); key {
		case "host":
			r.Host = value
		case "header":
			r.Header = value
		case "value":
			if value != "" && !reference.MatchString(value) {
				err = errVisible
			} else {
				r.Value, err = expand(value, lookup)
			}
		case "methods":
			r.Methods = strings.Split(value, ";")
		case "override":
			r.KeepScripts, hasOverride = value == "false", true
		case "plain":
			r.Plain = value == "true"
		case "token_url", "client_id", "client_secret", "scope", "refresh_buffer_secs":
			if r.OAuth == nil {
				r.OAuth = &OAuth{}
			}
			err = r.OAuth.setFlag(key, value, lookup)
		default:
			return r, fmt.Errorf("%.40q is unknown: a rule has host, header, value, methods, override and plain, or token_url, client_id, client_secret, scope and refresh_buffer_secs in place of value", key)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", r, err)
		}
	}
	if r.OAuth != nil {
		r.Header = cmp.Or(r.Header, defaultOAuthHeader)
		if hasOverride {
			return r, fmt.Errorf("%s: %w", r, errOverride)
		}
	}
	return r, r.Check()
}

// errOverride is returned for an OAuth rule that could replace headers.
var errOverride = errors.New("a rule with OAuth never replaces a header of a script; remove override")

// ParseHeaderFile parses a JSON array of rules, each {"host", "methods", "headers": {NAME:
// VALUE}, "override", "plain"}, or with OAuth {"host", "methods", "auth": {"type":
// "oauth_client_credentials", "header", "token_url", "client_id", "client_secret", "scope",
// "refresh_buffer_secs"}, "plain"}. Values may have the references of ParseHeaderFlag.
func ParseHeaderFile(text []byte, lookup func(string) (string, bool)) ([]HeaderRule, error) {
	var list []fileRule
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return nil, fmt.Errorf("member %s is unknown: a rule has host, methods, headers, override and plain, or auth in place of headers, with type, header, token_url, client_id, client_secret, scope and refresh_buffer_secs", field)
		}
		return nil, errors.New(`the file must be a JSON array such as [{"host": "api.example.com", "headers": {"Authorization": "Bearer ${TOKEN}"}}]`)
	}
	if d.More() {
		return nil, errors.New("unexpected text follows the JSON")
	}
	var rules []HeaderRule
	for _, one := range list {
		more, err := one.rules(lookup)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

// fileRule is a rule in a file. It has one header or several.
type fileRule struct {
	Host     string            `json:"host"`
	Methods  []string          `json:"methods"`
	Headers  map[string]string `json:"headers"`
	Auth     *fileAuth         `json:"auth"`
	Override *bool             `json:"override"`
	Plain    bool              `json:"plain"`
}

// rules returns the rules for the headers.
func (f fileRule) rules(lookup func(string) (string, bool)) ([]HeaderRule, error) {
	r := HeaderRule{Host: f.Host, Methods: f.Methods, KeepScripts: f.Override != nil && !*f.Override, Plain: f.Plain}
	if f.Auth != nil {
		r.Header = cmp.Or(f.Auth.Header, defaultOAuthHeader)
		var err error
		switch r.OAuth, err = f.Auth.oauth(lookup); {
		case err != nil:
		case f.Headers != nil:
			err = errors.New("a rule has either headers or auth")
		case f.Override != nil:
			err = errOverride
		default:
			return []HeaderRule{r}, r.Check()
		}
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	if len(f.Headers) == 0 {
		return nil, fmt.Errorf("the rule for host %.80q has no headers", f.Host)
	}
	var list []HeaderRule
	for _, name := range slices.Sorted(maps.Keys(f.Headers)) {
		r.Header = name
		var err error
		if r.Value, err = expand(f.Headers[name], lookup); err != nil {
			return nil, fmt.Errorf("%s: %w", r, err)
		}
		if err := r.Check(); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
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
