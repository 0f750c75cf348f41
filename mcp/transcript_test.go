package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// TestTranscripts plays conversations over stdio framing against a real ledger. In a
// transcript
//
// > is a line to the server, and < the line it answers with;
// await $execution1 waits until that execution has ended,
// started $execution1 until a runner has it, and
// printed $execution1 until it has a line of output.
//
// Ids, heap keys, cursors, times and positions are written as $execution1, $heap1,
// $cursor1, $time and $seq. Later lines can use the first three. The file session holds
// the session name; a file stateless selects the stateless mode. With -update the
// answers are rewritten.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	used := make(chan []string, len(paths))
	t.Run("play", func(t *testing.T) {
		for _, path := range paths {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
				t.Parallel()
				used <- play(t, path)
			})
		}
	})
	close(used)
	called := map[string]bool{}
	for names := range used {
		for _, n := range names {
			called[n] = true
		}
	}
	_, tools := listTools(t, mcp.Options{})
	for _, tool := range tools {
		if !called[tool.Name] {
			t.Errorf("no transcript calls %s", tool.Name)
		}
	}
}

func play(t *testing.T, path string) (called []string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var talk, session string
	stateless := false
	for _, f := range archive.Files {
		switch f.Name {
		case "talk":
			talk = string(f.Data)
		case "session":
			session = strings.TrimSpace(string(f.Data))
		case "stateless":
			stateless = true
		default:
			t.Fatalf("%s: unknown file %s", path, f.Name)
		}
	}
	book := openStack(t, ledger.Options{Stateless: stateless})
	s := book.serve(t, mcp.Options{Stateless: stateless, Version: "test"})
	p := openPipe(t, s, session)
	_, tools := listTools(t, mcp.Options{Stateless: stateless})
	schemas := outputSchemas(t, tools)
	names := newNames()
	var got strings.Builder
	for line := range strings.Lines(talk) {
		line = strings.TrimRight(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "<":
			continue // the line after > is written again
		case "await":
			book.await(t, names.expand(rest))
		case "started":
			book.awaitState(t, names.expand(rest), func(d projections.ExecutionDetail) bool { return !d.Queued })
		case "printed":
			book.awaitState(t, names.expand(rest), func(d projections.ExecutionDetail) bool { return d.TotalLines > 0 })
		case ">":
			p.send(names.expand(rest))
			fmt.Fprintln(&got, line)
			var req struct {
				ID     json.RawMessage
				Params struct{ Name string }
			}
			if err := json.Unmarshal([]byte(names.expand(rest)), &req); err != nil {
				t.Fatalf("%s: %v", rest, err)
			}
			if req.ID == nil {
				continue
			}
			answer := p.receive()
			if tool := req.Params.Name; tool != "" {
				called = append(called, tool)
				var r toolResult
				isTask := bytes.Contains(answer["result"], []byte(`"taskId"`))
				if err := json.Unmarshal(answer["result"], &r); err == nil && !r.IsError && !isTask {
					checkAnswer(t, tool, schemas[tool], r)
				}
			}
			fmt.Fprintf(&got, "< %s\n", names.normalize(reorder(t, answer)))
			continue
		}
		fmt.Fprintln(&got, line)
	}
	if err := p.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if *update {
		for i, f := range archive.Files {
			if f.Name == "talk" {
				archive.Files[i].Data = []byte(got.String())
			}
		}
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(talk, got.String()); diff != "" {
		t.Errorf("%s (-want +got); run with -update if that is meant:\n%s", path, diff)
	}
	return called
}

// reorder writes an answer with its members in the order of the protocol's documents,
// and without the members that every answer has.
func reorder(t testing.TB, m map[string]json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	for _, key := range []string{"id", "result", "error"} {
		v, ok := m[key]
		if !ok {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", key, v)
	}
	return "{" + b.String() + "}"
}

// replacements gives a name to each value that differs from run to run, in order of
// appearance.
type replacements struct {
	byValue map[string]string
	byName  map[string]string
	count   map[string]int
}

func newNames() *replacements {
	return &replacements{byValue: map[string]string{}, byName: map[string]string{}, count: map[string]int{}}
}

var (
	varyingPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|"daybook/sequence":\d+`)
	cursor         = regexp.MustCompile(`next_cursor\\?":\\?"([^"\\]+)`)
	queuedPattern  = regexp.MustCompile(`\\?"queued_ms\\?":\d+,`) // a run cancelled early has none
	namePattern    = regexp.MustCompile(`\$[a-z]+\d+`)
)

func (n *replacements) normalize(s string) string {
	s = queuedPattern.ReplaceAllString(s, "")
	s = cursor.ReplaceAllStringFunc(s, func(m string) string {
		v := cursor.FindStringSubmatch(m)[1]
		return strings.TrimSuffix(m, v) + n.nameOf("cursor", v)
	})
	return varyingPattern.ReplaceAllStringFunc(s, func(v string) string {
		kind := "execution"
		switch {
		case strings.HasPrefix(v, `"daybook`):
			return `"daybook/sequence":"$seq"`
		case strings.Contains(v, "T"):
			return "$time"
		case len(v) == 64:
			kind = "heap"
		}
		return n.nameOf(kind, v)
	})
}

// nameOf returns the name of a value, and creates it if there is none.
func (n *replacements) nameOf(kind, v string) string {
	if n.byValue[v] == "" {
		n.count[kind]++
		name := fmt.Sprintf("$%s%d", kind, n.count[kind])
		n.byValue[v], n.byName[name] = name, v
	}
	return n.byValue[v]
}

// expand replaces names by their values.
func (n *replacements) expand(s string) string {
	return namePattern.ReplaceAllStringFunc(s, func(name string) string {
		if v, ok := n.byName[name]; ok {
			return v
		}
		return name
	})
}
