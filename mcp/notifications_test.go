package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// write adds lines to the run's output.
func (r *oneRun) write(level events.Level, texts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		r.detail.TotalLines++
		r.detail.TotalBytes += int64(len(text)) + 1
		r.lines = append(r.lines, projections.OutputLine{Line: r.detail.TotalLines, Level: level, Text: text})
	}
	r.signal()
}

func (r *oneRun) readLines(_ string, from int64, limit int) ([]projections.OutputLine, events.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines[min(from-1, int64(len(r.lines))):]
	return lines[:min(limit, len(lines))], r.detail.Status, nil
}

// notification is one received notification, with its time.
type notification struct {
	Method string
	Params struct {
		Meta          map[string]json.RawMessage `json:"_meta"`
		ProgressToken string
		Progress      float64
		Message       string
		Level, Logger string
		Data          struct {
			ExecutionID string `json:"execution_id"`
			StartLine   int64  `json:"start_line"`
			EndLine     int64  `json:"end_line"`
			Text        string
			Truncated   bool
		}
	}
	at time.Duration
}

// listen returns the notifications up to the answer to a request.
func (p *pipe) listen(id string) (received []notification) {
	p.t.Helper()
	start := time.Now()
	for {
		m := p.receive()
		if string(m["id"]) == id {
			if m["result"] == nil {
				p.t.Errorf("request %s was answered with %s", id, m["error"])
			}
			return received
		}
		received = append(received, p.parseNotification(m, start))
	}
}

