package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// wholeRun is an answer about a run, with its output after the end.
type wholeRun struct {
	ExecutionID    string   `json:"execution_id"`
	Status         string   `json:"status"`
	Result         *string  `json:"result"`
	Error          *string  `json:"error"`
	Heap           *string  `json:"heap"`
	Output         *string  `json:"output"`
	TotalLines     *int64   `json:"total_lines"`
	TotalBytes     *int64   `json:"total_bytes"`
	NextLineOffset int64    `json:"next_line_offset"`
	NextByteOffset int64    `json:"next_byte_offset"`
	HasMore        bool     `json:"has_more"`
	ResultPreview  bool     `json:"result_preview"`
	ErrorPreview   bool     `json:"error_preview"`
	Warnings       []string `json:"warnings"`
}

func (p *pipe) run(tool string, arguments map[string]any) (wholeRun, toolResult) {
	p.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		p.t.Fatal(err)
	}
	r := p.tool(tool, string(raw))
	if r.IsError {
		p.t.Fatalf("%s %s: %+v", tool, raw, r)
	}
	var w wholeRun
	if err := json.Unmarshal(r.StructuredContent, &w); err != nil {
		p.t.Fatal(err)
	}
	if text := r.Content[0].Text; text != string(r.StructuredContent) {
		p.t.Errorf("%s: text %s differs from %s", tool, text, r.StructuredContent)
	}
	return w, r
}

// One call runs a script and returns the complete run.
func TestRunAndWait(t *testing.T) {
	t.Parallel()
	p := openPipe(t, openStack(t, ledger.Options{}).serve(t, mcp.Options{}), "")
	p.initialize()
	w, r := p.run("run_js", map[string]any{"code": "console.log(\"hi\")\nconsole.warn(\"there\")\n42", "wait_secs": 60, "heap": strings.Repeat("ab", 32)})
	if w.Status != "completed" || *w.Result != "42" || w.Error != nil || w.Heap == nil || *w.Output != "hi\nthere\n" || *w.TotalLines != 2 || *w.TotalBytes != 9 ||
		w.NextLineOffset != 3 || w.NextByteOffset != 9 || w.HasMore || len(w.Warnings) != 1 || r.Meta["daybook/sequence"] == nil {
		t.Errorf("answered %s", r.StructuredContent)
	}
	failed, _ := p.run("run_js", map[string]any{"code": `throw "boom"`, "wait_secs": 60})
	if failed.Status != "failed" || failed.Result != nil || *failed.Error != "Uncaught boom" || failed.Heap == nil || failed.Output == nil {
		t.Errorf("failed: %+v", failed)
	}
	// Without a wait the answer is the id alone; after a wait that is too short it has the
	// status too.
	id, r := p.run("run_js", map[string]any{"code": "await forever"})
	if string(r.StructuredContent) != fmt.Sprintf(`{"execution_id":%q}`, id.ExecutionID) {
		t.Errorf("without wait: %s", r.StructuredContent)
	}
	short, r := p.run("run_js", map[string]any{"code": "await forever", "wait_secs": 0})
	if short.Status != "running" || short.TotalLines != nil {
		t.Errorf("too short a wait: %s", r.StructuredContent)
	}
	for _, w := range []wholeRun{id, short} {
		if r := p.tool("cancel_execution", `{"execution_id":"`+w.ExecutionID+`"}`); r.IsError {
			t.Errorf("cancel: %+v", r)
		}
	}
	for tool, arguments := range map[string]string{"run_js": `{"code":"1","wait_secs":%s}`, "get_execution": `{"execution_id":"` + w.ExecutionID + `","wait_secs":%s}`} {
		for _, secs := range []string{"-1", "61"} {
			if r := p.tool(tool, fmt.Sprintf(arguments, secs)); !r.IsError || !strings.Contains(r.Content[0].Text, "wait_secs must be 0 to 60") {
				t.Errorf("%s, wait_secs %s: %+v", tool, secs, r)
			}
		}
	}
}

