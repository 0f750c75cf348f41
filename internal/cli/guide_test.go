package cli_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// snippet is a server in the configuration of a client.
type snippet struct {
	name string // heading above it, and its peculiarity

	Command string            `json:"command"`
	Args    []string          `json:"args"`
	URL     string            `json:"url"`
	HTTPURL string            `json:"httpUrl"`
	Type    string            `json:"type"`
	Headers map[string]string `json:"headers"`
}

var (
	guideBlock   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	guideHeading = regexp.MustCompile(`(?m)^## (.*)$`)
)

// guideSnippets reads the configurations in the guide. A block that is neither a known
// configuration nor a command that adds one fails the test.
func guideSnippets(t *testing.T) []snippet {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "mcp-clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list []snippet
	for _, at := range guideBlock.FindAllSubmatchIndex(raw, -1) {
		language, body := string(raw[at[2]:at[3]]), raw[at[4]:at[5]]
		heading := "start"
		if before := guideHeading.FindAllSubmatch(raw[:at[0]], -1); len(before) > 0 {
			heading = string(before[len(before)-1][1])
		}
		switch language {
		case "text": // not a configuration
		case "sh":
			_, command, ok := strings.Cut(strings.TrimSpace(string(body)), " -- ")
			words := strings.Fields(command)
			if !ok || len(words) == 0 || strings.ContainsAny(command, "\n\"'$\\") {
				t.Errorf("under %q: %q adds no plain command", heading, body)
				continue
			}
			list = append(list, snippet{name: heading, Command: words[0], Args: words[1:]})
		case "json":
			var config map[string]map[string]snippet
			if err := json.Unmarshal(body, &config); err != nil || len(config) != 1 {
				t.Errorf("under %q: %v in %s", heading, err, body)
				continue
			}
			for outer, servers := range config {
				if !slices.Contains([]string{"mcpServers", "servers", "context_servers"}, outer) {
					t.Errorf("under %q: no client reads %q", heading, outer)
				}
				for _, s := range servers {
					s.name = heading
					list = append(list, s)
				}
			}
		default:
			t.Errorf("under %q: a block of %s, which this test cannot check", heading, language)
		}
	}
	return list
}

// headers adds the headers of a configuration to requests.
type headers struct{ add map[string]string }

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h.add {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Every snippet of the guide for MCP clients starts a server, which runs a script and logs it
// under the session name of the snippet.
func TestGuideForMCPClients(t *testing.T) {
	t.Parallel()
	snippets := guideSnippets(t)
	if len(snippets) < 10 {
		t.Fatalf("the guide has only %d snippets", len(snippets))
	}
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	book := serve(t)
	for _, s := range snippets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			client := sdk.NewClient(&sdk.Implementation{Name: "guide", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), s.transport(t, bin, book.URL()), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			call := func(tool string, args map[string]any) string {
				t.Helper()
				r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
				if err != nil || r.IsError || len(r.Content) == 0 {
					t.Fatalf("%s: %+v, %v", tool, r, err)
				}
				return r.Content[0].(*sdk.TextContent).Text
			}
			answer := call("run_js", map[string]any{"code": "console.log(6 * 7)"})
			if slices.Contains(s.Args, "--stateless") {
				if !strings.Contains(answer, "42") {
					t.Errorf("run_js answered %s", answer)
				}
				return
			}
			var run struct {
				ExecutionID string `json:"execution_id"`
			}
			if err := json.Unmarshal([]byte(answer), &run); err != nil || run.ExecutionID == "" {
				t.Fatalf("run_js answered %s, %v", answer, err)
			}
			for status := ""; status != "completed"; {
				var e struct {
					Status string `json:"status"`
				}
				if err := json.Unmarshal([]byte(call("get_execution", map[string]any{"execution_id": run.ExecutionID})), &e); err != nil || e.Status != "running" && e.Status != "completed" {
					t.Fatalf("get_execution: %+v, %v", e, err)
				}
				status = e.Status
			}
			// The entry of a session follows the end of its run.
			for log, ended := "", time.Now(); !strings.Contains(log, "console.log(6 * 7)"); log = call("list_session_snapshots", nil) {
				if time.Since(ended) > patience {
					t.Fatalf("the session's log is %s", log)
				}
			}
			if names := call("list_sessions", nil); !strings.Contains(names, `"`+s.session()+`"`) {
				t.Errorf("the sessions are %s, without %q", names, s.session())
			}
		})
	}
}

// session returns the session name of the snippet.
func (s snippet) session() string {
	if i := slices.Index(s.Args, "--session-id"); i >= 0 {
		return s.Args[i+1]
	}
	return s.Headers["X-MCP-Session-Id"]
}

// transport connects like a client with the snippet, but to the program and the server of this
// test.
func (s snippet) transport(t *testing.T, bin, server string) sdk.Transport {
	t.Helper()
	if s.Command != "" {
		if s.Command != "daybook" || s.URL != "" || s.HTTPURL != "" || s.Type != "" && s.Type != "stdio" {
			t.Fatalf("%+v does not start daybook", s)
		}
		cmd := exec.Command(bin, s.Args...)
		home := t.TempDir()
		cmd.Dir = t.TempDir()
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		dir := dataDirOf(home, s.Args)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cmd.Dir, dir)
		}
		stopOwnerAtEnd(t, dir)
		return &sdk.CommandTransport{Command: cmd}
	}
	address := s.URL
	if address == "" {
		address = s.HTTPURL
	}
	at, err := url.Parse(address)
	if err != nil || at.Host != "127.0.0.1:8080" || at.Path != "/mcp" || s.Type != "" && s.Type != "http" {
		t.Fatalf("%+v is not the address of a server with the default port: %v", s, err)
	}
	return &sdk.StreamableClientTransport{Endpoint: server + at.Path, HTTPClient: &http.Client{Transport: headers{s.Headers}}}
}
