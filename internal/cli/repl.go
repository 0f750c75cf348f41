package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"daybook/internal/cli/prompt"
	"daybook/internal/web/client"
)

type replCmd struct {
	clientFlags
	Heap    string `help:"Heap to start from: its key, a unique prefix, or @last." placeholder:"HASH" xor:"start"`
	Last    bool   `name:"continue" help:"Start from the heap of the newest run, of --session if given." xor:"start"`
	Session string `help:"Named session to log the runs under." placeholder:"NAME"`
	In      string `help:"Logical session to run each input in as a turn: its id, intent or ref, or a unique prefix." placeholder:"SESSION" xor:"start"`
	Timeout *int   `help:"Wall-clock limit of each run, in seconds, 1 to 300. Default: that of the server." placeholder:"SECONDS"`
	Memory  *int   `help:"V8 heap limit, in MB. Default: that of the server." placeholder:"MB"`
}

// Help is shown by "daybook repl --help".
func (c *replCmd) Help() string {
	return "Each input is an execution and is recorded like any other; it starts from the heap that the previous one left. Input with an open bracket, string or comment continues on the next line.\n\n" + replHelp +
		"\nCtrl-C cancels the running script, or discards the input; Ctrl-D exits. With --in each input is a turn of a logical session and starts from its session head. Tab completes names that were declared by inputs and by earlier runs on this heap. " +
		"With piped input there is no prompt, and the exit status is that of the last run."
}

// replHelp lists the commands.
const replHelp = `Commands:

    .heap [HASH]      show the heap, or continue from another one
    .tags [K=V ...]   show the tags of the heap, or replace them
    .undo             go back to the heap before the last input
    .reset            continue from a fresh isolate
    .help             show this list
    .exit             end
`

// replCommands are completed at the beginning of a line.
var replCommands = []string{".exit", ".heap", ".help", ".reset", ".tags", ".undo"}

// repl is one interactive session of the command.
type repl struct {
	*replCmd
	std   *streams
	lines lineReader
	names *prompt.Names
	// turns is the id of the logical session that inputs are turns of, or empty.
	turns string
	// heap is the key of the heap that the next input starts from, or empty for a fresh
	// isolate. earlier are the keys before it, oldest first.
	heap    string
	earlier []string
	// last is the exit status of the last run.
	last error
	// interrupts cancel the running script. A signal that ends the whole command closes
	// ended.
	interrupts chan os.Signal
	ended      chan struct{}
}

// lineReader reads input. Read returns prompt.ErrDiscard if the user discarded the line, and
// io.EOF at the end.
type lineReader interface {
	Read(prompt string) (string, error)
	Close()
}

func (c *replCmd) Run(ctx context.Context, std *streams) error {
	// An interrupt cancels the running script and MUST NOT cancel the context of the
	// command.
	ctx = context.WithoutCancel(ctx)
	run := runCmd{clientFlags: c.clientFlags, Heap: c.Heap, Last: c.Last, Session: c.Session}
	heap, err := run.startingHeap(ctx)
	if err != nil {
		return err
	}
	turns, err := c.sessionKey(ctx, c.In, "give it as --session")
	if err != nil {
		return err
	}
	if turns != "" {
		if heap, err = c.sessionHead(ctx, turns); err != nil {
			return err
		}
	}
	r := &repl{replCmd: c, std: std, turns: turns, heap: heap, names: prompt.NewNames(replCommands, c.lineageCode, heap), interrupts: make(chan os.Signal, 1), ended: make(chan struct{})}
	signal.Notify(r.interrupts, os.Interrupt)
	defer signal.Stop(r.interrupts)
	defer r.exitOnSignal(syscall.SIGTERM)()
	interactive := std.in == io.Reader(os.Stdin) && std.out.Terminal && std.out.Out == io.Writer(os.Stdout)
	if interactive {
		r.lines, interactive = prompt.NewEditor(r.names.Complete)
	}
	if !interactive {
		r.lines = prompt.NewPiped(std.in)
	}
	defer r.lines.Close()
	if interactive {
		from := "a fresh isolate"
		if heap != "" {
			from = "heap " + heap
		}
		std.out.Printf("Daybook %s, from %s. .help lists the commands.\n", version(), from)
	}
	err = r.loop(ctx)
	if err == nil && !interactive {
		return r.last
	}
	return err
}

