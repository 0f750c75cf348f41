package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

type runCmd struct {
	clientFlags
	File    string   `arg:"" optional:"" help:"Script file; - reads stdin." placeholder:"FILE"`
	Eval    *string  `short:"e" help:"Script text instead of a file." placeholder:"CODE"`
	Heap    string   `help:"Heap to restore and continue from: its key, a unique prefix, or @last." placeholder:"HASH" xor:"start"`
	Last    bool     `name:"continue" help:"Restore the heap of the newest run, of --session if given." xor:"start"`
	Session string   `help:"Named session to log the run under." placeholder:"NAME"`
	In      string   `help:"Logical session to run in, from its session head: its id, intent or ref, or a unique prefix." placeholder:"SESSION"`
	Tags    []string `name:"tag" sep:"none" help:"Tag of the output heap, as KEY=VALUE; may be repeated." placeholder:"KEY=VALUE"`
	Timeout *int     `help:"Wall-clock limit, in seconds, 1 to 300. Default: that of the server." placeholder:"SECONDS"`
	Memory  *int     `help:"V8 heap limit, in MB. Default: that of the server." placeholder:"MB"`
	Key     string   `name:"idempotency-key" help:"Idempotency key; a repeated submission with the same key returns the same execution." placeholder:"KEY"`
	Detach  bool     `help:"Print the execution id and exit without waiting."`
}

// Help is shown by "daybook run --help".
func (c *runCmd) Help() string {
	return "The output of the script goes to stdout as it is written, followed by the result; the status and the key of the output heap go to stderr. " +
		"Ctrl-C cancels the execution.\n\n" +
		"Exit status: 0 completed, 1 failed, 2 mistake in the command line or request refused by the server, 3 cancelled, 4 timed out, " +
		"5 server unreachable or temporarily unable to take the run."
}

// Run submits the script, follows its output, and returns the exit status of the
// outcome.
func (c *runCmd) Run(ctx context.Context, std *streams) error {
	name, code, err := c.source(std.in)
	if err != nil {
		return err
	}
	heap, err := c.startingHeap(ctx)
	if err != nil {
		return err
	}
	session, err := c.sessionKey(ctx, c.In, "give it as --session, with --continue to start from its last heap")
	if err != nil {
		return err
	}
	body := map[string]any{"code": code}
	for field, value := range map[string]string{"file_name": name, "heap": heap, "session": c.Session, "logical_session": session} {
		if value != "" {
			body[field] = value
		}
	}
	if heap != "" {
		body["require_heap"] = true // with a mistyped key the run must not start from a fresh isolate
	}
	for field, value := range map[string]*int{"execution_timeout_secs": c.Timeout, "heap_memory_max_mb": c.Memory} {
		if value != nil {
			body[field] = *value
		}
	}
	if c.Tags != nil {
		if body["tags"], err = tagsOf(c.Tags); err != nil {
			return err
		}
	}
	var header []string
	if c.Key != "" {
		header = []string{"Idempotency-Key", c.Key}
	}
	var accepted struct {
		ExecutionID string `json:"execution_id"`
	}
	// After an interrupt the request may still be answered: without its id the run
	// could not be cancelled.
	submitting, stop := withGrace(ctx, interruptGrace)
	defer stop()
	if err := c.call(submitting, http.MethodPost, "/api/exec", body, &accepted, header...); err != nil {
		return withSessionHint(err, openSession)
	}
	switch {
	case c.Detach && c.JSON:
		return std.out.printJSON(accepted)
	case c.Detach:
		_, err := fmt.Fprintln(std.out, accepted.ExecutionID)
		return err
	default:
		return c.watch(ctx, std, accepted.ExecutionID)
	}
}

// Validate checks the flags against each other.
func (c *runCmd) Validate() error {
	if c.Last && c.In != "" {
		return errors.New("--in always continues from the session head: give --continue or --in, not both")
	}
	return c.clientFlags.Validate()
}

// startingHeap returns the key of the heap to restore, or an empty string.
func (c *runCmd) startingHeap(ctx context.Context) (string, error) {
	switch {
	case c.Last:
		return c.resolve(ctx, "heap", lastID, c.Session)
	case c.Heap == "":
		return "", nil
	default:
		return c.heapKey(ctx, c.Heap)
	}
}

// interruptGrace is the maximum time of requests after an interrupt.
const interruptGrace = 5 * time.Second

// withGrace returns a context that ends grace after its parent.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() { stop(); cancel() }
}

