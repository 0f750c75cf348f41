package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type execShowCmd struct {
	clientFlags
	oneExecution
	Lines int `help:"Maximum number of output lines to show, half of them from the end, each shortened; 0 shows all." default:"40" placeholder:"N"`
}

// Help is shown by "daybook exec show --help".
func (c *execShowCmd) Help() string {
	return "Shows the events of an execution in order: acceptance, attempts, output, host calls, end. Times are in UTC; the second column is the time since acceptance. A line marked void was written by an attempt that does not count."
}

// Validate checks --lines.
func (c *execShowCmd) Validate() error {
	if c.Lines < 0 {
		return fmt.Errorf("--lines is %d: it must be 0 or more", c.Lines)
	}
	return c.clientFlags.Validate()
}

// Run prints a summary and the timeline.
func (c *execShowCmd) Run(ctx context.Context, std *streams) error {
	id, err := c.execution(ctx, c.ID)
	if err != nil {
		return err
	}
	detail, err := c.api().Execution(ctx, id)
	if err != nil {
		return err
	}
	list := []events.CloudEvent{}
	for e, err := range c.api().ExecutionEvents(ctx, id) {
		if err != nil {
			return err
		}
		list = append(list, e.CloudEvent)
	}
	if c.JSON {
		return std.out.PrintJSON(map[string]any{"execution": detail.JSON, "events": list})
	}
	e := shownExecution(detail.Body)
	e.print(std.out)
	t := newTimeline(std.out, list, c.Lines)
	t.files = c.wholeFiles(ctx, id, list)
	for _, one := range list {
		t.add(one)
	}
	if e.CompletedAt == nil {
		std.out.Printf("%*s%s\n", timelineIndent, "", terminal.Span{Color: terminal.Cyan, Text: "… it has not ended; daybook exec watch " + e.ExecutionID + " follows it"})
	}
	return nil
}

// wholeFiles returns the files of a run if its request has only their beginning; nil if they
// are not readable.
func (c *execShowCmd) wholeFiles(ctx context.Context, id string, list []events.CloudEvent) []byte {
	for _, e := range list {
		if events.Type(e.Type) != events.TypeExecutionRequested {
			continue
		}
		files := payload[events.ExecutionRequested](e).Content.Value().Files
		if files == nil || files.Blob == nil || files.Blob.Size == int64(len(files.Blob.Preview)) {
			return nil
		}
		text, err := c.api().Text(ctx, id, "files")
		if err != nil {
			return nil
		}
		defer text.Close()
		whole, err := io.ReadAll(text)
		if err != nil {
			return nil
		}
		return whole
	}
	return nil
}

// shownExecution is an execution whose summary is printed.
type shownExecution client.Execution

// listed returns the fields that a list shows.
func (e shownExecution) listed() listedExecution {
	return listedExecution{
		ExecutionID: e.ExecutionID, Status: e.Status, StartedAt: e.StartedAt, CompletedAt: e.CompletedAt,
		Attempt: e.Attempt, Queued: e.Queued, Session: e.Session, LogicalSession: e.LogicalSession,
	}
}

// codeLines is the maximum number of code lines in the summary.
const codeLines = 6

// leastWaitMillis is the minimum wait for a slot, or for the turn in a session, that
// the summary shows, in ms. The timeline also shows shorter waits.
const leastWaitMillis = 1000

