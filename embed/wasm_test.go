package embed_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
)

const (
	// addModule exports add, which adds two numbers, and subModule add, which subtracts.
	addModule = "0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b"
	subModule = "0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016b0b"
	// askModule imports env.ask and exports twice, which doubles its answer.
	askModule = "0061736d010000000105016000017f020b0103656e760361736b00000302010007090105747769636500010a09010700100041026c0b"
	// trapModule has a start function that traps.
	trapModule = "0061736d01000000010401600000030201000801000a05010300000b"
)

// wasmFile writes a module and returns its path.
func wasmFile(t *testing.T, code string) string {
	t.Helper()
	b, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// runsWithoutHeap runs code with the heap none, or on a stateless server.
func runsWithoutHeap(t *testing.T, book *embed.Daybook, code string) (id, result string) {
	t.Helper()
	d := run(t, book, embed.Script{Code: code, Heap: "none"})
	if d.Status != events.StatusCompleted {
		t.Fatalf("%s: %s", code, deref(d.Error))
	}
	return d.ExecutionID, deref(d.Result)
}

func TestWASMModules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add, ask := wasmFile(t, addModule), wasmFile(t, askModule)
	opts := embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{WASMModules: map[string]string{"math": add, "ask": ask}}}
	book := start(t, opts)
	id, result := runsWithoutHeap(t, book, "[math.add(40, 2), new WebAssembly.Instance(__wasm_ask, {env: {ask: () => 4}}).exports.twice(), typeof ask].join()")
	if result != "42,8,undefined" {
		t.Errorf("the modules: %s", result)
	}
	if _, result := runsWithoutHeap(t, book, "typeof WebAssembly + math.add(1, 2)"); result != "object3" {
		t.Errorf("a second run: %s", result)
	}
	if result, _ := completes(t, book, embed.Script{Code: "typeof math + typeof __wasm_math"}); result != "undefinedundefined" {
		t.Errorf("a run with a heap: %s", result)
	}
	if d := run(t, book, embed.Script{Code: "__wasm_math"}); !strings.Contains(deref(d.Error), "--wasm-module") {
		t.Errorf("a run with a heap that uses a module: %s", deref(d.Error))
	}
	started := func(id string) *events.ExecutionStarted {
		t.Helper()
		for _, e := range history(t, book, id) {
			if d, ok := e.Data.(*events.ExecutionStarted); ok {
				return d
			}
		}
		t.Fatal("the run has no start")
		return nil
	}
	list := started(id).WASMModules
	if len(list) != 2 || list[0].Name != "ask" || !list[0].HasImports || list[1].Name != "math" || list[1].HasImports || list[1].Module.Size != int64(len(addModule)/2) {
		t.Errorf("the start records %+v", list)
	}

	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tools, err := client.ListTools(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		b, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name == "run_js" && !strings.Contains(string(b), "WebAssembly, with modules ask, math") {
			t.Errorf("run_js does not list the modules: %s", b)
		}
	}

	// A server with other modules gives them to new runs, and the recorded ones to a replay.
	closeBook(t, book)
	opts.Runs.WASMModules = map[string]string{"math": wasmFile(t, subModule)}
	book = start(t, opts)
	if _, result := runsWithoutHeap(t, book, "math.add(40, 2) + typeof __wasm_ask"); result != "38undefined" {
		t.Errorf("after a change of the module: %s", result)
	}
	if r := replayIn(t, book, id); r.Verdict != events.ReplayIdentical {
		t.Errorf("the replay: %+v", r)
	}
	closeBook(t, book)
	opts.Runs.WASMModules = nil
	book = start(t, opts)
	if r := replayIn(t, book, id); r.Verdict != events.ReplayIdentical {
		t.Errorf("the replay on a server without modules: %+v", r)
	}
	if _, result := runsWithoutHeap(t, book, "typeof math"); result != "undefined" {
		t.Errorf("a run on a server without modules: %s", result)
	}
	key := book.AuditKey()
	closeBook(t, book)
	out := filepath.Join(t.TempDir(), "export")
	if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: dir, Dir: out, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	agreesInPython(t, out, key)
	var verdicts []string
	if err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: out, Keys: []string{key}, Executions: []string{id}}, func(r embed.Replayed) error {
		verdicts = append(verdicts, string(r.Verdict))
		return nil
	}); err != nil || strings.Join(verdicts, " ") != "identical" {
		t.Errorf("from the export: %q, %v", verdicts, err)
	}
	if err := os.Remove(filepath.Join(out, "blobs", "text-"+list[1].Module.SHA256)); err != nil {
		t.Fatal(err)
	}
	if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: out, Keys: []string{key}}); err != nil || r.OK {
		t.Errorf("an export without the module is found intact: %v", err)
	}
}

func TestRefusedWASMModules(t *testing.T) {
	t.Parallel()
	add := wasmFile(t, addModule)
	text := filepath.Join(t.TempDir(), "text.wat")
	if err := os.WriteFile(text, []byte("(module)"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file  string
		nodeGlobals bool
		want        string
	}{
		{"a-b", add, false, "is not a name for a global"},
		{"1a", add, false, "is not a name for a global"},
		{"__wasm_a", add, false, "no __wasm_ first"},
		{"JSON", add, false, "choose another name"},
		{"class", add, false, "choose another name"},
		{"await", add, false, "choose another name"},
		{"Buffer", add, true, "choose another name"},
		{"math", filepath.Join(t.TempDir(), "missing.wasm"), false, "no such file"},
		{"math", text, false, "not a WebAssembly module in the binary format"},
		{"math", wasmFile(t, addModule[:20]+"ff"), false, "CompileError"},
		{"math", wasmFile(t, trapModule), false, "unreachable"},
	} {
		_, err := embed.Start(context.Background(), embed.Options{DataDir: t.TempDir(), Runs: embed.RunOptions{NodeGlobals: c.nodeGlobals, WASMModules: map[string]string{c.name: c.file}}})
		if err == nil || !strings.Contains(err.Error(), "Runs.WASMModules") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, filepath.Base(c.file), err, c.want)
		}
	}
}
