package toolserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Transport is the MCP transport of a server.
type Transport string

// The transports of MCP.
const (
	Stdio Transport = "stdio" // a child process
	HTTP  Transport = "http"  // Streamable HTTP
	SSE   Transport = "sse"   // the HTTP+SSE transport of 2024
)

// Config is the configuration of one server.
type Config struct {
	// Name is the server's name in scripts: 1 to 64 letters, digits, "_", "-" and ".".
	Name string
	// Transport may be empty, which means Stdio with a Command and HTTP with a URL.
	Transport Transport
	// Command is the program of a Stdio server, Args its arguments and Dir its working
	// directory (empty: that of this process). The program gets Env and, from the
	// environment of this process, only a few variables such as HOME, LANG and PATH: see
	// inheritedVariables.
	Command string
	Args    []string
	Env     map[string]string
	Dir     string
	// URL is the address of an HTTP or SSE server. Headers are sent with every request to
	// it. A user and a password in the URL are sent as an Authorization header, unless
	// Headers has one.
	URL     string
	Headers map[string]string
	// Roots are absolute paths of directories that the server gets as its roots, in this
	// order. If it is empty, no roots are declared.
	Roots []string
	// Tenants are the tenants that may call the server; nil means all.
	Tenants []string
	// Timeout limits one call. Default: Options.CallTimeout.
	Timeout time.Duration

	// secrets are the values that replaced references, such as ${NAME}, in the
	// configuration file.
	secrets []string
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// String returns the name, the transport, and the program or host of the server. It
// contains no secret.
func (c Config) String() string {
	switch c.transport() {
	case Stdio:
		return fmt.Sprintf("%s (stdio, %s)", c.Name, filepath.Base(c.Command))
	default:
		host := "malformed URL"
		if u, err := url.Parse(c.URL); err == nil {
			host = u.Host
		}
		return fmt.Sprintf("%s (%s, %s)", c.Name, c.transport(), host)
	}
}

// GoString returns String, because %#v would print the secrets.
func (c Config) GoString() string { return c.String() }

// LogValue returns String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

func (c Config) transport() Transport {
	switch {
	case c.Transport != "":
		return c.Transport
	case c.Command != "":
		return Stdio
	default:
		return HTTP
	}
}

// Check returns all errors in the configuration. They contain no secrets.
func (c Config) Check() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(c.Name) {
		add(`the name must be 1 to 64 letters, digits, "_", "-" and "."`)
	}
	switch c.transport() {
	case Stdio:
		if c.Command == "" {
			add("transport stdio needs a command")
		}
		if c.URL != "" || len(c.Headers) > 0 {
			add("a command takes no url and no headers")
		}
		for name, value := range c.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
				add("an environment variable is malformed")
			}
		}
		if slices.ContainsFunc(append([]string{c.Command, c.Dir}, c.Args...), func(s string) bool { return strings.Contains(s, "\x00") }) {
			add("the command contains a NUL byte")
		}
	case HTTP, SSE:
		if c.Command != "" || len(c.Args) > 0 || len(c.Env) > 0 {
			add("a url takes no command, args or env")
		}
		if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			add("the url must begin with http:// or https:// and name a host")
		}
		for name, value := range c.Headers {
			if !headerForm.MatchString(name) || strings.ContainsAny(value, "\r\n\x00") {
				add("a header is malformed")
			}
		}
	default:
		add(`the transport must be "stdio", "http" or "sse"`)
	}
	if c.Timeout < 0 {
		add("the timeout is negative")
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("MCP server %.80q: %w", c.Name, err)
	}
	return nil
}

var headerForm = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// CheckAll checks configurations, and that their names differ.
func CheckAll(configs []Config) error {
	var problems []error
	seen := map[string]bool{}
	for _, c := range configs {
		if err := c.Check(); err != nil {
			problems = append(problems, err)
		}
		if seen[c.Name] {
			problems = append(problems, fmt.Errorf("MCP server %.80q is configured twice", c.Name))
		}
		seen[c.Name] = true
	}
	return errors.Join(problems...)
}