func (e shownExecution) print(out *terminal.Screen) {
	label := func(name string) terminal.Span {
		return terminal.Span{Color: terminal.Dim, Text: fmt.Sprintf("%-10s", name)}
	}
	field := func(name, text string) { out.Printf("%s %s\n", label(name), text) }
	field("execution", e.ExecutionID)
	listed, lasted := e.listed(), ""
	if t := listed.runTime(time.Now()); t != "-" {
		lasted = ", " + t
	}
	out.Printf("%s %s%s\n", label("status"), terminal.Span{Color: terminal.ColorOf(listed.state()), Text: listed.state()}, lasted)
	field("accepted", e.RequestedAt)
	if e.QueuedMillis != nil && *e.QueuedMillis >= leastWaitMillis {
		field("waited", terminal.FormatDuration(time.Duration(*e.QueuedMillis)*time.Millisecond)+" for a slot or its turn")
	}
	if s := listed.session(); s != "-" {
		field("session", s)
	}
	if e.WithoutHeap {
		field("heap", "none: it restores and leaves no heap")
	}
	if e.InputHeap != nil {
		field("from heap", *e.InputHeap)
	}
	if e.Heap != nil {
		field("heap", *e.Heap)
	}
	if e.Artifacts > 0 {
		field("artifacts", fmt.Sprintf("%d; daybook exec artifacts %s lists them", e.Artifacts, e.ExecutionID))
	}
	if len(e.Nondeterministic) > 0 {
		field("repeats", "perhaps not: "+describeNondeterminism(e.Nondeterministic))
	}
	if r := e.Replay; r != nil {
		field("replay", describeReplay(r, e.EngineID))
	}
	if e.Shredded != nil {
		field("code", "shredded at "+e.Shredded.At)
		return
	}
	lines := strings.Split(strings.TrimRight(e.Code, "\n"), "\n")
	field("code", fmt.Sprintf("%s, %s", e.FileName, terminal.CountNoun(len(lines), "line")))
	for i, line := range lines {
		if i == codeLines && len(lines) > codeLines+1 {
			out.Printf("           … %d more; daybook exec get %s\n", len(lines)-i, e.ExecutionID)
			break
		}
		text, rest := firstBytes(line, mostLineBytes)
		out.Printf("           %s\n", terminal.Cut(out, text, 11))
		if rest > 0 {
			out.Printf("           … %d of %d bytes more; daybook exec get %s\n", rest, len(line), e.ExecutionID)
		}
	}
}

// describeNondeterminism returns why a run may not repeat, as a part of a sentence.
func describeNondeterminism(list []events.Nondeterminism) string {
	texts := make([]string, len(list))
	for i, n := range list {
		switch n {
		case events.ReadCollectedWeakRef:
			texts[i] = "the script read a WeakRef whose target was collected"
		case events.RanFinalizer:
			texts[i] = "a callback of a FinalizationRegistry ran"
		default: // of a newer server
			texts[i] = string(n)
		}
	}
	return strings.Join(texts, ", and ")
}

// describeReplay returns the newest verdict about a run of an engine in one line.
func describeReplay(r *client.LastReplay, engineID *string) string {
	text := strings.ReplaceAll(string(r.Verdict), "_", " ") + " at " + r.At
	if r.EngineID != "" && engineID != nil && r.EngineID != *engineID {
		text += ", by another engine"
	}
	switch {
	case r.Reason != "":
		text += ": " + r.Reason
	case r.Part != "":
		text += ": " + string(r.Part)
	case r.Stopped:
		text += ", up to where the run was stopped"
	}
	for _, n := range []struct {
		what   string
		number int64
	}{{"line", r.Line}, {"call", int64(r.Call)}, {"artifact", int64(r.Artifact)}} {
		if n.number > 0 {
			text += fmt.Sprintf(", %s %d", n.what, n.number)
		}
	}
	return text
}

type timeline struct {
	out   *terminal.Screen
	begin time.Time
	// Lines with a number from hideFrom to hideTo, both included, are hidden.
	hideFrom, hideTo int64
	hidden           bool // the note about the hidden lines was printed
	// from maps an attempt to the number of its first line. Lines of earlier attempts
	// from that number on are void.
	from map[int]int64
	last int // newest attempt
	// files is the JSON of all files of the run, if the request has only its beginning.
	files []byte
	long  longLines
}

