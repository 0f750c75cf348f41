package embed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"daybook/acp"
	"daybook/internal/admission"
	"daybook/internal/contextstore"
	"daybook/internal/datadir"
	"daybook/internal/durable"
	"daybook/internal/exec/worker"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/owner"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/disk"
	"daybook/internal/resources/reads"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/stream"
	"daybook/internal/tools/fetcher"
	"daybook/internal/tools/toolserver"
	"daybook/internal/translog"
	"daybook/internal/web/access"
	"daybook/internal/web/connections"
	"daybook/internal/webhook"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
	"daybook/runner"
)

// Daybook is a running instance. Close ends it. It is safe for concurrent use.
type Daybook struct {
	opts Options

	lock         *datadir.Lock
	signedLock   *datadir.Lock
	damage       *damage.State
	marks        marks
	describing   sync.Mutex // held while copies of stream configurations or findings are written
	blobsWritten []byte     // guarded by describing; the file of damaged blobs as this process wrote it
	// blobsSuspect reports that the files of the blob store were found damaged.
	blobsSuspect bool
	nats         *natsserver.Server // nil with an outside server
	store        *jetstream.Store
	closeConns   func()
	pool         *worker.Pool // nil without a runner
	wasm         []runner.WASMModule
	ledger       *ledger.Ledger
	tail         *stream.SharedTail
	audit        *translog.Log // nil without proofs
	// proofsMissing is true if the files of the proofs are missing, which is damage. Then emptyProofs is the directory
	// that audit uses until Close or the next start, so that a start changes nothing before the damage is accepted.
	proofsMissing bool
	emptyProofs   string
	statements    atomic.Int32 // calls that record a statement although the key is lost
	projections   *projections.Store
	contexts      *contextstore.Store  // nil in stateless mode
	forget        func(tenant string)  // drops decrypted content that the HTTP interface keeps
	runner        *runner.Runner       // nil without a runner
	toolServers   *toolserver.Set      // nil without tool servers
	fetch         *fetcher.Fetcher     // nil without a policy
	auth          access.Authenticator // nil accepts every client
	quotas        *access.Quotas
	budget        *budget.Budget
	memoryShort   atomic.Bool // as of the last check: too little memory for heaps that are restored ahead
	reads         *reads.Gate
	certificate   *certificate // nil without TLS
	webhooks      *webhook.Service
	retention     *retention.Service
	mcp           *mcp.Server
	acp           *acp.Server
	handler       http.Handler
	http          *http.Server // nil without a listener
	httpRequests  *requests
	listener      net.Listener
	disk          *disk.Space // nil without a reserve
	gate          *admission.Gate
	lateReads     atomic.Uint64 // reads over HTTP that waited too long for the projections
	// baseHeapOf is the engine whose base heap could not be stored at the start, or
	// empty. After the start only watchDisk uses it.
	baseHeapOf     string
	bounds         bounds
	httpConns      *connections.Limiter
	socketConns    *connections.Limiter
	socket         *http.Server // in the data directory, for processes of the same user
	socketRequests *requests
	owner          *owner.Server
	watchingUse    *backgroundTask

	// draining is true from the start of Close on: runs in progress finish, and new ones are
	// refused.
	draining                  atomic.Bool
	stopRunner, stopProjector context.CancelFunc
	runnerDone, projectorDone chan struct{}
	stopWebhooks              func() // nil before they are started
	stopReplays               func() // nil if this process replays no runs
	stopAdmissions            func() // nil if this process has no REST API
	packages                  packages
	replays                   *replays
	tailing, auditing         *backgroundTask
	admitting                 *backgroundTask // follows changes of NATS credentials
	sealing                   *backgroundTask // seals volumes when they are due
	checkingFiles             *backgroundTask // checks completed files of the streams
	checked                   checkedFiles    // used by checkFilesAtStart, then by checkingFiles, then by Close
	archiving                 *backgroundTask // makes archives of sealed volumes
	copying                   *backgroundTask // copies the projections after a volume was sealed
	sealed, sealedToCopy      chan struct{}   // each receives after a volume was sealed
	retaining                 *backgroundTask
	contextsRunning           *backgroundTask
	keys                      *keyring.Ring       // nil without encrypted sessions
	shredder                  *retention.Shredder // nil without encrypted sessions
	watching                  *backgroundTask     // waits for damage
	watchingDisk              *backgroundTask
	scrubbing, sampling       *backgroundTask
	trimming                  *backgroundTask // returns memory to the operating system
	limiting                  *backgroundTask // adjusts the memory limit of the Go runtime
	scrub                     *translog.Scrub // nil without a scrub

	// ledgerChecked reports that the outside server was found to hold the ledger of the
	// directory.
	ledgerChecked bool

	closeOnce sync.Once
	closeErr  error

	mu   sync.Mutex
	err  error         // first failure of a component
	done chan struct{} // closed at that failure, or by Close
}

