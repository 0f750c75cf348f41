package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/internal/web/pages"
)

func (a *api) serviceRoutes(r *router) {
	op := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tagService}, Summary: summary, Description: description}
	}
	version := op("get-version", "/api/version", "Get versions", "")
	version.Metadata = map[string]any{scopeKey: access.Scope("")}
	register(r, version, nil,
		func(context.Context, *struct{}) (*versionAnswer, error) { return &versionAnswer{Body: a.info}, nil })
	register(r, op("get-health", "/healthz", "Check that the process is alive", "For liveness checks. Does not report whether the service is ready."), nil,
		func(context.Context, *struct{}) (*healthAnswer, error) {
			return &healthAnswer{Body: health{Status: "ok"}}, nil
		})
	register(r, op("get-readiness", "/readyz", "Check that the service is ready", "Answers 503 until it is. With --auth, only callers with a token get the reason."), nil, a.readiness)
}

type versionAnswer struct{ Body Version }

type health struct {
	Status string `json:"status" doc:"ok or ready."`
	// Unsigned is of readiness only. It does not decide whether the service is ready.
	Unsigned string `json:"unsigned,omitempty" doc:"Why this server signs no checkpoints, for callers that may see why the service is not ready; absent if it signs."`
	// Cosigned is of readiness only. It does not decide whether the service is ready.
	Cosigned *cosignedHealth `json:"cosigned,omitempty" doc:"The newest checkpoint that enough witnesses cosigned, for callers that may see why the service is not ready; absent without witnesses."`
}

type cosignedHealth struct {
	Size uint64     `json:"size" doc:"Number of events that it covers; 0 if there is none yet."`
	Time *time.Time `json:"time,omitempty" doc:"Time at which the witnesses knew no larger checkpoint; absent if there is none yet."`
	Age  float64    `json:"age_seconds,omitempty" doc:"Seconds since then."`
	// Claims are no damage: a witness may be wrong.
	Claims map[string]uint64 `json:"claims,omitempty" doc:"Witnesses that claim, without showing it, to have cosigned a checkpoint that the ledger does not continue, each with the number of events; absent if there are none."`
	// Refusals are no damage: the witness needs another key.
	Refusals map[string]string `json:"refusals,omitempty" doc:"Witnesses that do not know the key or the origin of this server and refuse its checkpoints, each with the reason; absent if there are none."`
	// Failures are no damage: the witness or the network is at fault.
	Failures map[string]string `json:"failures,omitempty" doc:"Witnesses that do not cosign for another reason several times in a row, such as no answer or a wrong clock, each with the reason; absent if there are none."`
}

type healthAnswer struct{ Body health }

func (a *api) readiness(ctx context.Context, _ *struct{}) (*healthAnswer, error) {
	if err := a.ready(ctx); err != nil {
		if _, known := access.From(ctx); !known { // only clients with a token see the reason
			return nil, unavailable("not ready; send a token to see the reason")
		}
		return nil, unavailable("not ready: %v", err)
	}
	answer := &healthAnswer{Body: health{Status: "ready"}}
	_, known := access.From(ctx)
	if !known || a.proofs == nil {
		return answer, nil
	}
	answer.Body.Unsigned = a.proofs.SigningProblem()
	if a.proofs.HasWitnesses() {
		answer.Body.Cosigned = &cosignedHealth{}
		if c, at, ok := a.proofs.Cosigned(); ok {
			*answer.Body.Cosigned = cosignedHealth{Size: c.Size, Time: &at, Age: time.Since(at).Seconds()}
		}
		answer.Body.Cosigned.Claims = a.proofs.WitnessClaims()
		answer.Body.Cosigned.Refusals = a.proofs.WitnessRefusals()
		answer.Body.Cosigned.Failures = a.proofs.WitnessFailures()
	}
	return answer, nil
}

// metricsOfAll says why only the operator may read the metrics: their labels name tenants.
const metricsOfAll = "the metrics name all tenants and count over them"

// plainRoutes adds the routes that are not in the document.
func (a *api) plainRoutes(mux *http.ServeMux, doc *document, o Options) {
	mux.HandleFunc("GET /openapi.json", a.heavyHandler(func(w http.ResponseWriter, r *http.Request) {
		raw, err := doc.json()
		if err != nil {
			writeFailure(w, a.internalFailure(r.Context(), err))
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json;version=3.1")
		_, _ = w.Write(raw)
	}))
	if o.Auth != nil {
		mux.Handle("GET "+web.MetadataPath, a.gate.metadata(o.Issuers))
		mux.Handle("GET "+web.MetadataPath+"/", a.gate.metadata(o.Issuers))
	}
	if o.Metrics != nil {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if id, ok := access.From(r.Context()); ok && id.Tenant != events.DefaultTenant {
				writeFailure(w, fail(http.StatusForbidden, codeForbidden, "Authorization", notOperator, metricsOfAll, events.DefaultTenant))
				return
			}
			o.Metrics.ServeHTTP(w, r)
		})
	}
	a.tileRoutes(mux)
	mux.HandleFunc("GET /docs", a.heavyHandler(func(w http.ResponseWriter, r *http.Request) {
		reference, err := doc.page()
		if err != nil {
			writeFailure(w, a.internalFailure(r.Context(), fmt.Errorf("render the reference page: %w", err)))
			return
		}
		pages.Write(w, reference)
	}))
	if !claimsRoot(o.Mounts) {
		mux.HandleFunc("GET /{$}", a.serveLanding)
	}
}
