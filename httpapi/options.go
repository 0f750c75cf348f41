package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/projections"
	"daybook/proof"
)

// Commands is the write side, as *ledger.Ledger offers it.
type Commands interface {
	LogicalCommands
	ResetSession(ctx context.Context, r ledger.Reset) (ledger.ResetResult, error)
	Submit(ctx context.Context, s ledger.Submission) (ledger.Receipt, error)
	Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (uint64, error)
	SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (uint64, error)
	DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (uint64, error)
	EachEvent(ctx context.Context, tenant, execution string, fn func(events.Event) error) error
	Requested(ctx context.Context, tenant, execution string) (position uint64, err error)
	// ExplainRemoval explains why a recorded heap is no longer in the blob store.
	ExplainRemoval(ctx context.Context, tenant, heap string) error
}

// Executions answers questions about runs and their output.
type Executions interface {
	Execution(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	// ExecutionPreview is Execution with the beginning of large texts only, and
	// ExecutionText returns one of them whole.
	ExecutionPreview(ctx context.Context, tenant, id string) (projections.ExecutionDetail, error)
	ExecutionText(ctx context.Context, tenant, id, name string) (string, error)
	Executions(ctx context.Context, tenant string, f projections.ExecutionFilter) (projections.ExecutionPage, error)
	Output(ctx context.Context, tenant, id string, q projections.OutputQuery) (projections.OutputPage, error)
	Calls(ctx context.Context, tenant, id string) ([]projections.Call, error)
	// Lines returns whole lines from number from on, maybe fewer than there are,
	// and the status that was true when they were read: with a terminal one, no
	// lines means that there are none to come.
	Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
}

// Heaps answers questions about heaps and their tags.
type Heaps interface {
	Heap(ctx context.Context, tenant, hash string) (projections.Heap, error)
	Heaps(ctx context.Context, tenant string, limit int, cursor string) (projections.HeapPage, error)
	HeapTags(ctx context.Context, tenant, hash string) (map[string]string, error)
	HeapsByTags(ctx context.Context, tenant string, q projections.TagQuery) (projections.HeapPage, error)
	TagHistory(ctx context.Context, tenant, hash string, limit int, cursor string) (projections.TagEditPage, error)
	Lineage(ctx context.Context, tenant, hash string) ([]projections.HeapOrigin, error)
}

// Sessions answers questions about sessions of every kind.
type Sessions interface {
	Sessions(ctx context.Context, tenant string) ([]string, error)
	SessionList(ctx context.Context, tenant string, f projections.SessionFilter) (projections.SessionPage, error)
	ResolveSession(ctx context.Context, tenant, text string) (projections.Session, error)
	ForEachEntry(ctx context.Context, tenant string, of projections.Session, fn func(projections.Entry) error) error
	SessionMoments(ctx context.Context, tenant string, of projections.Session, limit int) ([]projections.SessionMoment, error)
	SessionsOfExecution(ctx context.Context, tenant, execution string) ([]string, error)
}

// Progress tells how far the read side has come.
type Progress interface {
	// Wait returns once the event at seq is applied.
	Wait(ctx context.Context, seq uint64) error
	// Applied is the position of the last event applied.
	Applied() uint64
	// Watch signals after each commit about an execution until stop is called.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	// WatchEnd signals once the end of an execution can be read, until stop is
	// called.
	WatchEnd(tenant, execution string) (ended <-chan struct{}, stop func())
	// Damage is what stopped the read side for good, or nil.
	Damage() error
}

// Anomalies lists events whose effect the read side left out.
type Anomalies interface {
	// Anomalies counts those of a tenant, or of all tenants if tenant is empty, and
	// returns up to limit of the newest.
	Anomalies(ctx context.Context, tenant string, limit int) (projections.Anomalies, error)
}

// Queries is the read side, as *projections.Store offers it.
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
	// OpenBlob returns a reader of a heap, or of a text as it is stored, and its size
	// in bytes. Reading ends with events.ErrDamaged in place of io.EOF when the content
	// is not what the hash says. The caller closes it.
	OpenBlob(ctx context.Context, tenant string, heap bool, hash string) (content io.ReadCloser, size int64, err error)
}

