package embed_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// A server with Workers.JIT records it, and heaps go to servers without it and back. Only servers and
// replays of exports that may use the compiler replay the runs that had it.
func TestJITOfServers(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data")}
	server := func(jit string) *embed.Daybook {
		opts.Workers.JIT = jit
		return start(t, opts)
	}
	const code = `var double = x => x * 2, n = (globalThis.n ?? 0) + 1; for (var i = 0, sum = 0; i < 60000; i++) sum += double(i + 0.5); var kept = [double(1.5)]; n + " " + sum`
	hasJIT := func(book *embed.Daybook, id string) bool {
		all, err := book.History(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if started, ok := e.Data.(*events.ExecutionStarted); ok {
				if !slices.Contains(started.Layers, "no_executable_memory") {
					t.Errorf("the layers are %v", started.Layers)
				}
				return started.Engine.JIT
			}
		}
		t.Fatalf("execution %s was not started", id)
		return false
	}
	var ids []string
	heap := ""
	for i, jit := range []string{"on", "", "on"} {
		book := server(jit)
		e := run(t, book, embed.Script{Code: code, Heap: heap})
		if want := string(rune('1'+i)) + " 3600000000"; deref(e.Result) != want {
			t.Errorf("JIT %q: %s %s, want %s", jit, deref(e.Result), deref(e.Error), want)
		}
		if got := hasJIT(book, e.ExecutionID); got != (jit == "on") {
			t.Errorf("JIT %q: the run has %t", jit, got)
		}
		ids, heap = append(ids, e.ExecutionID), deref(e.Heap)
		closeBook(t, book)
	}
	for jit, want := range map[string][]string{"on": {"identical", "identical", "identical"}, "off": {"not_replayed jit", "identical", "not_replayed jit"}} {
		book := server(jit)
		var got []string
		for _, id := range ids {
			r := replayIn(t, book, id)
			got = append(got, strings.TrimSpace(string(r.Verdict)+" "+r.Reason))
		}
		if !slices.Equal(got, want) {
			t.Errorf("replays of a server with JIT %s: %q", jit, got)
		}
		key := book.AuditKey()
		closeBook(t, book)
		dir := filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
			t.Fatal(err)
		}
		got = nil
		err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, JIT: jit == "on"}, func(r embed.Replayed) error {
			got = append(got, strings.TrimSpace(string(r.Verdict)+" "+r.Reason))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("replays of an export with JIT %s: %q, %v", jit, got, err)
		}
	}
}