// watch follows an execution to its end. An interrupt cancels the execution.
func (c *runCmd) watch(ctx context.Context, std *streams, id string) error {
	err := c.followOutput(ctx, std, id)
	if ctx.Err() != nil {
		stopping, stop := withGrace(ctx, interruptGrace)
		defer stop()
		if err := c.call(stopping, http.MethodPost, "/api/executions/"+id+"/cancel", nil, nil); err != nil {
			fmt.Fprintln(std.err, "daybook: cancel:", err)
		}
		return c.report(stopping, std, id)
	}
	if err != nil {
		return err
	}
	return c.report(ctx, std, id)
}

// followOutput prints the output of an execution until the execution ends.
func (f clientFlags) followOutput(ctx context.Context, std *streams, id string) error {
	return f.follow(ctx, "/api/executions/"+id+"/output", func(e sseEvent) (bool, error) {
		switch e.name {
		case "end":
			return true, nil
		case "truncated":
			return false, warnTruncated(std.err, e.data)
		}
		var line struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal([]byte(e.data), &line); err != nil {
			return false, fmt.Errorf("read output: %w", err)
		}
		if f.JSON {
			return false, std.out.writeJSON(e.data)
		}
		_, err := fmt.Fprintln(std.out, line.Text)
		return false, err
	})
}

// warnTruncated warns if a part of the output was not stored.
func warnTruncated(w io.Writer, data string) error {
	var t struct {
		TotalBytes   int64  `json:"total_bytes"`
		WrittenBytes *int64 `json:"written_bytes"`
	}
	if err := json.Unmarshal([]byte(data), &t); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	of := ""
	if t.WrittenBytes != nil {
		of = fmt.Sprintf(" of %d", *t.WrittenBytes)
	}
	_, err := fmt.Fprintf(w, "warning: the output was cut: %d%s bytes are stored; the server's --output-max-bytes is the limit\n", t.TotalBytes, of)
	return err
}

type execution struct {
	Status   string   `json:"status"`
	Result   *string  `json:"result"`
	Heap     *string  `json:"heap"`
	Error    *string  `json:"error"`
	Warnings []string `json:"warnings"`
	Reason   *string  `json:"reason"`
	// ResultTruncated reports that the recorded result is incomplete.
	ResultTruncated bool `json:"result_truncated"`
	// CutTexts maps the texts that the answer holds only the beginning of to their
	// sizes, in bytes.
	CutTexts map[string]int64 `json:"cut_texts"`
}

// report prints the outcome of an execution and returns its exit status.
func (f clientFlags) report(ctx context.Context, std *streams, id string) error {
	var raw json.RawMessage
	if err := f.call(ctx, http.MethodGet, "/api/executions/"+id+"?wait=30", nil, &raw); err != nil {
		return err
	}
	var e execution
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if f.JSON {
		if err := std.out.writeJSON(compact(raw)); err != nil {
			return err
		}
	} else {
		if _, cut := e.CutTexts["result"]; cut {
			if err := f.copyText(ctx, std, "/api/executions/"+id, "result"); err != nil {
				return err
			}
			e.Result = nil
			e.Warnings = slices.DeleteFunc(e.Warnings, func(w string) bool { return strings.Contains(w, "/texts/result ") }) // the complete result is printed
		}
		e.print(std)
		std.err.printf("status: %s\n", span{colorOf(e.Status), e.Status})
		if e.Heap != nil {
			std.err.printf("heap:   %s\n", *e.Heap)
		}
	}
	return e.exit()
}

// print prints the result or the error.
func (e execution) print(std *streams) {
	for _, w := range e.Warnings {
		fmt.Fprintln(std.err, "warning:", replaceMemoryField(w))
	}
	if e.Result != nil {
		fmt.Fprintln(std.out, *e.Result)
	}
	if e.ResultTruncated {
		fmt.Fprintln(std.err, "warning: the result was cut at its size limit; what is printed is all that is recorded")
	}
	if e.Error != nil {
		text := *e.Error
		if e.Reason != nil && *e.Reason == outOfMemory {
			text = replaceMemoryField(text)
		}
		fmt.Fprintln(std.err, text)
	}
}

// exit returns the exit status of the outcome.
func (e execution) exit() error {
	switch e.Status {
	case "completed":
		return nil
	case "cancelled":
		return exitError(exitCancelled)
	case "timed_out":
		return exitError(exitTimedOut)
	default:
		return exitError(exitFailed)
	}
}
