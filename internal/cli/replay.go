package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

type sessionReplayCmd struct {
	clientFlags
	oneSession
	Speed     string `help:"Factor of the original speed, such as 1, 10 or 0.5, or max for no pauses." default:"1" placeholder:"FACTOR"`
	MaxPause  string `help:"Longest pause between two events, such as 5s." placeholder:"DURATION"`
	From      string `help:"Begin at this position." placeholder:"SEQUENCE"`
	To        string `help:"End after this position." placeholder:"SEQUENCE"`
	FromEntry string `help:"Only runs of the entries from this index on." placeholder:"INDEX"`
	ToEntry   string `help:"Only runs of the entries up to this index." placeholder:"INDEX"`
	Subject   string `help:"Publish the events under this NATS subject instead of printing them; it must be one below replay.TENANT., such as replay.default.review." placeholder:"SUBJECT"`
}

// Help is shown by "daybook session replay --help".
func (c *sessionReplayCmd) Help() string {
	return "Tells the events of a session once more, in order and with the pauses they had, one CloudEvent a line. " +
		"They are those on record, marked with \"replayed\": true. Nothing is run again, and nothing is recorded."
}

// Run prints or publishes the events of a session.
func (c *sessionReplayCmd) Run(ctx context.Context, std *streams) error {
	method := http.MethodGet
	if c.Subject != "" {
		method = http.MethodPost
	}
	path := c.path() + "/replay" + query("speed", c.Speed, "max_pause", c.MaxPause,
		"from", c.From, "to", c.To, "from_entry", c.FromEntry, "to_entry", c.ToEntry, "subject", c.Subject)
	resp, err := c.send(ctx, method, path, nil, "Accept", "application/x-ndjson")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	told, err := copyLines(std.out, resp.Body, c.Subject == "")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the replay broke off after %d events: %w", told, err)
	case c.Subject != "":
		fmt.Fprintf(std.err, "Published %d events under %s.\n", told, c.Subject)
	}
	return nil
}

// copyLines passes on each line as it comes, if show is set, and counts them.
func copyLines(out io.Writer, in io.Reader, show bool) (n int, err error) {
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
			continue // a sign of life
		}
		n++
		if !show {
			continue
		}
		if _, err := out.Write(line); err != nil {
			return n, err
		}
	}
}
