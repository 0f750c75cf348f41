package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/internal/lifecycle/retention"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// Collector deletes unused heaps. *retention.Service implements it.
type Collector interface {
	Collect(ctx context.Context, p retention.Pass) (retention.Report, error)
}

// defaultOlderThan is the minimum time since the last use of a collected heap.
const defaultOlderThan = 30 * 24 * time.Hour

func (a *api) collectRoutes(r *router) {
	const path = "/api/heaps/collect"
	o := huma.Operation{
		OperationID: "collect-heaps", Method: http.MethodPost, Path: path, Tags: []string{tagHeaps},
		Summary: "Delete unused heaps",
		Description: "Deletes a heap if it has no tags, was last saved, restored or tagged before the given time, no waiting or running execution starts from it, none of the newest entries of a session names it, " +
			"and no logical session continues from it. Also deletes blobs that no event names. Each deletion of a heap is an event. Later requests for the heap are answered 410 and name that event.",
		Metadata:    map[string]any{scopeKey: access.Admin},
		RequestBody: &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": mediaOf[collectBody](r)}},
	}
	register(r, o, []int{http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.collectHeaps)
	delete(o.RequestBody.Content, "application/octet-stream")
	o.RequestBody.Required = false // huma treats every RawBody as required
}

// collectBody documents the request body; collectHeaps decodes it.
type collectBody struct {
	OlderThanSecs *int  `json:"older_than_secs,omitempty" nullable:"true" minimum:"3600" doc:"Minimum time since the last use in seconds; default 2592000 (30 days)."`
	KeepEntries   *int  `json:"keep_entries,omitempty" nullable:"true" minimum:"0" doc:"Number of newest entries of each session whose heaps are kept; default 100."`
	DryRun        *bool `json:"dry_run,omitempty" nullable:"true" doc:"True reports the heaps without deleting them."`
}

type collectInput struct{ RawBody []byte }

type collectAnswer struct {
	Written
	Body retention.Report
}

func (a *api) collectHeaps(ctx context.Context, in *collectInput) (*collectAnswer, error) {
	r := requestOf(ctx)
	if a.collector == nil {
		return nil, absent("this server does not delete heaps")
	}
	var older, keep *int
	var dry bool
	if len(in.RawBody) > 0 {
		if f := requireJSON(r, in.RawBody, `curl -X POST -H 'Content-Type: application/json' --data '{"dry_run":true}' ...`); f != nil {
			return nil, f
		}
		if f := decodeObject(in.RawBody, map[string]member{"older_than_secs": integer(&older), "keep_entries": integer(&keep), "dry_run": boolean(&dry)}); f != nil {
			return nil, f
		}
	}
	rule := retention.Rule{OlderThan: defaultOlderThan, KeepEntries: retention.DefaultKeepEntries}
	if older != nil {
		rule.OlderThan = time.Duration(*older) * time.Second
	}
	if keep != nil {
		rule.KeepEntries = *keep
	}
	report, err := a.collector.Collect(ctx, retention.Pass{Rule: rule, Tenant: r.tenant, DryRun: dry, Actor: r.actor})
	var bad *retention.RuleError
	switch {
	case errors.As(err, &bad):
		field := bad.Field
		if field == "older_than" {
			field = "older_than_secs"
		}
		return nil, invalid(field, "%s", bad.Message)
	case errors.Is(err, retention.ErrBusy):
		return nil, fail(http.StatusConflict, string(ledger.CodeConflict), "", "%s", err)
	case err != nil:
		return nil, err
	}
	out := &collectAnswer{Body: report}
	var last uint64
	for _, c := range report.List {
		last = max(last, c.Seq)
	}
	out.Written = a.noteWrite(last)
	return out, nil
}
