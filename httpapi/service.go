package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

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
		func(context.Context, *struct{}) (*healthAnswer, error) { return &healthAnswer{Body: health{"ok"}}, nil })
	register(r, op("get-readiness", "/readyz", "Check that the service is ready", "Answers 503 until it is. With --auth, only callers with a token get the reason."), nil, a.readiness)
}

type versionAnswer struct{ Body Version }

type health struct {
	Status string `json:"status" doc:"ok or ready."`
}

type healthAnswer struct{ Body health }

func (a *api) readiness(ctx context.Context, _ *struct{}) (*healthAnswer, error) {
	if err := a.ready(ctx); err != nil {
		if _, known := access.From(ctx); !known { // only clients with a token see the reason
			return nil, unavailable("not ready; send a token to see the reason")
		}
		return nil, unavailable("not ready: %v", err)
	}
	return &healthAnswer{Body: health{"ready"}}, nil
}

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
		mux.Handle("GET /metrics", o.Metrics)
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