func (t *timeline) add(e events.CloudEvent) {
	switch events.Type(e.Type) {
	case events.TypeExecutionRequested:
		d := payload[events.ExecutionRequested](e)
		t.out.Printf("\n")
		t.line(e, "accepted "+requestText(d), "")
		t.note("limits %d s, %d MB", d.Limits.ExecutionTimeoutSecs, d.Limits.HeapMemoryMaxMB)
		if files := d.Content.Value().Files; files != nil {
			// Not cut to the width of the terminal, so that all are listed.
			t.out.Printf("%*sfiles %s\n", timelineIndent+2, "", filesText(*files, t.files))
		}
		t.warnings(d.Warnings)
	case events.TypeExecutionStarted:
		d := payload[events.ExecutionStarted](e)
		t.line(e, "started "+startText(d), terminal.Cyan)
		t.note("runner %s", d.Runner)
		if d.Attempt > 1 {
			t.note("output continues at line %d; random seed and clock are those of attempt 1", d.FirstLine)
		}
		for _, m := range d.WASMModules {
			t.note("WebAssembly module %s, sha256 %s", m.Name, shortHash(m.Module.SHA256))
		}
		t.warnings(d.Warnings)
	case events.TypeExecutionOutput:
		t.output(e)
	case events.TypeHostCalled:
		t.line(e, eventText(e), "")
	case events.TypeHostReturned:
		d := payload[events.HostReturned](e)
		t.line(e, eventText(e), terminal.ColorOf(string(d.Outcome)))
	case events.TypeExecutionCompleted, events.TypeExecutionFailed, events.TypeExecutionTimedOut, events.TypeExecutionCancelled:
		t.end(e)
	default:
		word := strings.ReplaceAll(eventKind(e.Type), ".", " ")
		t.line(e, strings.ReplaceAll(strings.TrimPrefix(word, "execution "), "_", " ")+": "+eventText(e), "")
	}
}

func (t *timeline) end(e events.CloudEvent) {
	d := payload[events.Ending](e)
	status := strings.TrimPrefix(eventKind(e.Type), "execution.")
	text := status
	if d.Reason != "" && d.Reason != status {
		text += " (" + d.Reason + ")"
	}
	if d.Actor != nil {
		text += " by " + actorText(*d.Actor)
	}
	if d.Usage != nil {
		text += fmt.Sprintf(", %s of processor time", terminal.FormatDuration(time.Duration(d.Usage.CPUMillis)*time.Millisecond))
	}
	t.line(e, text, terminal.ColorOf(status))
	content := d.Content.Value()
	if content.Error != nil {
		failure := bodyText(content.Error)
		if d.Reason == outOfMemory {
			failure = replaceMemoryField(failure)
		}
		for line := range strings.Lines(failure) {
			text, rest := firstBytes(strings.TrimSuffix(line, "\n"), mostLineBytes)
			t.note("%s", text)
			if rest > 0 {
				t.note("… %d of %d bytes more; daybook exec get %s", rest, len(text)+rest, e.Subject)
			}
		}
	}
	if content.Result != nil {
		t.note("result %s", terminal.OneLine(bodyText(content.Result), 500))
	}
	if d.Heap != nil {
		t.note("heap %s", d.Heap.SHA256)
	}
	t.warnings(d.AllWarnings())
}

// line prints a text with the time of an event.
func (t *timeline) line(e events.CloudEvent, text, color string) {
	clock, since := "", ""
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil {
		if t.begin.IsZero() {
			t.begin = at
		}
		clock = at.UTC().Format("15:04:05.000")
		if d := at.Sub(t.begin); d > 0 {
			since = "+" + terminal.FormatDuration(d)
		}
	}
	t.out.Printf("%s  %s\n", terminal.Span{Color: terminal.Dim, Text: fmt.Sprintf("%-12s  %-10s", clock, since)}, terminal.Span{Color: color, Text: terminal.Cut(t.out, text, timelineIndent)})
}

// timelineIndent is the width before the text of a line.
const timelineIndent = 26

// note prints a continuation of the line before.
func (t *timeline) note(format string, args ...any) {
	text := terminal.Cut(t.out, fmt.Sprintf(format, args...), timelineIndent+2)
	t.out.Printf("%*s%s\n", timelineIndent+2, "", text)
}

func (t *timeline) warnings(list []string) {
	for _, w := range list {
		t.note("%s", "warning: "+replaceMemoryField(w))
	}
}