// exitOnSignal ends the command at a signal, until stop is called.
func (r *repl) exitOnSignal(s os.Signal) (stop func()) {
	terminated, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(terminated, s)
	go func() {
		select {
		case <-terminated:
			signal.Stop(terminated) // a second signal ends the process
			close(r.ended)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(terminated)
		close(done)
	}
}

// loop runs inputs until the input ends.
func (r *repl) loop(ctx context.Context) error {
	for {
		input, err := r.input()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, prompt.ErrDiscard):
			continue
		case err != nil:
			return err
		}
		text := strings.TrimSpace(input)
		switch {
		case text == "":
		case text == ".exit":
			return nil
		case isReplCommand(text):
			err = r.command(ctx, text)
		default:
			r.last, err = r.run(ctx, input)
			if meansCommand(text) && r.last != nil && err == nil {
				fmt.Fprintln(r.std.err, ".exit exits, .help lists the commands")
			}
		}
		if err != nil {
			r.last = exitError(exitUsage)
			if exitStatus(err, r.std.err) == exitUnavailable && errors.Is(err, client.ErrNoServer) {
				r.last = exitError(exitUnavailable)
			}
		}
	}
}

// meansCommand reports whether a script is a command in other interactive programs, such
// as exit. Here commands begin with a dot.
func meansCommand(text string) bool {
	return slices.Contains([]string{"exit", "quit", "help"}, strings.TrimRight(text, "();"))
}

// isReplCommand reports whether an input is a command. A script may start with a number
// such as .5.
func isReplCommand(text string) bool {
	return len(text) > 1 && text[0] == '.' && text[1] >= 'a' && text[1] <= 'z'
}

// input reads lines until they form a complete script.
func (r *repl) input() (string, error) {
	var b strings.Builder
	for mark := "> "; ; mark = "... " {
		line, err := r.line(mark)
		if errors.Is(err, prompt.ErrDiscard) && b.Len() == 0 {
			fmt.Fprintln(r.std.err, "Press Ctrl-D or type .exit to exit.")
		}
		if errors.Is(err, io.EOF) && b.Len() > 0 && !r.isEnded() {
			return b.String(), nil // V8 reports the missing end
		}
		if err != nil {
			return "", err
		}
		b.WriteString(line)
		b.WriteByte('\n')
		if text := b.String(); isReplCommand(strings.TrimSpace(text)) || !prompt.IsUnfinished(text) {
			return text, nil
		}
	}
}

// line reads a line. It returns io.EOF when the command is to end, although its Read
// may still block: a Read of a terminal cannot be interrupted.
func (r *repl) line(mark string) (string, error) {
	type input struct {
		line string
		err  error
	}
	if r.isEnded() {
		return "", io.EOF
	}
	read := make(chan input, 1)
	go func() {
		line, err := r.lines.Read(mark)
		read <- input{line, err}
	}()
	select {
	case got := <-read:
		return got.line, got.err
	case <-r.ended:
		return "", io.EOF
	}
}

// run runs a script. status is the outcome of the run; err is set if the script could
// not be run.
func (r *repl) run(ctx context.Context, code string) (status, err error) {
	if err := checkText("the input", code); err != nil {
		return nil, err
	}
	run := client.Run{
		Code: code, FileName: "repl", Session: r.Session, LogicalSession: r.turns,
		ExecutionTimeoutSecs: r.Timeout, HeapMemoryMaxMB: r.Memory,
	}
	if r.turns == "" {
		run.Heap, run.RequireHeap = r.heap, r.heap != ""
	}
	accepted, err := r.api().Submit(ctx, run)
	if err != nil {
		return nil, withRequestHint(replaceFieldNames(err, []string{"heap", "session", "in", "timeout", "memory", "token-file"}), "")
	}
	r.names.Declare(code)
	id := accepted.Body.ExecutionID
	following, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case <-r.interrupts: // discard an interrupt from before the run
	default:
	}
	go func() {
		select {
		case <-r.interrupts:
			stop()
		case <-r.ended:
			stop()
		case <-following.Done():
		}
	}()
	if err := r.followOutput(following, r.std, id); err != nil && following.Err() == nil {
		return nil, withRunHint(err, id)
	}
	if following.Err() != nil {
		if _, err := r.api().Cancel(ctx, id); err != nil {
			fmt.Fprintf(r.std.err, "daybook: cancel run %s: %v\n", id, err)
		}
	}
	answer, err := r.api().Await(ctx, id, reportWait)
	if err != nil {
		return nil, withRunHint(err, id)
	}
	status, err = r.report(answer)
	return status, withRunHint(err, id)
}

