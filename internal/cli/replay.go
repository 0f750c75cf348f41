package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type sessionReplayCmd struct {
	clientFlags
	oneSession
	Speed     string `help:"Multiple of the original speed, such as 1, 10 or 0.5, or max for no pauses." default:"1" placeholder:"FACTOR"`
	MaxPause  string `help:"Maximum pause between two events, such as 5s. Default: unlimited." placeholder:"DURATION"`
	From      string `help:"First position of the replay." placeholder:"SEQUENCE"`
	To        string `help:"Last position of the replay, inclusive." placeholder:"SEQUENCE"`
	FromEntry string `help:"Lowest index of the session entries whose runs to replay." placeholder:"INDEX"`
	ToEntry   string `help:"Highest index of the session entries whose runs to replay, inclusive." placeholder:"INDEX"`
	Subject   string `help:"NATS subject, below replay.TENANT., to publish the events under instead of printing them, such as replay.default.review." placeholder:"SUBJECT"`
}

// Help is shown by "daybook session replay --help".
func (c *sessionReplayCmd) Help() string {
	return "Prints or publishes the events of the session's runs and its entries, in order, one CloudEvent per line. They have their recorded content and are marked with \"replayed\": true. " +
		"At the original speed, the pauses between them are those between their times. No script runs, and nothing is recorded."
}

// Run prints or publishes the events of a session.
func (c *sessionReplayCmd) Run(ctx context.Context, std *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	resp, err := c.api().Replay(ctx, c.Name, client.ReplayRange{
		Speed: c.Speed, MaxPause: c.MaxPause, From: c.From, To: c.To, FromEntry: c.FromEntry, ToEntry: c.ToEntry, Subject: c.Subject,
	})
	if err != nil {
		return withSessionHint(err, listSessions)
	}
	defer resp.Body.Close()
	p := terminal.NewProgress(std.err, "replayed")
	p.Unit = "positions"
	if c.Subject == "" && std.out.Terminal {
		p.Out = nil // the printed events show the progress
	}
	count, err := copyLines(std.out, resp.Body, c.Subject == "", positionProgress(p, resp.Header.Get("Daybook-Last-Sequence")))
	p.Clear()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the replay stopped after %s: %w", terminal.CountNoun(count, "event"), err)
	case count == 0:
		return c.reportNoEvents(std, resp.Header.Get("Daybook-Last-Sequence"))
	case c.Subject != "":
		std.err.Printf("Published %s under %s.\n", terminal.CountNoun(count, "event"), c.Subject)
	}
	return nil
}

// reportNoEvents reports a replay without events. last is the position at which the
// replay ends: that of --to, or the end of the ledger. Servers of earlier versions do
// not return it.
func (c *sessionReplayCmd) reportNoEvents(std *streams, last string) error {
	end, unnamed := strconv.ParseUint(last, 10, 64)
	if unnamed != nil {
		std.err.Printf("No events of the session are in this range.\n")
		return nil //nolint:nilerr // the server is of an earlier version
	}
	if from, err := strconv.ParseUint(c.From, 10, 64); err == nil && from > end {
		what := "the ledger"
		if c.To != "" {
			what = "the range"
		}
		return usageError{fmt.Errorf("--from %d: no events start there: %s ends at position %d", from, what, end)}
	}
	std.err.Printf("No events of the session are in this range, which ends at position %d.\n", end)
	return nil
}

// positionProgress returns a function that shows the progress of a replay that ends at
// position last. The function MUST be called with each event. Servers of earlier
// versions do not return last; then the function does nothing.
func positionProgress(p *terminal.Progress, last string) func(line []byte) {
	end, err := strconv.ParseUint(last, 10, 64)
	if err != nil || p.Out == nil {
		return func([]byte) {}
	}
	first := uint64(0)
	return func(line []byte) {
		var e struct {
			Sequence uint64 `json:"sequence,string"`
		}
		if json.Unmarshal(line, &e) != nil || e.Sequence > end {
			return
		}
		if first == 0 {
			first = e.Sequence
		}
		p.Show(e.Sequence-first+1, end-first+1)
	}
}

// copyLines calls each with every line, prints the lines if show is set, and returns
// their number.
func copyLines(out *terminal.Screen, in io.Reader, show bool, each func(line []byte)) (n int, err error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return n, nil
		case err != nil:
			return n, err
		}
		if len(line) == 1 {
			continue // a heartbeat
		}
		n++
		each(line)
		if !show {
			continue
		}
		if err := out.WriteJSON(string(line)); err != nil {
			return n, err
		}
	}
}
