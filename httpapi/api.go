package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"daybook/audit"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/tools/catalog"
	"daybook/internal/web"
	"daybook/internal/web/access"
	"daybook/internal/web/feed"
)

// api is the state that the handlers share. It is immutable except for wrote, late and
// what the feeds keep. The field of an optional part is nil if the option is not set and
// has no default.
type api struct {
	cmd    Commands
	q      Queries
	events EventLog
	// live serves clients that read or follow the ledger, and outputs serves clients that
	// follow the output of a run.
	live       *feed.Events
	outputs    *feed.Output
	reads      *reads.Gate
	ready      func(ctx context.Context) error
	log        *slog.Logger
	guard      *web.Guard
	gate       *gatekeeper
	contexts   Contexts
	hooks      Webhooks
	volumes    Volumes
	collector  Collector
	modules    Modules
	catalog    Catalog
	shredder   Shredder
	replay     Publisher
	replays    Replays
	migrations HeapMigrations
	globals    HeapGlobals
	audit      *audit.Local // like proofs, nil unless Audit and Proofs are both set
	proofs     Proofs
	signers    Signers
	blobs      Blobs
	info       Version
	wrote      highWater
	late       lateReads
	countLate  func()
	damage     Damage
	scrub      Scrub
	budget     *budget.Budget
	pace       Pace
}

// New returns the handler of all routes of one address. It starts no goroutine. It
// returns an error if a required option is missing or a value of Hosts is malformed.
func New(o Options) (http.Handler, error) {
	if o.Commands == nil || o.Queries == nil || o.Events == nil {
		return nil, errors.New("httpapi: Commands, Queries and Events must all be set")
	}
	for _, host := range o.Hosts {
		if err := web.CheckHost(host); err != nil {
			return nil, fmt.Errorf("httpapi: %w", err)
		}
	}
	a := &api{cmd: o.Commands, q: o.Queries, events: o.Events, log: o.Logger, guard: web.NewGuard(o.Hosts), info: o.Version, contexts: o.Contexts, hooks: o.Webhooks, replay: o.Replay, replays: o.Replays, migrations: o.Migrations, globals: o.Globals, collector: o.Collector, modules: o.Modules, catalog: o.Catalog, shredder: o.Shredder, volumes: o.Volumes}
	a.signers = o.Signers
	a.damage, a.scrub, a.blobs, a.budget, a.pace = o.Damage, o.Scrub, o.Blobs, o.Budget, o.Pace.withDefaults()
	a.countLate, a.late.warned.Interval = o.CountLate, lateLogInterval
	if a.reads = o.Reads; a.reads == nil {
		a.reads = reads.New(reads.Options{})
	}
	a.live, a.outputs = feed.NewEvents(o.Events, a.reads), feed.NewOutput(o.Queries, a.reads)
	if o.OnForget != nil {
		o.OnForget(func(tenant string) {
			a.live.Forget(tenant)
			a.outputs.Forget()
		})
	}
	if a.catalog == nil {
		a.catalog = catalog.New(nil, catalog.Builtin{})
	}
	if o.Audit != nil && o.Proofs != nil {
		a.proofs = o.Proofs
		local := *o.Audit
		local.SessionOf = a.sessionOf
		a.audit = &local
	}
	a.gate = &gatekeeper{auth: o.Auth, quotas: o.Quotas, public: o.PublicURL, scopes: map[string]access.Scope{"GET /metrics": access.Admin}}
	if a.log == nil {
		a.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	check := &sharedCheck{check: o.Ready}
	a.ready = func(ctx context.Context) error {
		if err := a.q.Damage(); err != nil {
			return fmt.Errorf("the projections have stopped: %w", err)
		}
		if o.Ready != nil {
			return check.do(ctx)
		}
		return nil
	}
	mux := http.NewServeMux()
	a.plainRoutes(mux, a.routes(mux), o)
	for pattern, h := range o.Mounts {
		mux.Handle(pattern, cancelOnDrain(h))
	}
	return a.withChecks(a.withRouting(mux)), nil
}

// OpenAPI returns the OpenAPI 3.1 document of the REST interface as indented JSON,
// equal to the response of GET /openapi.json. The bytes are the same each time.
func OpenAPI() ([]byte, error) {
	return (&api{gate: &gatekeeper{scopes: map[string]access.Scope{}}}).routes(http.NewServeMux()).json()
}

// routes registers the documented operations and returns their document.
func (a *api) routes(mux *http.ServeMux) *document {
	format := huma.Format{Marshal: encodeAnswer, Unmarshal: huma.DefaultJSONFormat.Unmarshal}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Daybook",
				// The version of the interface: it changes when a client could notice.
				Version: "1.0.0",
				Description: "Runs JavaScript and TypeScript, and records every run, output line, status change and tag edit as an event. " +
					"Errors are problem documents (RFC 9457) that repeat their message as `error`. A failing script is a result, not an error.",
				License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{bearerScheme: {
					Type: "http", Scheme: "bearer",
					Description: "Required if the server was started with --auth: a token from its token file or from a trusted issuer.",
				}},
			},
			Tags: []*huma.Tag{
				{Name: tagExecutions, Description: "Submit, follow and cancel runs."},
				{Name: tagHeaps, Description: "Saved heaps, their tags and lineage."},
				{Name: tagSessions, Description: "Named, logical and ACP sessions, and conversation contexts."},
				{Name: tagLedger, Description: "Events, proofs, volumes, damage and webhooks."},
				{Name: tagService, Description: "Version, health and id lookup."},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers: []huma.Transformer{func(hc huma.Context, _ string, v any) (any, error) {
			if _, ours := v.(*failure); ours {
				return v, nil
			}
			if err, ok := v.(huma.StatusError); ok {
				return fromHuma(hc.Operation(), err), nil
			}
			return v, nil
		}},
	}
	r := &router{api: humago.New(mux, config), a: a}
	a.executionRoutes(r)
	a.callRoutes(r)
	a.replayExecutionRoutes(r)
	a.migrateHeapRoutes(r)
	a.whatIfRoutes(r)
	a.executionTextRoutes(r)
	a.artifactRoutes(r)
	a.outputRoutes(r)
	a.damageRoutes(r)
	a.anomalyRoutes(r)
	a.heapRoutes(r)
	a.resolveRoutes(r)
	a.collectRoutes(r)
	a.shredRoutes(r)
	a.sessionRoutes(r)
	a.contextRoutes(r)
	a.logicalRoutes(r)
	a.replayRoutes(r)
	a.ledgerRoutes(r)
	a.proofRoutes(r)
	a.signerRoutes(r)
	a.volumeRoutes(r)
	a.webhookRoutes(r)
	a.moduleRoutes(r)
	a.serviceRoutes(r)
	return r.document()
}

// Groups of operations in the document.
const (
	tagExecutions = "executions"
	tagHeaps      = "heaps"
	tagSessions   = "sessions"
	tagLedger     = "ledger"
	tagService    = "service"
)

// claimsRoot reports whether a mounted handler serves the root path.
func claimsRoot(mounts map[string]http.Handler) bool {
	for pattern := range mounts {
		_, path, ok := strings.Cut(pattern, " ")
		if !ok {
			path = pattern
		}
		if path == "/" || path == "/{$}" {
			return true
		}
	}
	return false
}