// The error of a call that is cancelled while it waits for a run names the execution,
// which continues.
func TestCancelledWaitNamesTheExecution(t *testing.T) {
	t.Parallel()
	run := newRun("")
	book, waiting := run.stack(), make(chan struct{})
	book.watched = nil // a call that waits for the run asks for changed
	changed, once := book.changed, sync.OnceFunc(func() { close(waiting) })
	book.changed = func() <-chan struct{} { defer once(); return changed() }
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":"waits","method":"tools/call","params":{"name":"run_js","arguments":{"code":"1","wait_secs":60}}}`)
	<-waiting
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"waits"}}`)
	m := p.receive()
	const want = "The call was cancelled before it was done. The run was accepted as execution one and continues."
	var r toolResult
	if err := json.Unmarshal(m["result"], &r); err != nil || string(m["id"]) != `"waits"` || !r.IsError || r.Content[0].Text != want {
		t.Errorf("the cancelled call is answered with %s (%v), want %q", m, err, want)
	}
	select {
	case id := <-run.cancelled:
		t.Errorf("execution %s was cancelled", id)
	default:
	}
}

// get_execution always returns the length of the output. With a wait it returns also its
// beginning after the end of the run.
func TestGetExecutionWaits(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	long := strings.Repeat("x", 999)
	w, _ := p.run("run_js", map[string]any{"code": strings.Repeat(`console.log("`+long+`")`+"\n", 20) + "await forever"})
	book.awaitState(t, w.ExecutionID, func(d projections.ExecutionDetail) bool { return d.TotalLines == 20 })
	get := func(wait any) wholeRun {
		got, _ := p.run("get_execution", map[string]any{"execution_id": w.ExecutionID, "wait_secs": wait})
		return got
	}
	if got := get(nil); got.Status != "running" || *got.TotalLines != 20 || *got.TotalBytes != 20_000 || got.Output != nil {
		t.Errorf("running: %+v", got)
	}
	if got := get(0); got.Status != "running" || got.Output != nil {
		t.Errorf("running, no time to wait: %+v", got)
	}
	if r := p.tool("cancel_execution", `{"execution_id":"`+w.ExecutionID+`"}`); r.IsError {
		t.Fatalf("%+v", r)
	}
	got := get(60.0)
	if got.Status != "cancelled" || *got.Output != strings.Repeat(long+"\n", 16) || got.NextLineOffset != 17 || got.NextByteOffset != 16_000 || !got.HasMore {
		t.Errorf("ended: %d bytes, next line %d, next byte %d, more %t", len(*got.Output), got.NextLineOffset, got.NextByteOffset, got.HasMore)
	}
	if got := get(nil); got.Output != nil || *got.TotalLines != 20 {
		t.Errorf("without a wait: %+v", got)
	}
}

// A long result and a long error are cut, with links to the complete texts.
func TestPreviews(t *testing.T) {
	t.Parallel()
	p := openPipe(t, openStack(t, ledger.Options{}).serve(t, mcp.Options{}), "")
	p.initialize()
	large := "a" + strings.Repeat("é", 20_000)
	for name, code := range map[string]string{"result": `"` + large + `"`, "error": `throw "` + large + `"`} {
		want := large
		if name == "error" {
			want = "Uncaught " + large
		}
		ran, r := p.run("run_js", map[string]any{"code": code, "wait_secs": 60})
		got, again := p.run("get_execution", map[string]any{"execution_id": ran.ExecutionID})
		for _, w := range []wholeRun{ran, got} {
			text, cut, other := w.Result, w.ResultPreview, w.ErrorPreview
			if name == "error" {
				text, cut, other = w.Error, w.ErrorPreview, w.ResultPreview
			}
			if !cut || other || !strings.HasPrefix(want, *text) || len(*text) < 16<<10-1 || len(*text) > 16<<10 {
				t.Errorf("%s: %d bytes, preview %t", name, len(*text), cut)
			}
		}
		for _, r := range []toolResult{r, again} {
			if len(r.Content) != 2 || r.Content[1].Type != "resource_link" {
				t.Fatalf("%s: %d parts", name, len(r.Content))
			}
		}
		var read struct{ Contents []struct{ Text string } }
		if err := json.Unmarshal(p.call("resources/read", `{"uri":"execution://`+ran.ExecutionID+`/`+name+`"}`), &read); err != nil || read.Contents[0].Text != want {
			t.Errorf("%s: the resource differs, %v", name, err)
		}
	}
}

// A wait lasts as long as requested. If the server closes meanwhile, the answer still
// has the id of the accepted run.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := newRun("so far\n")
		s := run.stack().serve(t, mcp.Options{})
		cs := connect(t, s)
		call := func() string {
			res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "x", "wait_secs": 45}})
			if err != nil {
				return err.Error()
			}
			return res.Content[0].(*sdk.TextContent).Text
		}
		start := time.Now()
		if got := call(); !strings.Contains(got, `"status":"running"`) || strings.Contains(got, "output") {
			t.Errorf("after the time was up: %s", got)
		}
		if d := time.Since(start); d != 45*time.Second {
			t.Errorf("waited %v", d)
		}
		answered := make(chan string)
		go func() { answered <- call() }()
		synctest.Wait()
		run.end(events.StatusCompleted, nil)
		if got := <-answered; !strings.Contains(got, `"result":"7"`) || !strings.Contains(got, `"output":"so far\n"`) {
			t.Errorf("ended: %s", got)
		}
		if err := cs.Close(); err != nil {
			t.Error(err)
		}
	})
}
