package httpapi

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/lifecycle/damage"
)

// Damage reports the known damage of the ledger. *damage.State implements it.
type Damage interface {
	Findings() (list []damage.Finding, more int)
	// Count returns the number of findings of a radius that have not ended.
	Count(damage.Radius) int
	// Err returns the damage of the ledger in one sentence, or nil.
	Err() error
	// Advice tells the operator what to do about the damage. It is empty without damage.
	Advice() string
}

func (a *api) damageRoutes(r *router) {
	op := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tagLedger}, Summary: summary, Description: description,
		}
	}
	register(r, op("get-damage", "/api/ledger/damage", "Get the damage report",
		"With a finding of radius ledger the server is read-only: runs and tags are refused with 503, intact events can be read, and /readyz answers 503. "+
			"A finding of radius blob affects what needs that heap or text: runs that start from it and requests that read it are refused. "+
			"A finding of radius run refuses nothing: the replay of that execution differs from its record."), nil, a.getDamage)
	register(r, op("get-scrub", "/api/ledger/scrub", "Get the progress of the scrub",
		"The scrub re-reads the ledger continuously at a limited rate and compares each event with the hash taken when it was recorded."), nil, a.getScrub)
}

// DamageReport is the response of GET /api/ledger/damage.
type DamageReport struct {
	Damaged  bool             `json:"damaged" doc:"Whether there is a finding that has not ended."`
	ReadOnly bool             `json:"read_only" doc:"Whether the ledger is damaged, which makes the server read-only."`
	Findings []damage.Finding `json:"findings" doc:"Findings in the order found, at most 100 of each radius."`
	More     int              `json:"more" doc:"Number of findings that are not listed, including those about blobs and executions of other tenants."`
	Advice   string           `json:"advice,omitempty" doc:"Recommended action."`
}

type damageAnswer struct{ Body DamageReport }

func (a *api) getDamage(ctx context.Context, _ *struct{}) (*damageAnswer, error) {
	report := DamageReport{Findings: []damage.Finding{}}
	if a.damage == nil {
		return &damageAnswer{Body: report}, nil
	}
	if list, more := a.damage.Findings(); len(list) > 0 {
		// Only the tenant of a blob or execution sees its hash or id.
		tenant := a.visibleTenant(ctx)
		shown := slices.DeleteFunc(list, func(f damage.Finding) bool {
			return tenant != "" && (f.Blob != nil && f.Blob.Tenant != "" && f.Blob.Tenant != tenant || f.Run != nil && f.Run.Tenant != tenant)
		})
		report.Findings, report.More = shown, more+len(list)-len(shown)
	}
	report.ReadOnly, report.Advice = a.damage.Err() != nil, a.damage.Advice()
	report.Damaged = report.ReadOnly || a.damage.Count(damage.OfBlob) > 0 || a.damage.Count(damage.OfRun) > 0
	return &damageAnswer{Body: report}, nil
}

// ScrubReport is the response of GET /api/ledger/scrub.
type ScrubReport struct {
	Position      uint64     `json:"position" doc:"Position that the current pass has reached."`
	End           uint64     `json:"end" doc:"Last position of the current pass."`
	Rounds        uint64     `json:"rounds" doc:"Number of passes completed since the start."`
	Events        uint64     `json:"events" doc:"Number of events compared since the start."`
	Bytes         uint64     `json:"bytes" doc:"Number of bytes read since the start."`
	Blobs         uint64     `json:"blobs" doc:"Number of heaps and texts compared with their hash since the start."`
	TilesRepaired uint64     `json:"tiles_repaired" doc:"Number of tiles that did not match intact events and were written again."`
	Findings      uint64     `json:"findings" doc:"Number of findings since the start; see /api/ledger/damage."`
	RoundEnded    *time.Time `json:"round_ended" doc:"Time when the last pass was completed; null before."`
}

type scrubAnswer struct{ Body ScrubReport }

func (a *api) getScrub(context.Context, *struct{}) (*scrubAnswer, error) {
	if a.scrub == nil {
		return nil, absent("this server does not scrub its ledger")
	}
	p := a.scrub()
	report := ScrubReport{
		Position: p.Position, End: p.End, Rounds: p.Rounds, Events: p.Events, Bytes: p.Bytes, Blobs: p.Blobs,
		TilesRepaired: p.TilesRepaired, Findings: p.Findings,
	}
	if !p.RoundEnded.IsZero() {
		report.RoundEnded = &p.RoundEnded
	}
	return &scrubAnswer{Body: report}, nil
}

// Scrub returns the progress of the scrub.
type Scrub func() ScrubProgress

// ScrubProgress is the progress of the scrub. All members except Position, End and
// RoundEnded count from the start of the scrub in this process.
type ScrubProgress struct {
	Position, End                                         uint64
	Rounds, Events, Bytes, Blobs, TilesRepaired, Findings uint64
	RoundEnded                                            time.Time
}
