package cli_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"daybook/embed"
)

// The error of a start with a bad option names the flag and not the field of embed.Options.
func TestOptionErrorsNameFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	servers := written(t, "servers.json", `{"mcpServers": {"one": {"command": "/bin/false"}}}`)
	broken := written(t, "broken.json", `{"mcpServers": {"a b": {"command": "/bin/false"}}}`)
	field := regexp.MustCompile(`\b(` + strings.Join(fieldsOf(reflect.TypeFor[embed.Options]()), "|") + `)( is |: )`)
	for _, test := range []struct{ args, want string }{
		{"--seal-bytes 10", "--seal-bytes is 10: the least is 1 MiB (1048576)"},
		{"--heap-retention 1m", "--heap-retention is 1m0s: it must be 1h0m0s or more"},
		{"--public-url bogus", `--public-url is "bogus": give a URL without a path`},
		{"--public-url https://* --seal-bytes 10", "--public-url is \"https://*\": give a URL without a path, such as https://book.example.com\n--seal-bytes is 10: "},
		{"--witness-policy " + file, "--witness-policy: "},
		{"--witness-url bogus", `--witness-url: the witness "bogus" is not the URL of an HTTP server`},
		{"--session-id " + strings.Repeat("a", 300), "--session-id: session must be 1 to 128 characters, not 300"},
		{"--allowed-host a/b", `--allowed-host: host "a/b": give a name`},
		{"--auth tokens=" + file + "x", "set up the authentication: --auth tokens: there is no token file " + file + "x"},
		{"--auth oidc=bogus --auth-audience a", `set up the authentication: --auth oidc: OIDC issuer "bogus"`},
		{"--auth oidc=https://localhost --auth-audience a --auth-tenant A", `set up the authentication: --auth-tenant: "A" is no tenant`},
		{"--tls-cert " + file + " --tls-key " + file, "open the addresses: --tls-cert: read the TLS certificate"},
		{"--nats-addr bogus", `open the addresses: --nats-addr: NATS address "bogus"`},
		{"--http-addr bogus", `open the addresses: --http-addr: HTTP address "bogus"`},
		{"--mcp-server foo", "--mcp-server: "},
		{"--mcp-server a/b=/bin/false", `--mcp-server: MCP server "a/b": the name must be`},
		{"--mcp-server one=/bin/false --mcp-server one=/bin/false", `--mcp-server: MCP server "one" is configured twice`},
		{"--mcp-server one=/bin/false --mcp-config " + servers, `--mcp-server: MCP server "one" is configured twice`},
		{"--mcp-config " + file + "x", "--mcp-config: open " + file + "x: no such file"},
		{"--mcp-config " + file, "--mcp-config " + file + ": "},
		{"--mcp-config " + broken, "--mcp-config " + broken + `: MCP server "a b": the name must be`},
		{"--data-dir=", "--data-dir is empty: name the directory"},
		{"--data-dir " + file, "take the data directory: --data-dir: mkdir " + file},
		{"--erasable-sessions --key-dir " + file, "open the ledger: --key-dir: create the key directory: mkdir " + file},
	} {
		args := []string{"serve"}
		for flag, value := range map[string]string{"--data-dir": filepath.Join(dir, "data"), "--http-addr": "127.0.0.1:0", "--nats-addr": "off"} {
			if !strings.Contains(test.args, flag) {
				args = append(args, flag, value)
			}
		}
		got := daybook("", append(args, strings.Fields(test.args)...)...)
		if got.status != 2 || !strings.HasPrefix(got.err, "daybook: "+test.want) || field.MatchString(got.err) {
			t.Errorf("serve %s: status %d, %q, want %q", test.args, got.status, got.err, test.want)
		}
	}
}

// Tool servers on the command line of a client are checked also if the running owner has
// others.
func TestToolServersOfAttachedClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book, err := embed.Start(t.Context(), embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true, DrainWait: -1}, NATS: embed.NATSOptions{NoSync: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	for _, command := range []string{"mcp", "acp"} {
		for args, want := range map[string]string{
			"--mcp-server foo":            "daybook: --mcp-server: ",
			"--mcp-server a/b=/bin/false": `daybook: --mcp-server: MCP server "a/b": the name must be`,
			"--mcp-server one=/bin/false --mcp-server one=https://host/x": `daybook: --mcp-server: MCP server "one" is configured twice`,
		} {
			got := daybook("", append([]string{command, "--data-dir", dir}, strings.Fields(args)...)...)
			if got.status != 2 || got.stdout != "" || !strings.HasPrefix(got.err, want) {
				t.Errorf("%s %s: status %d, stdout %q, stderr %q", command, args, got.status, got.stdout, got.err)
			}
		}
	}
}

// fieldsOf returns the names of the fields of a struct and of the structs in it.
func fieldsOf(s reflect.Type) (names []string) {
	for f := range s.Fields() {
		names = append(names, f.Name)
		if f.Type.Kind() == reflect.Struct {
			names = append(names, fieldsOf(f.Type)...)
		}
	}
	return names
}
