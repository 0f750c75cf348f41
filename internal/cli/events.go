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

type eventsCmd struct {
	Tail   eventsTailCmd   `cmd:"" help:"Print recorded events and follow new ones."`
	Export eventsExportCmd `cmd:"" help:"Export events with their proofs to a directory."`
}

type eventsTailCmd struct {
	clientFlags
	After     uint64   `help:"Position to start after, the sequence of an event. Default: the beginning." placeholder:"SEQUENCE"`
	Types     []string `name:"type" sep:"none" help:"Event type to print, such as daybook.execution.completed.v1; may be repeated." placeholder:"TYPE"`
	Execution string   `help:"Execution whose events to print: its id, a unique prefix, or @last." placeholder:"ID"`
	Session   string   `help:"Session to print, with its runs: a name, intent, ref or id, or a unique prefix." placeholder:"SESSION"`
	NoFollow  bool     `help:"Stop after the newest recorded event."`
}

// Help is shown by "daybook events tail --help".
func (c *eventsTailCmd) Help() string {
	return "Prints one line per event: position, time, type, subject and a summary of the content. With --json each line is the complete event, as a CloudEvent."
}

// Run prints events until it is interrupted, or until the newest one with --no-follow.
func (c *eventsTailCmd) Run(ctx context.Context, std *streams) error {
	execution := c.Execution
	if execution != "" {
		var err error
		if execution, err = c.execution(ctx, execution); err != nil {
			return err
		}
	}
	err := c.print(ctx, std, client.From{After: c.After, Types: c.Types, Execution: execution, Session: c.Session})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // an interrupt is the usual end of following
	}
	return err
}

func (c *eventsTailCmd) print(ctx context.Context, std *streams, from client.From) error {
	shown := false
	last := "" // position of the last event
	for e, err := range c.api().Events(ctx, from) {
		switch {
		case err != nil:
			return withTailHint(err, last)
		case e.CaughtUp:
			if !shown {
				c.noteUnknownSession(ctx, std, c.Session)
			}
			if c.NoFollow {
				return nil
			}
		case c.JSON:
			_ = std.out.WriteJSON(string(e.JSON)) // Err returns the error
		default:
			printEvent(std.out, e.CloudEvent)
		}
		if err := std.out.Err(); err != nil {
			return withTailHint(fmt.Errorf("write the output: %w", err), last)
		}
		if shown = true; e.Sequence != "" {
			last = e.Sequence
		}
	}
	return nil
}

// withTailHint adds to an error how to continue after the last printed event. last is its
// position, or empty.
func withTailHint(err error, last string) error {
	if last == "" {
		return err
	}
	return fmt.Errorf("%w; to continue after the last printed event, repeat the command with --after %s", err, last)
}

// subjectWidth is the number of characters of a subject in a line, enough to identify
// an id.
const subjectWidth = 18

// printEvent prints an event in one line.
func printEvent(out *terminal.Screen, e events.CloudEvent) {
	clock := e.Time
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil && out.Terminal {
		clock = at.Local().Format("01-02 15:04:05.000")
	}
	kind := eventKind(e.Type)
	status := strings.TrimPrefix(kind, "execution.")
	head := fmt.Sprintf("%-7s %s  ", e.Sequence, clock)
	kindText := fmt.Sprintf("%-22s", kind)
	about := fmt.Sprintf("%-*s", subjectWidth, e.Subject[:min(len(e.Subject), subjectWidth)])
	text := terminal.Cut(out, eventText(e), len(head)+len(kindText)+subjectWidth+2)
	out.Printf("%s%s %s %s\n", terminal.Span{Color: terminal.Dim, Text: head}, terminal.Span{Color: terminal.ColorOf(status), Text: kindText}, about, text)
}
