package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"daybook/embed"
	"daybook/internal/cli/terminal"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/web/client"
)

type statusCmd struct{ clientFlags }

// Help is shown by "daybook status --help".
func (c *statusCmd) Help() string {
	return "Shows whether the server is ready (/readyz), the findings of damage, the anomalies of the ledger, whether the server signs checkpoints, the newest one that witnesses cosigned and the progress of the scrub. Anomalies do not change the exit status. With --auth the token needs the scope read.\n\n" +
		"Exit status:\n\n" +
		"  0  The server is ready, and no damage is known.\n\n" +
		"  1  The server is not ready, for example because its disk is full, the ledger, a heap or a text is damaged, or the replay of an execution differs from its record.\n\n" +
		"  2  The command line has a mistake, or the server refuses the request, for example because the token has no scope read.\n\n" +
		"  5  The server does not answer, or cannot answer now."
}

// serverStatus is the output of the command. --json prints it.
type serverStatus struct {
	Ready bool `json:"ready"`
	// NotReady is the reason that /readyz gives.
	NotReady string        `json:"not_ready,omitempty"`
	Damage   client.Damage `json:"damage"`
	// Anomalies is nil if the server does not report them.
	Anomalies *client.Anomalies `json:"anomalies,omitempty"`
	// Scrub is nil if the server does not scrub.
	Scrub *scrubStatus `json:"scrub,omitempty"`
	// Unsigned is why the server signs no checkpoints, if it is ready.
	Unsigned string `json:"unsigned,omitempty"`
	// Cosigned is nil if the server has no witnesses, or is not ready.
	Cosigned *client.Cosigned `json:"cosigned,omitempty"`
}

// scrubStatus is the progress of the scrub.
type scrubStatus struct {
	Position   uint64     `json:"position"`
	End        uint64     `json:"end"`
	Rounds     uint64     `json:"rounds"`
	RoundEnded *time.Time `json:"round_ended"`
}

// shownAnomalies is the maximum number of anomalies in the text.
const shownAnomalies = 5

// printAnomalies prints the counts and the newest anomalies. It prints nothing if there
// are none.
func printAnomalies(out *terminal.Screen, r *client.Anomalies) {
	if r.RuleBroken+r.UnknownType == 0 {
		return
	}
	fmt.Fprintf(out, "Anomalies: %s with a broken rule, %s of an unknown type. Answers ignore their effect. The newest:\n", terminal.CountNoun(r.RuleBroken, "event"), terminal.CountNoun(r.UnknownType, "event"))
	for _, n := range r.Newest[:min(len(r.Newest), shownAnomalies)] {
		detail := n.Detail
		if detail == "" {
			detail = "unknown type"
		}
		out.Printf("  position %d, tenant %s, %s, %s: %s\n", n.Sequence, n.Tenant, n.Time.Format(time.RFC3339), n.Type, detail)
	}
	if r.Advice != "" {
		out.Printf("What to do: %s.\n", r.Advice)
	}
}

// Run prints whether the server is ready and whether its ledger is damaged.
func (c *statusCmd) Run(ctx context.Context, std *streams) error {
	var s serverStatus
	found, err := c.api().Damage(ctx)
	if err != nil {
		return err
	}
	s.Damage = found.Body
	if err := c.readiness(ctx, &s); err != nil {
		return err
	}
	// A server of an earlier version does not report anomalies, and a server that cannot
	// read its projections answers with an error.
	if found, err := c.api().Anomalies(ctx); err == nil {
		s.Anomalies = &found.Body
	}
	// It is expected that the scrub does not run while the ledger is damaged.
	if p, err := c.api().Scrub(ctx); err == nil {
		s.Scrub = &scrubStatus{p.Body.Position, p.Body.End, p.Body.Rounds, p.Body.RoundEnded}
	}
	if s.Ready {
		signing, _ := c.api().Signing(ctx) // it does not change the exit status
		s.Unsigned, s.Cosigned = signing.Unsigned, signing.Cosigned
	}
	if err := s.print(std.out, c.JSON); err != nil {
		return err
	}
	if s.Damage.Damaged || !s.Ready {
		return exitError(exitFailed)
	}
	return nil
}

// readiness asks whether the server is ready. Only status 503 means that it is not; any
// other failure is returned.
func (c *statusCmd) readiness(ctx context.Context, s *serverStatus) error {
	err := c.api().Ready(ctx)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusServiceUnavailable {
		s.NotReady = strings.TrimPrefix(refused.Message, "not ready: ")
		return nil
	}
	s.Ready = err == nil
	return err
}

