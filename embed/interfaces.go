package embed

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/worker"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/mcp"
)

// startInterfaces opens HTTP, MCP and the socket for processes of the same user.
func (d *Daybook) startInterfaces(ctx context.Context) error {
	commands := d.commands()
	d.mcp = mcp.New(mcp.Options{
		Commands:         commands,
		Queries:          d.projections,
		Catalog:          d.catalog(),
		Contexts:         onlyIf[mcp.Contexts](d.contexts != nil, d.contexts),
		Stateless:        d.opts.Runs.Stateless,
		Instructions:     d.opts.MCP.Instructions,
		RunJSDescription: d.opts.MCP.RunJSDescription,
		WASMModules:      d.wasmNames(),
		CallsServers:     d.callsServers,
		SessionID:        d.opts.MCP.SessionID,
		Version:          d.opts.Version,
		Hosts:            d.opts.HTTP.Hosts,
		Auth:             d.auth,
		Quotas:           d.quotas,
		PublicURL:        d.opts.HTTP.PublicURL,
		Budget:           d.budget,
		Reads:            d.reads,
		Fixtures:         d.opts.MCP.Fixtures,
		Unanswerable:     d.checkReadsComplete,
		Logger:           d.opts.Logger,
	})
	info := httpapi.Version{Version: d.opts.Version, GoVersion: runtime.Version()}
	if d.pool != nil {
		engine, err := d.pool.Engine(ctx, true)
		if err != nil {
			return err
		}
		info.V8Version, info.EngineID = engine.V8Version, engine.ID
	}
	admitted, err := d.newPackages()
	if err != nil {
		return err
	}
	d.handler, err = httpapi.New(httpapi.Options{
		Commands:   commands,
		Queries:    d.projections,
		Catalog:    d.catalog(),
		Contexts:   onlyIf[httpapi.Contexts](d.contexts != nil, d.contexts),
		Events:     eventLog{d.store, d.tail},
		Collector:  d.retention,
		Modules:    onlyIf[httpapi.Modules](d.runsScripts(), admitted),
		Shredder:   d,
		OnForget:   func(forget func(tenant string)) { d.forget = forget },
		Volumes:    ledgerVolumes{d},
		Webhooks:   onlyIf[httpapi.Webhooks](d.webhooks != nil, webhookGate{d.webhooks, d}),
		Replay:     d.store,
		Replays:    onlyIf[httpapi.Replays](d.replays != nil, d.replays),
		Globals:    onlyIf[httpapi.HeapGlobals](d.replays != nil, d.replays),
		Migrations: onlyIf[httpapi.HeapMigrations](d.replays != nil && d.replays.migrator != nil, d.replays),
		Audit:      d.localProofs(),
		Proofs:     d.audit,
		Signers:    onlyIf[httpapi.Signers](d.audit != nil, ledgerSigners{d}),
		Blobs:      onlyIf[httpapi.Blobs](d.audit != nil, d.store),
		Damage:     d.damage,
		Scrub:      d.scrubProgress(),
		Ready:      d.Ready,
		Metrics:    d.metrics(),
		Mounts:     map[string]http.Handler{"/mcp": d.mcp.Handler(), "/sse": d.mcp.SSEHandler()},
		Hosts:      d.opts.HTTP.Hosts,
		Auth:       d.auth,
		Issuers:    d.issuers(),
		Quotas:     d.quotas,
		Budget:     d.budget,
		Reads:      d.reads,
		Pace:       d.opts.clientPace(),
		PublicURL:  d.opts.HTTP.PublicURL,
		Version:    info,
		CountLate:  func() { d.lateReads.Add(1) },
		Logger:     d.opts.Logger,
	})
	if err != nil {
		return err
	}
	if d.acp == nil { // no runner runs here
		d.acp = d.newAgent()
	}
	if err := d.listenSocket(); err != nil {
		return err
	}
	return d.listenHTTP()
}

// Ready returns the reason why the Daybook cannot serve now, or nil.
func (d *Daybook) Ready(ctx context.Context) error {
	if d.draining.Load() {
		return errors.New("shutting down")
	}
	if err := d.damage.Err(); err != nil {
		return err
	}
	if err := d.projections.Damage(); err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return err
	}
	if err := d.auditDamage(); err != nil {
		return err
	}
	if d.auth != nil {
		if err := d.auth.Check(ctx); err != nil {
			return err
		}
	}
	return cmp.Or(d.store.Health(ctx), d.disk.Low(), d.projections.StallError())
}

// APIHeader is a header of every answer of Handler. An answer without it is from
// another program.
const APIHeader = httpapi.APIHeader

// Handler returns the complete HTTP interface, with MCP, for a server of the caller.
func (d *Daybook) Handler() http.Handler { return d.handler }

// ServeMCP serves one MCP client over a pair of streams. It writes only JSON-RPC
// messages to out. It blocks until in ends, ctx is done or the Daybook is closed.
func (d *Daybook) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.mcp.ServeStdio(ctx, in, out, "")
}

// URL returns the address of the HTTP interface, or an empty string without a listener.
func (d *Daybook) URL() string {
	if d.listener == nil {
		return ""
	}
	if d.certificate != nil {
		return "https://" + d.listener.Addr().String()
	}
	return "http://" + d.listener.Addr().String()
}

// DataDir returns the absolute path of the data directory.
func (d *Daybook) DataDir() string { return d.opts.DataDir }

// VersionInfo holds the versions of the engine and of the stored formats.
type VersionInfo struct {
	Daybook          string `json:"daybook"`
	V8               string `json:"v8"`
	EngineID         string `json:"engine_id"`
	SnapshotFormat   int    `json:"snapshot_format"`
	ProjectionSchema int    `json:"projection_schema"`
	Go               string `json:"go"`
}

// Versions starts a worker, asks for its engine, and stops the worker.
func Versions(ctx context.Context) (_ VersionInfo, err error) {
	pool := worker.New(worker.Options{Idle: -1, BestEffort: true}) // no script runs
	defer func() { err = errors.Join(err, pool.Close()) }()
	engine, err := pool.Engine(ctx, true)
	if err != nil {
		return VersionInfo{}, err
	}
	return VersionInfo{V8: engine.V8Version, EngineID: engine.ID, SnapshotFormat: engine.SnapshotFormat, ProjectionSchema: projectionSchema, Go: runtime.Version()}, nil
}

// onlyIf returns v, or a nil I if v is absent: a nil pointer in an interface is not a nil
// interface.
func onlyIf[I any](present bool, v I) I {
	if !present {
		var none I
		return none
	}
	return v
}

// pageBytes is the approximate size of the part of the ledger that an answer holds in
// memory at a time, in bytes of event bodies.
const pageBytes = 256 << 10

// eventLog is the ledger for clients that read events. Their reads are bounded, and
// followers share the reading of the server.
type eventLog struct {
	*jetstream.Store
	tail *stream.SharedTail
}

func (l eventLog) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	return l.ReadPage(ctx, after, limit, pageBytes)
}

func (l eventLog) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return l.tail.Follow(ctx, after, fn)
}