// report prints the outcome of a run and continues from its heap.
func (r *repl) report(answer client.Answer[client.Execution]) (status, err error) {
	e := answer.Body
	if r.JSON {
		if err := r.std.out.WriteJSON(compact(answer.JSON)); err != nil {
			return nil, err
		}
	} else {
		printResult(r.std, e)
	}
	if e.Heap != nil && *e.Heap != r.heap {
		r.earlier, r.heap = append(r.earlier, r.heap), *e.Heap
	}
	return exitOf(e.Status), nil
}

// command performs an input that is a command.
func (r *repl) command(ctx context.Context, text string) error {
	words := strings.Fields(text)
	if r.turns != "" && (words[0] == ".undo" || words[0] == ".reset" || words[0] == ".heap" && len(words) > 1) {
		return fmt.Errorf("%s is not possible in a logical session: \"daybook session reset %s\" resets it to a fresh isolate, or with --heap to one of its heaps", words[0], shortKeyOf(&r.turns))
	}
	name, args := words[0], words[1:]
	switch {
	case name == ".help":
		fmt.Fprint(r.std.out, replHelp)
	case name == ".heap" && len(args) == 1:
		key, err := r.heapKey(ctx, args[0])
		if err == nil {
			// Without this request an unknown heap would fail only at the next input.
			_, err = r.api().Heap(ctx, key)
		}
		if err != nil {
			return err
		}
		r.earlier, r.heap = append(r.earlier, r.heap), key
		r.names.StartFrom(key)
		r.showHeap()
	case name == ".heap" && len(args) == 0:
		r.showHeap()
	case name == ".undo":
		if len(r.earlier) == 0 {
			return errors.New("nothing to undo: no input was run before")
		}
		r.heap, r.earlier = r.earlier[len(r.earlier)-1], r.earlier[:len(r.earlier)-1]
		r.showHeap()
	case name == ".reset":
		r.earlier, r.heap = append(r.earlier, r.heap), ""
		r.showHeap()
	case name == ".tags" && r.heap == "":
		return errors.New("a fresh isolate has no tags: run something first")
	case name == ".tags" && len(args) == 0:
		c := heapTagsCmd{clientFlags: r.clientFlags, oneHeap: oneHeap{r.heap}}
		return c.Run(ctx, r.std)
	case name == ".tags":
		c := heapTagCmd{clientFlags: r.clientFlags, oneHeap: oneHeap{r.heap}, Tags: args}
		return c.Run(ctx, r.std)
	default:
		return fmt.Errorf("unknown command %s; .help lists the commands", name)
	}
	return nil
}

func (r *repl) showHeap() {
	if r.heap == "" {
		fmt.Fprintln(r.std.out, "a fresh isolate")
		return
	}
	fmt.Fprintln(r.std.out, r.heap)
}

func (r *repl) isEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// lineageCode returns the code of the newest runs in the lineage of a heap, as far as
// it can be read.
func (f clientFlags) lineageCode(ctx context.Context, heap string, most int) (list []string) {
	answer, err := f.api().Lineage(ctx, heap)
	if err != nil {
		return nil
	}
	lineage := answer.Body.Lineage
	for _, step := range lineage[:min(len(lineage), most)] {
		if e, err := f.api().Execution(ctx, step.ExecutionID); err == nil {
			list = append(list, e.Body.Code)
		}
	}
	return list
}
