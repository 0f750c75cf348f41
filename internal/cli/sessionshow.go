package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type sessionShowCmd struct {
	clientFlags
	oneSession
	Last  int `short:"n" help:"Maximum number of runs to show, the newest, 1 to 200." default:"20" placeholder:"N"`
	Lines int `help:"Maximum number of lines of each code, output, result and error to show; 0 shows all within --bytes." default:"12" placeholder:"N"`
	Bytes int `help:"Maximum number of bytes of each code, output, result and error to show, 0 to 65536." default:"2048" placeholder:"N"`
}

// Help is shown by "daybook session show --help".
func (c *sessionShowCmd) Help() string {
	return "Shows the newest runs of a session in the order of their acceptance, each with its code, output, result or error, artifacts and output heap, and the resets between them. Times are in UTC. " +
		"Control characters are escaped, also in the output to a pager or a file; --json has the original bytes."
}

// Validate checks --lines.
func (c *sessionShowCmd) Validate() error {
	if c.Lines < 0 {
		return fmt.Errorf("--lines is %d: it must be 0 or more", c.Lines)
	}
	return c.clientFlags.Validate()
}

// Run prints the runs of a session, oldest first.
func (c *sessionShowCmd) Run(ctx context.Context, std *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	answer, err := c.api().Turns(ctx, c.Name, c.Last, c.Bytes)
	if err != nil {
		return withSessionHint(err, listSessions)
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	c.print(std.out, answer.Body)
	return nil
}

func (c *sessionShowCmd) print(out *terminal.Screen, t client.Turns) {
	s := t.Session
	head := "a fresh isolate"
	if s.Head != nil {
		head = "heap " + shortKeyOf(s.Head)
	}
	out.Printf("%s\n", terminal.Span{Color: terminal.Bold, Text: fmt.Sprintf("%s session %s", s.Kind, labelOf(s.SessionID, s.Name))})
	out.Printf("%s, since %s, %s, continues from %s\n", shortKeyOf(&s.SessionID), formatTime(s.CreatedAt), terminal.CountNoun(s.Runs, "run"), head)
	if t.Earlier > 0 {
		out.Printf("\n%s\n", terminal.Span{Color: terminal.Dim, Text: fmt.Sprintf("… %d earlier %s; --last %d shows %s", t.Earlier, terminal.Plural(int(t.Earlier), "run"), min(t.Earlier+int64(c.Last), 200), pronounFor(t.Earlier))})
	}
	number := t.Earlier
	for _, m := range t.Moments {
		switch {
		case m.Run != nil:
			number++
			if s.Kind == events.SessionLog {
				m.Run.Turn = nil // the turn belongs to another session
			}
			printTurn(out, *m.Run, number, c.Lines)
		case m.Reset != nil:
			to, why := "a fresh isolate", "reset"
			if m.Reset.Heap != nil {
				to = "heap " + shortKeyOf(m.Reset.Heap)
			}
			if m.Reset.Reason != nil {
				why = "state lost (" + *m.Reset.Reason + "), reset"
			}
			out.Printf("\n%s\n", terminal.Span{Color: terminal.Yellow, Text: fmt.Sprintf("── %s to %s, %s", why, to, formatTime(m.Reset.At))})
		case m.Command != nil:
			out.Printf("\n%s\n", terminal.Span{Color: terminal.Dim, Text: fmt.Sprintf("── command, %s", formatTime(m.Command.At))})
			printSection(out, "", m.Command.Text, "")
			if m.Command.Answer != nil {
				printSection(out, "answer", firstLines(*m.Command.Answer, c.Lines), "")
			}
		}
	}
}

// pronounFor returns the pronoun for n things.
func pronounFor(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// printTurn prints a run: a head line, then code, output, result or error, and heap.
func printTurn(out *terminal.Screen, t client.Turn, number int64, lines int) {
	word := "run"
	if t.Turn != nil {
		word, number = "turn", *t.Turn
	}
	state := string(t.Status)
	switch {
	case t.Queued:
		state = "queued"
	case t.Reason != nil && *t.Reason != string(t.Status) && *t.Reason != "exception":
		state += " (" + *t.Reason + ")"
	}
	if t.DurationMS != nil {
		state += " in " + terminal.FormatDuration(time.Duration(*t.DurationMS)*time.Millisecond)
	}
	out.Printf("\n%s  %s  %s\n", terminal.Span{Color: terminal.Bold, Text: fmt.Sprintf("%s %d", word, number)}, terminal.Span{Color: terminal.ColorOf(string(t.Status)), Text: state},
		terminal.Span{Color: terminal.Dim, Text: formatTime(t.RequestedAt) + "  " + t.ExecutionID})
	if t.Erased {
		out.Printf("    shredded\n")
	} else {
		get := "daybook exec get " + t.ExecutionID
		printExcerpt(out, t.Code, "", lines, get)
		printExcerpt(out, t.Output, "output", lines, "daybook exec output "+t.ExecutionID)
		if t.Result != nil {
			printExcerpt(out, *t.Result, "result", lines, get)
		}
		if t.Error != nil {
			failure := *t.Error
			if t.Reason != nil && *t.Reason == outOfMemory {
				shown := replaceMemoryField(failure.Text)
				failure.Bytes += int64(len(shown) - len(failure.Text))
				failure.Text = shown
			}
			printExcerpt(out, failure, "error", lines, get)
		}
		printArtifacts(out, t)
	}
	if t.Heap != nil {
		out.Printf("%s %s\n", terminal.Span{Color: terminal.Dim, Text: "  heap  "}, shortKeyOf(t.Heap))
	}
}

// printArtifacts prints the artifacts of a run, one a line, and the command that lists all if
// some are omitted.
func printArtifacts(out *terminal.Screen, t client.Turn) {
	show := func(color, text string) {
		out.Printf("%s %s\n", terminal.Span{Color: terminal.Dim, Text: "  artifact"}, terminal.Span{Color: color, Text: text})
	}
	for _, f := range t.ArtifactList {
		show("", artifactText(f.Name, f.MIME, f.Size))
	}
	if t.Artifacts > int64(len(t.ArtifactList)) {
		show(terminal.Dim, fmt.Sprintf("… %d in all: daybook exec artifacts %s", t.Artifacts, t.ExecutionID))
	}
}

// printExcerpt prints the first lines of a text, the size of the omitted rest, and the
// command that prints the complete text.
func printExcerpt(out *terminal.Screen, e client.Excerpt, name string, lines int, command string) {
	text := firstLines(e.Text, lines)
	rest := ""
	if left := e.Bytes - int64(len(text)); left > 0 {
		rest = fmt.Sprintf("… %d of %d bytes more: %s", left, e.Bytes, command)
	}
	printSection(out, name, text, rest)
}

// firstLines returns at most most lines of a text; 0 means all.
func firstLines(text string, most int) string {
	end := 0
	for range most {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	if most == 0 {
		return text
	}
	return text[:end]
}

// printSection prints a text, indented, beside its name. It escapes control characters
// in the text. rest describes the omitted part.
func printSection(out *terminal.Screen, name, text, rest string) {
	if text == "" && rest == "" {
		return
	}
	const column = 9
	label := fmt.Sprintf("  %-*s", column-2, name)
	show := func(color, line string) {
		out.Printf("%s%s\n", terminal.Span{Color: terminal.Dim, Text: label}, terminal.Span{Color: color, Text: line})
		label = strings.Repeat(" ", column)
	}
	if text != "" {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			show("", line)
		}
	}
	if rest != "" {
		show(terminal.Dim, rest)
	}
}

// formatTime returns a time of an answer to the second, in UTC.
func formatTime(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("2006-01-02 15:04:05")
}