func (p *pipe) parseNotification(m map[string]json.RawMessage, start time.Time) notification {
	p.t.Helper()
	n := notification{at: time.Since(start)}
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, &n)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// TestConsoleNotifications checks level, rate and form of the notifications of console
// output to a client that waits for a run.
func TestConsoleNotifications(t *testing.T) {
	t.Parallel()
	type said struct {
		level, text string
		start, end  int64
	}
	all := []said{{"info", "one\ntwo", 1, 2}, {"warning", "dbg\n[WARN] careful", 3, 4}, {"error", "[ERROR] bad", 5, 5}}
	for _, c := range []struct {
		name, level string
		want        []said
	}{
		{"everything", "debug", all},
		{"less", "info", []said{all[0], {"warning", "[WARN] careful", 4, 4}, all[2]}},
		{"errors", "error", all[2:]},
		{"critical", "critical", nil},
		{"no level", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := newRun("")
				p := openPipe(t, run.stack().serve(t, mcp.Options{Stateless: true}), "")
				p.initialize()
				if c.level != "" {
					p.call("logging/setLevel", fmt.Sprintf(`{"level":%q}`, c.level))
				}
				p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"x"}}}`)
				go func() {
					synctest.Wait()
					run.write(events.LevelLog, "one")
					time.Sleep(10 * time.Millisecond)
					run.write(events.LevelInfo, "two")
					time.Sleep(time.Second)
					run.write(events.LevelDebug, "dbg")
					run.write(events.LevelWarn, "[WARN] careful")
					time.Sleep(150 * time.Millisecond)
					run.write(events.LevelError, "[ERROR] bad")
					run.end(events.StatusCompleted, nil)
				}()
				received := p.listen(`"x"`)
				if len(received) != len(c.want) {
					t.Fatalf("received %+v, want %+v", received, c.want)
				}
				for i, n := range received {
					d := n.Params.Data
					got := said{n.Params.Level, d.Text, d.StartLine, d.EndLine}
					if n.Method != "notifications/message" || got != c.want[i] || n.Params.Logger != "console" || d.ExecutionID != "one" || d.Truncated {
						t.Errorf("received %+v, want %+v", n, c.want[i])
					}
					if i > 0 && n.at-received[i-1].at < 100*time.Millisecond {
						t.Errorf("%v after the one before", n.at-received[i-1].at)
					}
				}
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestConsoleBurst checks that a script that prints without end causes at most ten
// notifications a second, and that the last one is marked as truncated.
func TestConsoleBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := newRun("")
		p := openPipe(t, run.stack().serve(t, mcp.Options{Stateless: true}), "")
		p.initialize()
		p.call("logging/setLevel", `{"level":"debug"}`)
		p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"x"},"_meta":{"progressToken":"t"}}}`)
		go func() {
			synctest.Wait()
			for range 500 { // two seconds
				run.write(events.LevelLog, strings.Repeat("line", 5))
				time.Sleep(4 * time.Millisecond)
			}
			run.write(events.LevelLog, strings.Repeat("é", 50<<10), "after")
			for range 2000 {
				run.write(events.LevelLog, "more")
			}
			run.end(events.StatusCompleted, nil)
		}()
		last := map[string]notification{}
		count := map[string]int{}
		for _, n := range p.listen(`"x"`) {
			before, again := last[n.Method]
			if again && n.at-before.at < 100*time.Millisecond {
				t.Errorf("%s %v after the one before", n.Method, n.at-before.at)
			}
			if again && n.Method == "notifications/progress" && n.Params.Progress <= before.Params.Progress {
				t.Errorf("progress went from %v to %v", before.Params.Progress, n.Params.Progress)
			}
			if d := n.Params.Data; n.Method == "notifications/message" && (d.StartLine != before.Params.Data.EndLine+1 || len(d.Text) > 64<<10) {
				t.Errorf("lines %d to %d (%d bytes) after line %d", d.StartLine, d.EndLine, len(d.Text), before.Params.Data.EndLine)
			}
			last[n.Method] = n
			count[n.Method]++
		}
		if n := count["notifications/message"]; n < 15 || n > 25 {
			t.Errorf("%d messages in two seconds", n)
		}
		if n := count["notifications/progress"]; n != count["notifications/message"] {
			t.Errorf("%d notifications of progress", n)
		}
		if end := last["notifications/message"].Params.Data; !end.Truncated || end.EndLine >= 2502 {
			t.Errorf("the last message is %d to %d, truncated %t", end.StartLine, end.EndLine, end.Truncated)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestProgressNotifications checks the progress notifications.
func TestProgressNotifications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := newRun("")
		p := openPipe(t, run.stack().serve(t, mcp.Options{Stateless: true}), "")
		p.initialize()
		p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"x"},"_meta":{"progressToken":"t"}}}`)
		go func() {
			synctest.Wait()
			run.write(events.LevelLog, "one")
			time.Sleep(6 * time.Second)
			run.write(events.LevelLog, "two")
			run.end(events.StatusCompleted, nil)
		}()
		var got []string
		for _, n := range p.listen(`"x"`) {
			got = append(got, fmt.Sprintf("%s %s %.1f %s", n.Method, n.Params.ProgressToken, n.Params.Progress, n.Params.Message))
		}
		want := []string{
			"notifications/progress t 0.1 running, 1 line of output",
			"notifications/progress t 5.0 running, 1 line of output",
			"notifications/progress t 6.0 running, 2 lines of output",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("received %q, want %q", got, want)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
}

// TestConsoleOfARequest checks the log level of one request, in the revision without
// levels for connections.
func TestConsoleOfARequest(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{"": "", "warning": "[WARN] careful", "debug": "one\n[WARN] careful"} {
		t.Run("level "+level, func(t *testing.T) {
			t.Parallel()
			book := openStack(t, ledger.Options{Stateless: true})
			p := openPipe(t, book.serve(t, mcp.Options{Stateless: true}), "")
			asked := ""
			if level != "" {
				asked = fmt.Sprintf(`"io.modelcontextprotocol/logLevel":%q,`, level)
			}
			meta := strings.Replace(strings.Replace(capableMeta, `"_meta":{`, `"_meta":{`+asked, 1), `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, "{}", 1)
			p.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"run_js","arguments":{"code":"console.log(\"one\")\nconsole.warn(\"[WARN] careful\")"},` + meta + `}}`)
			var texts []string
			for _, n := range p.listen(`"x"`) {
				texts = append(texts, n.Params.Data.Text)
			}
			if got := strings.Join(texts, "\n"); got != want {
				t.Errorf("received %q, want %q", got, want)
			}
		})
	}
}

// TestConsoleOfATask checks that the console output of a task of revision 2025-11-25 is
// sent after the answer to the call, marked with the task.
func TestConsoleOfATask(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	p.call("logging/setLevel", `{"level":"info"}`)
	task := *decodeTask(t, p.call("tools/call", `{"name":"run_js","arguments":{"code":"console.log(\"hello\")\nawait forever"},"task":{},"_meta":{"progressToken":"t"}}`)).Task
	start := time.Now()
	want := map[string]string{"notifications/message": "hello", "notifications/progress": "running, 1 line of output"}
	for len(want) > 0 {
		n := p.parseNotification(p.receive(), start)
		if got := n.Params.Data.Text + n.Params.Message; got != want[n.Method] {
			t.Errorf("received %+v", n)
		}
		if got := string(n.Params.Meta["io.modelcontextprotocol/related-task"]); got != fmt.Sprintf(`{"taskId":%q}`, task.TaskID) {
			t.Errorf("%s is marked %s", n.Method, got)
		}
		delete(want, n.Method)
	}
	p.call("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, task.TaskID))
}