// ErrLocked is returned by Start if another process owns the data directory.
var ErrLocked = datadir.ErrLocked

// ErrClosed is returned by a call that waits if the Daybook is closed meanwhile.
var ErrClosed = errors.New("the daybook was closed")

// Start starts a Daybook and returns once it serves. ctx bounds only the start; the
// caller MUST call Close to end the Daybook. Start returns ErrLocked if another process
// owns the data directory.
func Start(ctx context.Context, opts Options) (*Daybook, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := newDaybook(opts)
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
	}{
		{"check the data directory", withOptionErrors(d.checkPlace)},
		{"limit the memory", d.limitMemory},
		{"set up the authentication", withOptionErrors(d.openAccess)},
		{"read the policy of fetches", withOptionErrors(d.openFetch)},
		{"bound the connections", d.boundConnections},
		{"open the addresses", withOptionErrors(d.openListeners)},
		{"compare the ledger", d.checkLedger},
		{"take the data directory", withOptionErrors(d.takeDirectory)},
		{"compare the ledger", d.checkLedger},
		{"take the signing key", withOptionErrors(d.refuseSharedKey)},
		{"check the disk", d.openDisk},
		{"look for damage", d.checkFilesAtStart},
		{"open the ledger", d.openLedger},
		{"start the workers", d.startWorkers},
		{"check the WebAssembly modules", withOptionErrors(d.openWASM)},
		{"finish shredding sessions", d.startShredder},
		{"follow the ledger", d.startTail},
		{"open the projections", d.startProjections},
		{"look for lost keys", d.warnMissingKeys},
		{"open the contexts", d.startContexts},
		{"open the audit log", d.startAudit},
		{"record where the ledger is", d.recordPlace},
		{"start the webhooks", d.startWebhooks},
		{"start the collection of heaps", d.startRetention},
		{"start the MCP servers", d.startToolServers},
		{"seal volumes", d.startVolumes},
		{"archive volumes", d.startArchiving},
		{"copy the projections", d.startCopying},
		{"prepare replays", d.startReplays},
		{"start the runner", d.startRunner},
		{"start the scrub", d.startScrub},
		{"start the check of completed files", d.startCheckingFiles},
		{"start the interfaces", d.startInterfaces},
		{"watch for damage", d.watchDamage},
		{"watch the disk", d.watchDisk},
		{"watch for use", d.watchUse},
		{"start to return memory", d.startTrimming},
	} {
		if err := step.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", step.doing, err), d.Close())
		}
	}
	return d, nil
}

func newDaybook(opts Options) *Daybook {
	d := &Daybook{opts: opts, damage: damage.NewState(), budget: newBudget(opts.Resources.MemoryMB), reads: reads.New(reads.Options{}), done: make(chan struct{}), sealed: make(chan struct{}, 1), sealedToCopy: make(chan struct{}, 1)}
	d.owner = d.newOwner()
	return d
}

// withOptionErrors marks the errors of a step as errors of options. It is for steps that
// fail only because of the value of an option, another owner of the directory or the end
// of ctx.
func withOptionErrors(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := step(ctx)
		if ctx.Err() != nil {
			return err
		}
		return asOption(err)
	}
}

