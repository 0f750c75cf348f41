package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"daybook/damage"
)

type statusCmd struct{ clientFlags }

// Help is shown by "daybook status --help".
func (c *statusCmd) Help() string {
	return "Exit status 0 when nothing is known to be wrong, 1 when the ledger is damaged and the server therefore read-only."
}

// serverStatus is what the command shows, and prints as JSON.
type serverStatus struct {
	Damage struct {
		Damaged  bool `json:"damaged"`
		Findings []struct {
			Stream string    `json:"stream,omitempty"`
			First  uint64    `json:"first,omitempty"`
			Last   uint64    `json:"last,omitempty"`
			What   string    `json:"what"`
			By     string    `json:"by"`
			Time   time.Time `json:"time"`
		} `json:"findings"`
		More   int    `json:"more"`
		Advice string `json:"advice,omitempty"`
	} `json:"damage"`
	// Scrub is absent where the server does not scrub.
	Scrub *struct {
		Position   uint64     `json:"position"`
		End        uint64     `json:"end"`
		Rounds     uint64     `json:"rounds"`
		RoundEnded *time.Time `json:"round_ended"`
	} `json:"scrub,omitempty"`
}

// Run prints what is wrong with the server's ledger, if anything.
func (c *statusCmd) Run(ctx context.Context, std *streams) error {
	var s serverStatus
	if err := c.call(ctx, "GET", "/api/ledger/damage", nil, &s.Damage); err != nil {
		return err
	}
	if err := c.call(ctx, "GET", "/api/ledger/scrub", nil, &s.Scrub); err != nil {
		s.Scrub = nil // it does not, which is no news while it is damaged
	}
	if err := s.print(std.out, c.JSON); err != nil {
		return err
	}
	if s.Damage.Damaged {
		return exitError(exitFailed)
	}
	return nil
}

func (s *serverStatus) print(out *screen, asJSON bool) error {
	if asJSON {
		raw, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return out.writeJSON(string(raw))
	}
	if s.Damage.Damaged {
		fmt.Fprintln(out, "READ-ONLY: the ledger is damaged.")
		for _, f := range s.Damage.Findings {
			out.printf("  %s\n", damage.Finding{Stream: f.Stream, First: f.First, Last: f.Last, What: f.What}.String())
		}
		if s.Damage.More > 0 {
			fmt.Fprintf(out, "  and %d more\n", s.Damage.More)
		}
		out.printf("What to do: %s.\n", s.Damage.Advice)
	} else {
		fmt.Fprintln(out, "Nothing is known to be wrong with the ledger.")
	}
	switch {
	case s.Scrub == nil:
		fmt.Fprintln(out, "The scrub does not run.")
	case s.Scrub.RoundEnded != nil:
		fmt.Fprintf(out, "The scrub has completed %d passes; the last ended at %s.\n", s.Scrub.Rounds, s.Scrub.RoundEnded.Format(time.RFC3339))
	default:
		fmt.Fprintf(out, "The scrub is at event %d of %d in its first pass.\n", s.Scrub.Position, s.Scrub.End)
	}
	return nil
}