func (s *serverStatus) print(out *terminal.Screen, asJSON bool) error {
	if asJSON {
		raw, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return out.WriteJSON(string(raw))
	}
	s.printDamage(out)
	if s.Anomalies != nil {
		printAnomalies(out, s.Anomalies)
	}
	if s.Unsigned != "" {
		out.Printf("This server signs no checkpoints: %s.\n", s.Unsigned)
	}
	switch {
	case s.Cosigned == nil:
	case s.Cosigned.Time == nil:
		fmt.Fprintln(out, "Too few witnesses have cosigned a checkpoint yet.")
	default:
		fmt.Fprintf(out, "Witnesses cosigned the first %s; they knew no larger checkpoint at %s, %s ago.\n", terminal.CountNoun(s.Cosigned.Size, "event"), s.Cosigned.Time.Format(time.RFC3339), time.Since(*s.Cosigned.Time).Round(time.Second))
	}
	if s.Cosigned != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Cosigned.Claims)) {
			fmt.Fprintf(out, "The witness %q claims, without a proof, to have cosigned a checkpoint of %s that this ledger does not continue: ask its operator for that checkpoint.\n", name, terminal.CountNoun(s.Cosigned.Claims[name], "event"))
		}
		for _, name := range slices.Sorted(maps.Keys(s.Cosigned.Refusals)) {
			out.Printf("The witness %q refuses the checkpoints of this server: %s.\n", name, s.Cosigned.Refusals[name])
		}
		for _, name := range slices.Sorted(maps.Keys(s.Cosigned.Failures)) {
			out.Printf("The witness %q does not cosign the checkpoints of this server: %s.\n", name, s.Cosigned.Failures[name])
		}
	}
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

// printDamage prints the current findings, then those that have ended.
func (s *serverStatus) printDamage(out *terminal.Screen) {
	current := func(r damage.Radius) bool {
		return slices.ContainsFunc(s.Damage.Findings, func(f damage.Finding) bool { return f.Radius == r && f.Ended == nil })
	}
	switch {
	case s.Damage.ReadOnly:
		fmt.Fprintln(out, ledgerDamaged+".")
	case s.Damage.Damaged && current(damage.OfBlob):
		fmt.Fprintln(out, blobsDamaged+".")
	case s.Damage.Damaged && current(damage.OfRun):
		fmt.Fprintln(out, replaysDiffer+".")
	case s.Damage.Damaged:
		fmt.Fprintln(out, othersDamaged+".")
	case s.Ready:
		fmt.Fprintln(out, "No damage found in the ledger.")
	}
	if !s.Ready {
		out.Printf("NOT READY: %s.\n", strings.TrimSuffix(s.NotReady, "."))
	}
	for _, f := range s.Damage.Findings {
		if f.Ended == nil {
			out.Printf("  %s\n", f)
		}
	}
	if s.Damage.More > 0 {
		fmt.Fprintf(out, "  and %d more\n", s.Damage.More)
	}
	if s.Damage.Advice != "" {
		out.Printf("What to do: %s.\n", s.Damage.Advice)
	}
	for _, f := range s.Damage.Findings {
		if f.Ended != nil {
			out.Printf("Ended at %s: %s (%s).\n", f.Ended.Format(time.RFC3339), f, f.Repair)
		}
	}
}

// Headlines of damage.
const (
	ledgerDamaged = "READ-ONLY: the ledger is damaged"
	blobsDamaged  = "DAMAGED: heaps or texts cannot be read; everything that does not need them works"
	// othersDamaged is shown if no current finding is listed.
	othersDamaged = "DAMAGED: heaps, texts or executions of other tenants; everything that does not need them works"
	replaysDiffer = "DIFFERENT: replays of executions differ from their records; everything works"
)

// damageNotice returns a headline and lines about damage that was found at start. The
// headline is empty if there is none.
func damageNotice(book *embed.Daybook) (headline string, findings []string) {
	list, more := book.Damage()
	for _, f := range list {
		if f.Ended != nil {
			continue
		}
		findings = append(findings, "damaged: "+f.String())
		switch {
		case f.Radius == damage.OfLedger:
			headline = ledgerDamaged
		case f.Radius == damage.OfBlob && headline != ledgerDamaged:
			headline = blobsDamaged
		case headline == "":
			headline = replaysDiffer
		}
	}
	if more > 0 {
		findings = append(findings, fmt.Sprintf("damaged: and %d more", more))
	}
	return headline, findings
}