// entry is a server in a configuration file.
type entry struct {
	Type        string            `json:"type"`
	Transport   string            `json:"transport"`
	Command     string            `json:"command"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	Cwd         string            `json:"cwd"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	Tenants     []string          `json:"tenants"`
	TimeoutSecs int               `json:"timeout_secs"`
	Disabled    bool              `json:"disabled"`
}

// ParseFile parses the {"mcpServers": {name: {...}}} object of MCP clients. It replaces
// ${NAME} and ${NAME:-default} in command, args, env, cwd, url and headers with values
// from lookup, so that a file need not contain secrets. An unknown member is an error.
func ParseFile(text []byte, lookup func(string) (string, bool)) ([]Config, error) {
	var file struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := decodeStrict(text, &file); err != nil {
		return nil, fmt.Errorf("MCP configuration: %w", err)
	}
	if file.MCPServers == nil {
		return nil, errors.New(`MCP configuration: there is no "mcpServers" object`)
	}
	var configs []Config
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(file.MCPServers)) {
		var e entry
		if err := decodeStrict(file.MCPServers[name], &e); err != nil {
			problems = append(problems, fmt.Errorf("MCP server %.80q: %w", name, err))
			continue
		}
		if e.Disabled {
			continue
		}
		c, err := e.config(name, lookup)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		configs = append(configs, c)
	}
	return configs, errors.Join(problems...)
}

// decodeStrict decodes one JSON value without unknown members. Its errors contain no
// values.
func decodeStrict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	var kind *json.UnmarshalTypeError
	_, rest := d.Token() // More would return false before "}" and "]"
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%q must not be %s", kind.Field, strings.SplitN(kind.Value, " ", 2)[0])
	case err != nil && strings.HasPrefix(err.Error(), "json: unknown field"):
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json: "))
	case err != nil:
		return errors.New("it is not well-formed JSON")
	case !errors.Is(rest, io.EOF):
		return errors.New("unexpected text follows the JSON")
	}
	return nil
}

func (e entry) config(name string, lookup func(string) (string, bool)) (Config, error) {
	x := expander{lookup: lookup}
	const maxSecs = math.MaxInt64 / int(time.Second)
	if e.TimeoutSecs > maxSecs || e.TimeoutSecs < -maxSecs {
		return Config{}, fmt.Errorf("MCP server %.80q: timeout_secs must be at most %d", name, maxSecs)
	}
	c := Config{
		Name:      name,
		Transport: Transport(cmpOr(e.Transport, e.Type)),
		Command:   x.expand(e.Command),
		Dir:       x.expand(e.Cwd),
		URL:       x.expand(e.URL),
		Tenants:   e.Tenants,
		Timeout:   time.Duration(e.TimeoutSecs) * time.Second,
	}
	if c.Transport == "streamable-http" || c.Transport == "streamableHttp" {
		c.Transport = HTTP
	}
	for _, a := range e.Args {
		c.Args = append(c.Args, x.expand(a))
	}
	c.Env, c.Headers = x.all(e.Env), x.all(e.Headers)
	c.secrets = x.used
	if len(x.missing) > 0 {
		slices.Sort(x.missing)
		return c, fmt.Errorf("MCP server %.80q: the environment has no %s", name, strings.Join(slices.Compact(x.missing), ", "))
	}
	return c, nil
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// expander replaces references to variables. It collects the values that it inserted in
// used, and the names of variables without a value in missing.
type expander struct {
	lookup  func(string) (string, bool)
	used    []string
	missing []string
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

func (x *expander) expand(s string) string {
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		if v, ok := x.lookup(m[1]); ok {
			x.used = append(x.used, v)
			return v
		}
		if m[2] == "" {
			x.missing = append(x.missing, m[1])
		}
		return m[3]
	})
}

func (x *expander) all(from map[string]string) map[string]string {
	if from == nil {
		return nil
	}
	to := make(map[string]string, len(from))
	for k, v := range from {
		to[k] = x.expand(v)
	}
	return to
}
