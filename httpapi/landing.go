package httpapi

import (
	"context"
	"net/http"
	"time"

	"daybook/events"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/internal/web/pages"
	"daybook/projections"
)

func (a *api) serveLanding(w http.ResponseWriter, r *http.Request) {
	id, known := access.From(r.Context())
	ctx, stop := context.WithTimeout(r.Context(), 2*time.Second)
	defer stop()
	data := pages.LandingData{Base: web.BaseURL(r, a.gate.public), Auth: a.gate.auth != nil, Closed: !known || !id.Scopes.Has(access.Read)}
	if known && id.Scopes.Has(access.Read) {
		data.Version, data.Position = a.info.Version, a.q.Applied()
		if takePermit(ctx) == nil {
			a.setCounts(ctx, id.Tenant, &data)
		}
	}
	page, err := pages.RenderLanding(data)
	if err != nil {
		writeFailure(w, a.internalFailure(r.Context(), err))
		return
	}
	pages.Write(w, page)
}

// setCounts sets the counts of a tenant, if they can be read.
func (a *api) setCounts(ctx context.Context, tenant string, data *pages.LandingData) {
	running, err := a.q.Executions(ctx, tenant, projections.ExecutionFilter{Status: events.StatusRunning, Limit: maxListLimit})
	if err != nil {
		return
	}
	sessions, _, err := a.q.SessionNames(ctx, tenant, maxListLimit, "")
	if err != nil {
		return
	}
	data.Known, data.Running, data.Sessions = true, len(running.Executions), len(sessions)
}
