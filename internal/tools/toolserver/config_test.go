package toolserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"daybook/internal/tools/toolserver"
)

func environment(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": secret, "EMPTY": ""}[name]
	return v, ok
}

func TestParseFile(t *testing.T) {
	configs, err := toolserver.ParseFile([]byte(`{"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "files", "${HOME_DIR:-/srv}"], "env": {"KEY": "${TOKEN}"}, "cwd": "/tmp"},
		"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "tenants": ["acme"], "timeout_secs": 5},
		"old": {"transport": "sse", "url": "http://localhost:1/sse"},
		"off": {"command": "x", "disabled": true}}}`), environment)
	if err != nil || len(configs) != 3 {
		t.Fatalf("%d servers, %v", len(configs), err)
	}
	files, old, web := configs[0], configs[1], configs[2]
	if !slices.Equal(files.Args, []string{"-y", "files", "/srv"}) || files.Env["KEY"] != secret || files.Dir != "/tmp" {
		t.Errorf("files: %q %q", files.Args, files.Dir)
	}
	if old.Transport != toolserver.SSE || web.Transport != toolserver.HTTP || web.Headers["Authorization"] != "Bearer "+secret || web.Tenants[0] != "acme" || web.Timeout.Seconds() != 5 {
		t.Errorf("the others: %v %v", old, web)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, configs); strings.Contains(text, secret) || !strings.Contains(text, "files (stdio, npx)") {
			t.Errorf("%s shows %s", format, text)
		}
	}
}

func TestParseFileProblems(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{`, "it is not well-formed JSON"},
		{`{}`, `there is no "mcpServers" object`},
		{`{"mcpServers": {}, "more": 1}`, `unknown field "more"`},
		{`{"mcpServers": {"a": {"comand": "x"}}}`, `MCP server "a": unknown field "comand"`},
		{`{"mcpServers": {"a": {"command": 5}}}`, `"command" must not be number`},
		{`{"mcpServers": {"a": {}}}`, `the url must begin with`},
		{`{"mcpServers": {"a b": {"command": "x"}}}`, "the name must be"},
		{`{"mcpServers": {"a": {"command": "x", "env": {"K": "${NONE}"}}}}`, "the environment has no NONE"},
		{`{"mcpServers": {"a": {"command": "x", "url": "http://h"}}}`, "takes no url"},
		{`{"mcpServers": {"a": {"url": "ftp://user:` + secret + `@h"}}}`, "must begin with http"},
		{`{"mcpServers": {"a": {"url": "http://h", "headers": {"X": "a\nb ` + secret + `"}}}}`, "a header is malformed"},
		{`{"mcpServers": {"a": {"type": "carrier pigeon", "url": "http://h"}}}`, "the transport must be"},
		{`{"mcpServers": {"a": {"command": "x", "timeout_secs": -1}}}`, "the timeout is negative"},
		{`{"mcpServers": {"a": {"command": "x", "timeout_secs": 18446744074}}}`, "timeout_secs must be at most 9223372036"},
		{`{"mcpServers": {"a": {"command": "x", "timeout_secs": -18446744073}}}`, "timeout_secs must be at most 9223372036"},
		{`{"mcpServers": {}} {}`, "unexpected text follows"},
		{`{"mcpServers": {}} }`, "unexpected text follows"},
		{`{"mcpServers": {}}]`, "unexpected text follows"},
	} {
		_, err := toolserver.ParseFile([]byte(test.text), environment)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", test.text, err, test.want)
		}
	}
}

func TestParseFlag(t *testing.T) {
	for _, test := range []struct {
		flag, want string
		args       []string
	}{
		{`files=npx -y "my files" 'a b'`, "files (stdio, npx)", []string{"-y", "my files", "a b"}},
		{`f=cmd a\ b "" "q\"q"`, "f (stdio, cmd)", []string{"a b", "", `q"q`}},
		{"web=https://user:" + secret + "@example.com/mcp?key=" + secret, "web (http, example.com)", nil},
		{"old=http://localhost:3000/sse", "old (sse, localhost:3000)", nil},
	} {
		c, err := toolserver.ParseFlag(test.flag)
		if err != nil || c.String() != test.want || !slices.Equal(c.Args, test.args) {
			t.Errorf("%s: %s %q, %v", test.flag, c, c.Args, err)
		}
	}
	for flag, want := range map[string]string{
		"files": "name=command", "=x": "the name must be", "a=": "needs a command", `a="x`: "ends inside quotes", "a=http://": "name a host",
	} {
		if _, err := toolserver.ParseFlag(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
	if err := toolserver.CheckAll([]toolserver.Config{{Name: "a", Command: "x"}, {Name: "a", Command: "y"}}); err == nil || !strings.Contains(err.Error(), "configured twice") {
		t.Errorf("two of a name: %v", err)
	}
}

// Any file gives valid configurations, or an error that contains nothing of the
// environment.
func FuzzParseFile(f *testing.F) {
	f.Add(`{"mcpServers":{"a":{"command":"x","args":["${TOKEN}"],"env":{"A":"${TOKEN}"}}}}`)
	f.Add(`{"mcpServers":{"a":{"url":"https://u:${TOKEN}@h/${TOKEN}","headers":{"a":"${TOKEN}"}}}}`)
	f.Add(`{"mcpServers":{"${TOKEN}":{"type":"${TOKEN}","command":"${TOKEN}\u0000"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		configs, err := toolserver.ParseFile([]byte(text), environment)
		if err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(text, secret) {
			t.Errorf("the error tells a secret: %v", err)
		}
		for _, c := range configs {
			if err := c.Check(); err != nil {
				t.Errorf("an invalid configuration: %v", err)
			}
		}
	})
}

// A flag is split into the words that it was quoted from.
func FuzzParseFlag(f *testing.F) {
	f.Add("cmd", "a b")
	f.Add("'", `\`)
	f.Fuzz(func(t *testing.T, command, argument string) {
		quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
		c, err := toolserver.ParseFlag("n=" + quote(command) + " " + quote(argument))
		if strings.ContainsRune(command+argument, 0) || command == "" || strings.ToValidUTF8(command+argument, "?") != command+argument {
			return
		}
		if err != nil || c.Command != command || !slices.Equal(c.Args, []string{argument}) {
			t.Errorf("%q %q became %q %q, %v", command, argument, c.Command, c.Args, err)
		}
	})
}
