package mcp_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/mcp"
)

var update = flag.Bool("update", false, "rewrite golden files and transcripts")

// listed is the part of a tool that a model sees.
type listed struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  struct {
		ReadOnly    bool  `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		Idempotent  bool  `json:"idempotentHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	} `json:"annotations"`
}

func listTools(t testing.TB, opts mcp.Options) (raw json.RawMessage, tools []listed) {
	t.Helper()
	p := openPipe(t, new(fakeStack).serve(t, opts), "")
	p.initialize()
	raw = p.call("tools/list", `{}`)
	if err := p.close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	var list struct{ Tools []listed }
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return raw, list.Tools
}

// TestToolsList pins the complete list of tools: names, arguments, answers, hints and
// texts.
func TestToolsList(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]mcp.Options{"stateful": {}, "stateless": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, _ := listTools(t, opts)
			var got bytes.Buffer
			if err := json.Indent(&got, raw, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden(t, "tools_"+name+".json", got.Bytes())
		})
	}
}

func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update if that is meant:\n%s", path, diff)
	}
}

// TestDescriptionBudget bounds the names, texts and arguments of all tools, which every
// conversation of a model begins with, to fewer than 1,500 tokens. It counts four
// characters as a token. In the vocabularies o200k and cl100k, a token of these texts has
// 4.6 characters, so the count is a little too high.
func TestDescriptionBudget(t *testing.T) {
	t.Parallel()
	_, tools := listTools(t, mcp.Options{})
	chars := 0
	for _, tool := range tools {
		n := len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
		t.Logf("%-24s %5d", tool.Name, n)
		chars += n
	}
	tokens := chars / 4
	t.Logf("about %d tokens", tokens)
	if three := 3 * tokens / len(tools); tokens+three >= 1500 {
		t.Errorf("the tools take about %d tokens, so three more of average size, about %d tokens, have no space", tokens, three)
	}
}

// TestHints checks that the hints of each tool match what it does.
func TestHints(t *testing.T) {
	t.Parallel()
	_, tools := listTools(t, mcp.Options{})
	changes := map[string]bool{"run_js": true, "cancel_execution": true, "set_heap_tags": true, "delete_heap_tags": true, "open_session": true, "reset_session": true, "set_context": true, "context_clear": true}
	destroys := map[string]bool{"reset_session": true, "cancel_execution": true, "set_heap_tags": true, "delete_heap_tags": true, "set_context": true, "context_clear": true}
	for _, tool := range tools {
		a := tool.Annotations
		if a.ReadOnly == changes[tool.Name] {
			t.Errorf("%s: readOnlyHint is %t", tool.Name, a.ReadOnly)
		}
		if a.Destructive == nil || *a.Destructive != destroys[tool.Name] {
			t.Errorf("%s: destructiveHint is %v, want %t", tool.Name, a.Destructive, destroys[tool.Name])
		}
		if want := tool.Name != "run_js"; a.Idempotent != want {
			t.Errorf("%s: idempotentHint is %t", tool.Name, a.Idempotent)
		}
		if a.OpenWorld == nil || *a.OpenWorld {
			t.Errorf("%s: openWorldHint must be false: a script reaches nothing outside", tool.Name)
		}
	}
}

// TestHintsOfRuns checks that run_js declares that it may reach outside and delete data
// if scripts can call MCP servers.
func TestHintsOfRuns(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		for _, calls := range []bool{false, true} {
			_, tools := listTools(t, mcp.Options{Stateless: stateless, CallsServers: func(tenant string) bool { return calls && tenant == events.DefaultTenant }})
			for _, tool := range tools {
				want := calls && tool.Name == "run_js"
				if a := tool.Annotations; a.OpenWorld == nil || *a.OpenWorld != want || tool.Name == "run_js" && *a.Destructive != want {
					t.Errorf("stateless %t, servers %t: %s has the hints %+v", stateless, calls, tool.Name, a)
				}
			}
		}
	}
}

// TestOperatorTexts checks that an operator's own texts are used.
func TestOperatorTexts(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		opts := mcp.Options{Stateless: stateless, Instructions: "Our instructions.", RunJSDescription: "Our run_js.", Version: "1.2.3"}
		p := openPipe(t, new(fakeStack).serve(t, opts), "")
		var init struct {
			Instructions string
			ServerInfo   struct{ Name, Version string }
		}
		if err := json.Unmarshal(p.initialize(), &init); err != nil {
			t.Fatal(err)
		}
		if init.Instructions != "Our instructions." || init.ServerInfo.Name != "daybook" || init.ServerInfo.Version != "1.2.3" {
			t.Errorf("initialize answers %+v", init)
		}
		_, tools := listTools(t, opts)
		for _, tool := range tools {
			if tool.Name == "run_js" && tool.Description != "Our run_js." {
				t.Errorf("stateless %t: run_js is described as %q", stateless, tool.Description)
			}
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
