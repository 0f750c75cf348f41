package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
	"daybook/proof"
)

// Commands is the write side. *ledger.Ledger implements it.
type Commands interface {
	LogicalCommands
	ResetSession(ctx context.Context, r ledger.Reset) (ledger.ResetResult, error)
	Submit(ctx context.Context, s ledger.Submission) (ledger.Receipt, error)
	Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (uint64, error)
	SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (uint64, error)
	DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (uint64, error)
	MoveTags(ctx context.Context, tenant, from, to string, actor events.Actor) (ledger.MovedTags, error)
	EachEvent(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error
	Requested(ctx context.Context, tenant, execution string) (position uint64, err error)
	// Files returns the files of an execution as JSON.
	Files(ctx context.Context, tenant, execution string, fits func(size int64) error) ([]byte, error)
	// ExplainRemoval explains why a recorded heap is no longer in the blob store.
	ExplainRemoval(ctx context.Context, tenant, heap string) error
}

// Executions is the read side of executions and their output.
type Executions interface {
	Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	// ExecutionPreview returns an execution with only the beginning of large texts.
	// ExecutionText returns a complete text.
	ExecutionPreview(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	ExecutionText(ctx context.Context, tenant, id, name string) (string, error)
	Executions(ctx context.Context, tenant string, f projections.ExecutionFilter) (projections.ExecutionPage, error)
	Output(ctx context.Context, tenant, id string, q projections.OutputQuery) (projections.OutputPage, error)
	Calls(ctx context.Context, tenant, id string) ([]projections.Call, error)
	Artifacts(ctx context.Context, tenant, id string) ([]projections.Artifact, error)
	// CurrentArtifacts returns the first artifacts, at most limit, that no later one of the
	// same name replaced.
	CurrentArtifacts(ctx context.Context, tenant, id string, limit int) ([]projections.Artifact, error)
	Artifact(ctx context.Context, tenant, id, name string, number int) (projections.Artifact, error)
	ArtifactBytes(ctx context.Context, tenant string, f projections.Artifact) ([]byte, error)
	// Lines returns at most limit complete lines, starting at the line number from, and the
	// status at the time of the read. If the status is terminal and there are no lines, no
	// more lines follow.
	Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
}

// Heaps is the read side of heaps and their tags.
type Heaps interface {
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
	Heaps(ctx context.Context, tenant string, limit int, cursor string) (projections.HeapPage, error)
	HeapTags(ctx context.Context, tenant, hash string) (map[string]string, error)
	HeapsByTags(ctx context.Context, tenant string, q projections.TagQuery) (projections.HeapPage, error)
	TagHistory(ctx context.Context, tenant, hash string, limit int, cursor string) (projections.TagEditPage, error)
	Lineage(ctx context.Context, tenant, hash string) ([]projections.HeapOrigin, error)
}

// Sessions is the read side of sessions of every kind.
type Sessions interface {
	// SessionNames returns the sorted names of named sessions with entries. limit is 0 for all;
	// after is the next of the previous page.
	SessionNames(ctx context.Context, tenant string, limit int, after string) (names []string, next string, err error)
	SessionList(ctx context.Context, tenant string, f projections.SessionFilter) (projections.SessionPage, error)
	ResolveSession(ctx context.Context, tenant, text string) (projections.Session, error)
	ForEachEntry(ctx context.Context, tenant string, of projections.Session, from int64, fn func(projections.Entry) error) error
	SessionMoments(ctx context.Context, tenant string, of projections.Session, limit int) ([]projections.SessionMoment, error)
	SessionsOfExecution(ctx context.Context, tenant, execution string) ([]string, error)
	// FirstPosition returns the position of the first event about an execution or of a session,
	// whichever is later, or 0 if it is not known.
	FirstPosition(ctx context.Context, tenant, execution, session string) (uint64, error)
	// WasAgentSession reports whether an ACP session exists, or existed until it was deleted.
	WasAgentSession(ctx context.Context, tenant, id string) (bool, error)
}

// Progress reports and awaits the position that the projections have applied.
type Progress interface {
	// Wait blocks until the event at seq is applied.
	Wait(ctx context.Context, seq uint64) error
	// Applied returns the position of the last applied event.
	Applied() uint64
	// Watch signals on changed after each commit that changes an execution. The caller
	// MUST call stop.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	// WatchEnd signals on ended once the end of an execution can be read. The caller MUST
	// call stop.
	WatchEnd(tenant, execution string) (ended <-chan struct{}, stop func())
	// Damage returns the error that stopped the projections permanently, or nil.
	Damage() error
}

// Anomalies lists events whose effect is missing from the projections.
type Anomalies interface {
	// Anomalies counts the anomalies of a tenant, or of all tenants if tenant is empty,
	// and returns the newest ones, at most limit.
	Anomalies(ctx context.Context, tenant string, limit int) (projections.Anomalies, error)
}

// Queries is the read side. *projections.Store implements it.
type Queries interface {
	Executions
	Heaps
	Sessions
	LogicalSessions
	Resolver
	Anomalies
	Progress
}

// Blobs reads heaps and texts.
type Blobs interface {
	// OpenBlob returns a reader of a heap, or of a text as it is stored, and its size in
	// bytes. Reading ends with events.ErrDamaged instead of io.EOF if the content does not
	// match the hash. The caller MUST close content.
	OpenBlob(ctx context.Context, tenant string, heap bool, hash string) (content io.ReadCloser, size int64, err error)
}

// Proofs is the tree of the running ledger and its checkpoints.
type Proofs interface {
	// Damage returns the error that stopped signing permanently, or nil.
	Damage() error
	// Size returns the number of leaves of the tree.
	Size() uint64
	// VKeys returns the verification keys of the ledger, the newest last.
	VKeys() []string
	// Signers returns the statements about the signers.
	Signers() *proof.Signers
	// Lost returns the positions that are recorded as lost.
	Lost() events.Lost
	// Latest returns the newest checkpoint, or false if there is none yet.
	Latest() (proof.Checkpoint, bool)
	// Newest returns the newest checkpoint. It causes no signature. covers is a position:
	// if a checkpoint that includes it is due, Newest waits for that checkpoint.
	Newest(ctx context.Context, covers uint64) (proof.Checkpoint, error)
	// Fresh returns a checkpoint that includes all events up to the position last. It signs a
	// new checkpoint if necessary.
	Fresh(ctx context.Context, last uint64) (proof.Checkpoint, error)
	// Covers reports whether a checkpoint covers all events up to the position last, except
	// checkpoints at the end of this range. It waits until the event at last is hashed.
	Covers(ctx context.Context, c proof.Checkpoint, last uint64) bool
	// HasWitnesses reports whether witnesses are asked to cosign checkpoints.
	HasWitnesses() bool
	// Cosigned returns the newest checkpoint that enough witnesses cosigned, and the time at
	// which they knew no larger one. It reports false if there is none.
	Cosigned() (c proof.Checkpoint, at time.Time, ok bool)
	// WitnessClaims returns the sizes of the checkpoints that witnesses claim to have cosigned
	// and do not show, and that the ledger does not continue, by the name of the witness.
	WitnessClaims() map[string]uint64
	// WitnessRefusals returns why witnesses refuse the checkpoints of this server, by the name of
	// the witness: they do not know its key or its origin.
	WitnessRefusals() map[string]string
	// WitnessFailures returns why other witnesses do not cosign, by the name of the witness.
	WitnessFailures() map[string]string
	// SigningProblem returns why the server signs no checkpoints, or an empty string if it does.
	SigningProblem() string
	// Leaves returns the leaf hashes of a range of positions, both ends included, as far
	// as they are hashed.
	Leaves(from, to uint64) ([]proof.Hash, error)
	// Tile returns the hashes of a tile, 32 bytes each, or fs.ErrNotExist.
	Tile(t proof.Tile) ([]byte, error)
	// Prover returns a prover for the tree of a checkpoint.
	Prover(c proof.Checkpoint) proof.Prover
}

// EventLog is the ledger as a sequence of events.
type EventLog interface {
	// Read returns at most limit events after a position. It returns fewer if they are
	// large, and none only at the end.
	Read(ctx context.Context, after uint64, limit int) ([]events.Event, error)
	// LastSeq returns the position of the newest event.
	LastSeq(ctx context.Context) (uint64, error)
	// EarliestPosition returns a position before which there is no event about the object
	// with an id, by the time in the id; 1 if it contains none.
	EarliestPosition(id string) uint64
	// Follow calls fn with each batch of events after a position until ctx is done or fn
	// returns an error. batch is valid until fn returns.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Version is the response of GET /api/version.
type Version struct {
	Version   string `json:"version" doc:"Version of Daybook."`
	V8Version string `json:"v8_version,omitempty" doc:"Version of the JavaScript engine."`
	GoVersion string `json:"go_version,omitempty" doc:"Version of the Go toolchain it was built with."`
	EngineID  string `json:"engine_id,omitempty" doc:"Identity of the engine that heaps are bound to."`
}

// Options configures the handler. Commands, Queries and Events are required. Without an
// optional part, the server answers requests for it with 503 unless stated otherwise.
type Options struct {
	Commands Commands
	Queries  Queries
	Events   EventLog
	// Catalog is the catalog of logical sessions. Default: the built-in APIs of an isolate.
	Catalog Catalog
	// Contexts serves /api/context.
	Contexts Contexts
	// Webhooks serves /api/webhooks.
	Webhooks Webhooks
	// Modules serves /api/modules.
	Modules Modules
	// Collector serves /api/heaps/collect.
	Collector Collector
	// Volumes serves /api/ledger/volumes.
	Volumes Volumes
	// Shredder serves DELETE /api/sessions/{name}/content and /api/content.
	Shredder Shredder
	// OnForget, if set, gets a function that drops the decrypted content that the handler
	// keeps for a moment. The caller MUST call it after content of a tenant was shredded.
	OnForget func(forget func(tenant string))
	// Replay serves POST /api/sessions/{name}/replay.
	Replay Publisher
	// Replays serves POST /api/executions/{id}/replay and /what-if.
	Replays Replays
	// Migrations serves POST /api/heaps/{heap}/migrate.
	Migrations HeapMigrations
	// Globals serves GET /api/heaps/{heap}/globals.
	Globals HeapGlobals
	// Audit and Proofs serve checkpoints, tiles, proofs and exports. Both are needed.
	// The field SessionOf of Audit is ignored.
	Audit  *audit.Local
	Proofs Proofs
	// Signers serves changes of /api/ledger/signers and /api/ledger/key/rotate, with Proofs.
	Signers Signers
	// Blobs serves /api/ledger/blobs.
	Blobs Blobs
	// Damage serves /api/ledger/damage. Default: no damage. Scrub serves
	// /api/ledger/scrub.
	Damage Damage
	Scrub  Scrub
	// Ready returns the reason why the service is not ready, or nil. Default: always ready.
	Ready func(ctx context.Context) error
	// Metrics serves /metrics. Default: 404.
	Metrics http.Handler
	// Mounts are further handlers by http.ServeMux pattern, for example "/mcp". Their
	// requests pass the same checks. A mount on "/" replaces the landing page.
	Mounts map[string]http.Handler
	// Hosts are accepted values of the Host header besides loopback names and addresses,
	// each with or without a port.
	Hosts []string
	// Auth identifies the callers of requests by their tokens. Default: no token is
	// needed. Issuers are the OpenID Connect issuers that the resource metadata names to
	// clients.
	Auth    access.Authenticator
	Issuers []string
	// Quotas limits requests and streams. Default: no limits.
	Quotas *access.Quotas
	// Budget bounds the memory of request and response bodies. Default: no limits.
	Budget *budget.Budget
	// Reads shares the processor time for heavy reads. Default: a gate for this handler.
	Reads *reads.Gate
	// Pace is the minimum speed of clients.
	Pace Pace
	// PublicURL is the address of the service for clients, if a proxy changes it. Default:
	// the address of each request.
	PublicURL string
	// Version is the response of /api/version.
	Version Version
	// CountLate, if set, is called for each read that fails because its position was not
	// applied within 5 s.
	CountLate func()
	// Logger receives errors that clients do not see. Default: they are discarded.
	Logger *slog.Logger
}
