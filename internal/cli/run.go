package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type runCmd struct {
	clientFlags
	File    string   `arg:"" optional:"" help:"Script file; - reads stdin." placeholder:"FILE"`
	Eval    *string  `short:"e" help:"Script text instead of a file." placeholder:"CODE"`
	Heap    string   `help:"Heap to restore and continue from: its key, a unique prefix, or @last; none for a run without heaps." placeholder:"HASH" xor:"start"`
	Last    bool     `name:"continue" help:"Restore the heap of the newest run, of --session if given." xor:"start"`
	Session string   `help:"Named session to log the run under." placeholder:"NAME"`
	In      string   `help:"Logical session to run in, from its session head: its id, intent or ref, or a unique prefix." placeholder:"SESSION"`
	Tags    []string `name:"tag" sep:"none" help:"Tag of the output heap, as KEY=VALUE; may be repeated." placeholder:"KEY=VALUE"`
	Timeout *int     `help:"Wall-clock limit, in seconds, 1 to 300. Default: that of the server." placeholder:"SECONDS"`
	Memory  *int     `help:"V8 heap limit, in MB. Default: that of the server." placeholder:"MB"`
	Files   []string `name:"file" sep:"none" help:"Other file that the script imports as ./NAME, as PATH or NAME=PATH; may be repeated." placeholder:"[NAME=]PATH"`
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
	tags, err := tagsOf(c.Tags)
	if err != nil {
		return err
	}
	files, err := filesOf(c.Files)
	if err != nil {
		return err
	}
	run := client.Run{
		Code: code, Files: files, FileName: name, Heap: heap, Session: c.Session, LogicalSession: session,
		RequireHeap: heap != "", // with a mistyped key the run must not start from a fresh isolate
		Tags:        tags, ExecutionTimeoutSecs: c.Timeout, HeapMemoryMaxMB: c.Memory, Key: c.Key,
	}
	// An interrupt does not end this request at once: without the id in its answer the
	// run could not be cancelled.
	submitting, stop := withGrace(ctx, interruptGrace)
	defer stop()
	answer, err := c.api().Submit(submitting, run)
	if err != nil {
		return withRequestHint(withSessionHint(err, openSession), c.Key)
	}
	accepted := answer.Body
	switch {
	case c.Detach && c.JSON:
		err = std.out.PrintJSON(accepted)
	case c.Detach:
		_, err = fmt.Fprintln(std.out, accepted.ExecutionID)
	default:
		err = c.watch(ctx, std, accepted.ExecutionID)
	}
	return withRunHint(err, accepted.ExecutionID)
}

// withRequestHint adds a hint to the error of a submission if the server may have read the
// request: the run may exist. key is the idempotency key, or empty.
func withRequestHint(err error, key string) error {
	switch {
	case !isClosedConnection(err):
		return err
	case key != "":
		return fmt.Errorf("%w; the run may be accepted: repeat the command with the same --idempotency-key to follow it", err)
	default:
		return fmt.Errorf("%w; the run may be accepted: look for it with \"daybook exec list\" before you repeat the command", err)
	}
}

// withRunHint adds the id of an accepted run to an error after the acceptance: a user who
// repeats the command runs the code twice. It returns nil and the exit status of the run
// unchanged.
func withRunHint(err error, id string) error {
	if _, ended := errors.AsType[exitError](err); err == nil || ended {
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted") // exitStatus omits the text of a cancelled context
	}
	return fmt.Errorf("%w; run %s is accepted: follow it with \"daybook exec watch %s\"", err, id, id)
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
	case c.Heap == "", c.Heap == withoutHeap:
		return c.Heap, nil
	default:
		return c.heapKey(ctx, c.Heap)
	}
}

// withoutHeap is the heap of a run that restores and leaves none.
const withoutHeap = "none"

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
		if _, err := c.api().Cancel(stopping, id); err != nil {
			fmt.Fprintf(std.err, "daybook: cancel run %s: %v\n", id, err)
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
	for o, err := range f.api().FollowOutput(ctx, id) {
		switch {
		case err != nil:
			return err
		case o.Truncated != nil:
			err = warnTruncated(std.err, o.Truncated.TotalBytes, o.Truncated.WrittenBytes)
		case f.JSON:
			err = std.out.WriteJSON(string(o.JSON))
		default:
			_, err = fmt.Fprintln(std.out, o.Line.Text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warnTruncated warns that a part of the output was not stored. written is nil if the
// size of the complete output is not known.
func warnTruncated(w io.Writer, stored int64, written *int64) error {
	of := ""
	if written != nil {
		of = fmt.Sprintf(" of %d", *written)
	}
	_, err := fmt.Fprintf(w, "warning: the output was cut: %d%s bytes are stored; the server's --output-max-bytes is the limit\n", stored, of)
	return err
}

// reportWait is the longest time that a report waits for the end of an execution.
const reportWait = 30 * time.Second

// report prints the outcome of an execution and returns its exit status.
func (f clientFlags) report(ctx context.Context, std *streams, id string) error {
	answer, err := f.api().Await(ctx, id, reportWait)
	if err != nil {
		return err
	}
	e := answer.Body
	if f.JSON {
		if err := std.out.WriteJSON(compact(answer.JSON)); err != nil {
			return err
		}
	} else {
		if _, cut := e.CutTexts["result"]; cut {
			if err := f.copyText(ctx, std, id, "result"); err != nil {
				return err
			}
			e.Result = nil
			e.Warnings = slices.DeleteFunc(e.Warnings, func(w string) bool { return strings.Contains(w, "/texts/result ") }) // the complete result is printed
		}
		printResult(std, e)
		std.err.Printf("status: %s\n", terminal.Span{Color: terminal.ColorOf(string(e.Status)), Text: string(e.Status)})
		if e.Heap != nil {
			std.err.Printf("heap:   %s\n", *e.Heap)
		}
	}
	if err := std.out.Err(); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return exitOf(e.Status)
}

// printResult prints the result or the error of an execution.
func printResult(std *streams, e client.Execution) {
	for _, w := range e.Warnings {
		fmt.Fprintln(std.err, "warning:", replaceMemoryField(w))
	}
	if e.Result != nil {
		fmt.Fprintln(std.out, *e.Result)
	}
	if e.ResultTruncated {
		fmt.Fprintln(std.err, "warning: the result was cut at its size limit; only the printed part is recorded")
	}
	if e.Error != nil {
		text := *e.Error
		if e.Reason != nil && *e.Reason == outOfMemory {
			text = replaceMemoryField(text)
		}
		fmt.Fprintln(std.err, text)
	}
}

// exitOf returns the exit status for the status of an execution.
func exitOf(status events.Status) error {
	switch status {
	case events.StatusCompleted:
		return nil
	case events.StatusCancelled:
		return exitError(exitCancelled)
	case events.StatusTimedOut:
		return exitError(exitTimedOut)
	default:
		return exitError(exitFailed)
	}
}