func (d *Daybook) takeDirectory(ctx context.Context) error {
	if err := durable.MkdirAll(d.opts.DataDir, 0o700); err != nil {
		return ofField("DataDir", err)
	}
	var err error
	if d.opts.Owner.TakeOver {
		d.lock, err = owner.TakeOver(ctx, d.opts.DataDir, d.opts.Owner.Notice)
	} else {
		d.lock, err = datadir.TakeLock(d.opts.DataDir)
	}
	if err != nil {
		return err
	}
	return d.checkPlace(ctx) // again: the former owner may have created its ledger meanwhile
}

// Close drains and ends the Daybook: it refuses new runs, lets running ones finish
// within Runs.DrainWait or hands them back, and leaves everything acknowledged on disk. It
// blocks until all components have ended. It may be called more than once and
// concurrently.
func (d *Daybook) Close() error {
	d.closeOnce.Do(func() { d.closeErr = d.close() })
	return d.closeErr
}

func (d *Daybook) close() error {
	var errs []error
	d.watchingUse.end()
	d.owner.Hold()
	d.draining.Store(true)
	if d.stopReplays != nil {
		d.stopReplays()
	}
	if d.stopAdmissions != nil {
		d.stopAdmissions()
	}
	d.watching.end()
	d.trimming.end()
	d.scrubbing.end()
	d.sampling.end()
	if d.stopRunner != nil { // first: clients can follow the runs to their end
		d.stopRunner()
		<-d.runnerDone
	}
	if d.toolServers != nil {
		errs = append(errs, d.toolServers.Close())
	}
	d.owner.End()
	if d.mcp != nil {
		errs = append(errs, d.mcp.Close())
	}
	if d.acp != nil {
		errs = append(errs, d.acp.Close())
	}
	errs = append(errs, d.shutdown(d.socket, d.socketRequests), d.shutdown(d.http, d.httpRequests))
	if d.http == nil && d.listener != nil {
		errs = append(errs, ignoreClosed(d.listener.Close()))
	}
	d.contextsRunning.end()
	d.retaining.end()
	d.sealing.end()
	d.checkingFiles.end()
	d.archiving.end()
	d.copying.end()
	d.signFinalCheckpoint()
	if d.stopWebhooks != nil {
		d.stopWebhooks()
	}
	if d.stopProjector != nil {
		d.stopProjector()
		<-d.projectorDone
	}
	d.tailing.end()
	d.watchingDisk.end() // late, because the last events are signed first
	if d.projections != nil {
		errs = append(errs, d.projections.Close())
	}
	if d.pool != nil {
		errs = append(errs, d.pool.Close())
	}
	if d.closeConns != nil {
		d.closeConns()
	}
	d.admitting.end()
	if d.nats != nil {
		d.nats.Close()
		d.checkFilesAtStop()
	}
	errs = append(errs, d.closeMarks())
	if d.emptyProofs != "" {
		errs = append(errs, os.RemoveAll(d.emptyProofs))
	}
	if d.signedLock != nil {
		errs = append(errs, d.signedLock.Release())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Release())
	}
	d.limiting.end()
	d.fail(nil)
	return errors.Join(errs...)
}

// shutdown ends an HTTP server and its requests. The server may be nil.
func (d *Daybook) shutdown(s *http.Server, served *requests) error {
	if s == nil {
		return nil
	}
	defer served.end()
	ctx, stop := context.WithTimeout(context.Background(), d.opts.Runs.DrainWait)
	defer stop()
	if s.Shutdown(ctx) == nil {
		return nil
	}
	return s.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Done returns a channel that is closed after a component failed permanently, see Err,
// or after Close.
func (d *Daybook) Done() <-chan struct{} { return d.done }

// Err returns the failure that ended the Daybook, or nil.
func (d *Daybook) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// fail records the first failure and closes done.
func (d *Daybook) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.done:
	default:
		d.err = err
		close(d.done)
	}
}

// backgroundTask is a function that runs in the background until it is ended.
type backgroundTask struct {
	stop context.CancelFunc
	done chan struct{}
}

// startTask runs a function in the background until end is called.
func startTask(ctx context.Context, run func(context.Context)) *backgroundTask {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &backgroundTask{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		run(ctx)
	}()
	return f
}

// end stops the task and waits until it has ended. A nil task was never started.
func (f *backgroundTask) end() {
	if f != nil {
		f.stop()
		<-f.done
	}
}
