package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"daybook/damage"
	"daybook/embed"
)

type statusCmd struct{ clientFlags }

// Help is shown by "daybook status --help".
func (c *statusCmd) Help() string {
	return "Exit status 0 when nothing is known to be wrong, 1 when the ledger is damaged, which makes the server read-only, or when heaps or texts are damaged."
}

// serverStatus is what the command shows, and prints as JSON.
type serverStatus struct {
	Damage struct {
		Damaged  bool             `json:"damaged"`
		ReadOnly bool             `json:"read_only"`
		Findings []damage.Finding `json:"findings"`
		More     int              `json:"more"`
		Advice   string           `json:"advice,omitempty"`
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
	s.printDamage(out)
	switch {
	case s.Scrub == nil:
		fmt.Fprintln(out, "The scrub does not run.")
	case s.Scrub.RoundEnded != nil:
		fmt.Fprintf(out, "Completed passes of the scrub: %d; the last ended at %s.\n", s.Scrub.Rounds, s.Scrub.RoundEnded.Format(time.RFC3339))
	default:
		fmt.Fprintf(out, "The scrub is at event %d of %d in its first pass.\n", s.Scrub.Position, s.Scrub.End)
	}
	return nil
}

// printDamage prints the findings that last, and then those that have ended.
func (s *serverStatus) printDamage(out *screen) {
	switch {
	case s.Damage.ReadOnly:
		fmt.Fprintln(out, ledgerDamaged+".")
	case s.Damage.Damaged:
		fmt.Fprintln(out, blobsDamaged+".")
	default:
		fmt.Fprintln(out, "Nothing is known to be wrong with the ledger.")
	}
	for _, f := range s.Damage.Findings {
		if f.Ended == nil {
			out.printf("  %s\n", f)
		}
	}
	if s.Damage.More > 0 {
		fmt.Fprintf(out, "  and %d more\n", s.Damage.More)
	}
	if s.Damage.Advice != "" {
		out.printf("What to do: %s.\n", s.Damage.Advice)
	}
	for _, f := range s.Damage.Findings {
		if f.Ended != nil {
			out.printf("Ended at %s: %s (%s).\n", f.Ended.Format(time.RFC3339), f, f.Repair)
		}
	}
}

// Headlines of damage.
const (
	ledgerDamaged = "READ-ONLY: the ledger is damaged"
	blobsDamaged  = "DAMAGED: heaps or texts cannot be read; everything that does not need them works"
)

// damageNotice returns a headline and lines about the damage that a start found; an
// empty headline without any.
func damageNotice(book *embed.Daybook) (headline string, findings []string) {
	list, more := book.Damage()
	for _, f := range list {
		if f.Ended != nil {
			continue
		}
		findings = append(findings, "damaged: "+f.String())
		if headline != ledgerDamaged {
			headline = blobsDamaged
		}
		if f.Radius == damage.OfLedger {
			headline = ledgerDamaged
		}
	}
	if more > 0 {
		findings = append(findings, fmt.Sprintf("damaged: and %d more", more))
	}
	return headline, findings
}