// Proofs are the tree of the running ledger and its checkpoints.
type Proofs interface {
	// Damage is why nothing is signed any more, or nil.
	Damage() error
	// Size is how many events the tree has.
	Size() uint64
	// VKeys are the verification keys of the ledger, the newest last.
	VKeys() []string
	// Lost are the positions that are on record as lost.
	Lost() events.Lost
	// Latest is the newest checkpoint, or false when there is none yet.
	Latest() (proof.Checkpoint, bool)
	// Newest returns the newest checkpoint, after a wait for one that covers a position
	// and is due. It causes no signature.
	Newest(ctx context.Context, covers uint64) (proof.Checkpoint, error)
	// Fresh returns a checkpoint of every event up to last but checkpoints at the end,
	// and of the position covers, made for the purpose if need be.
	Fresh(ctx context.Context, last, covers uint64) (proof.Checkpoint, error)
	// Covers reports whether a checkpoint covers every event up to a position but
	// checkpoints at the end. It waits for the position to be hashed.
	Covers(ctx context.Context, c proof.Checkpoint, last uint64) bool
	// Leaves returns the hashes of the events from one position to another, of those
	// that are hashed so far.
	Leaves(from, to uint64) ([]proof.Hash, error)
	// Tile returns the hashes of a tile, 32 bytes each, or fs.ErrNotExist.
	Tile(t proof.Tile) ([]byte, error)
	// Prover makes proofs under a checkpoint.
	Prover(c proof.Checkpoint) proof.Prover
}

// EventLog is the ledger as a sequence.
type EventLog interface {
	// Read returns up to limit events stored after a position, fewer if they are
	// large, and none only at the end.
	Read(ctx context.Context, after uint64, limit int) ([]events.Event, error)
	// LastSeq is the position of the newest event.
	LastSeq(ctx context.Context) (uint64, error)
	// Follow calls fn with each batch of events after a position until ctx ends
	// or fn fails. A batch is valid until fn returns.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Version is what GET /api/version answers.
type Version struct {
	Version   string `json:"version" doc:"Version of Daybook."`
	V8Version string `json:"v8_version,omitempty" doc:"Version of the JavaScript engine."`
	GoVersion string `json:"go_version,omitempty" doc:"Version of the Go toolchain it was built with."`
	EngineID  string `json:"engine_id,omitempty" doc:"Identity of the engine that heaps are bound to."`
}

// Options set up the handler. Commands, Queries and Events are required.
type Options struct {
	Commands Commands
	Queries  Queries
	Events   EventLog
	// Catalog tells what code may use; default what every isolate has built in.
	Catalog Catalog
	// Contexts answers /api/context; without it that is 503.
	Contexts Contexts
	// Webhooks answers /api/webhooks; without it that is 503.
	Webhooks Webhooks
	// Collector answers /api/heaps/collect; without it that is 503.
	Collector Collector
	// Volumes answers /api/ledger/volumes; without it that is 503.
	Volumes Volumes
	// Shredder answers DELETE /api/sessions/{name}/content; without it that is 503.
	Shredder Shredder
	// Replay publishes history under subjects; without it asking for that is 503.
	Replay Publisher
	// Audit and Proofs answer /api/ledger; without both that is 503. SessionOf of Audit
	// is not used.
	Audit  *audit.Local
	Proofs Proofs
	// Blobs answers /api/ledger/blobs; without it that is 503.
	Blobs Blobs
	// Damage answers /api/ledger/damage; without it nothing is wrong. Scrub answers
	// /api/ledger/scrub; without it that is 503.
	Damage Damage
	Scrub  Scrub
	// Ready reports why the service cannot serve yet, or nil; default: ready.
	Ready func(ctx context.Context) error
	// Metrics answers /metrics; default 404.
	Metrics http.Handler
	// Mounts are further handlers by http.ServeMux pattern, for example "/mcp".
	// They come behind the same checks. A mount on "/" replaces the landing page.
	Mounts map[string]http.Handler
	// Hosts are accepted values of the Host header besides loopback names and
	// addresses, each with or without a port.
	Hosts []string
	// Auth tells whose a bearer token is; nil lets everybody in. Issuers are where
	// clients get tokens, for those that can ask.
	Auth    access.Authenticator
	Issuers []string
	// Quotas limit requests and streams; nil for no limits.
	Quotas *access.Quotas
	// Budget bounds the memory that bodies and answers hold; nil for no limits.
	Budget *budget.Budget
	// Reads shares the processor time for heavy reads. Default: one of its own.
	Reads *reads.Gate
	// Pace is the least speed of clients.
	Pace Pace
	// PublicURL is the address clients know the service by, where a proxy changes
	// it; empty for the one they use.
	PublicURL string
	// Version is reported by /api/version.
	Version Version
	// CountLate, if set, is called for each read that did not get the position it needs
	// in time.
	CountLate func()
	// Logger receives what the client is not told; default discards.
	Logger *slog.Logger
}
