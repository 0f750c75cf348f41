package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/datadir"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
	"daybook/proof"
)

// VerifyOptions select the ledger to verify and the keys to trust. Exactly one of DataDir,
// Export and Server MUST be set.
type VerifyOptions struct {
	// DataDir is the data directory of a Daybook that is not running. Verify returns
	// ErrLocked if it is running.
	DataDir string
	// Export is the directory of an export.
	Export string
	// Server sends a request to a running server, whose URL is ServerURL.
	Server    audit.Get
	ServerURL string
	// ServerPost, if set, sends a POST request. Verify then asks the server to sign a
	// checkpoint of all recorded events first. The server may refuse that.
	ServerPost audit.Get
	// Keys are the verification keys to trust. Default: the keys beside the data.
	Keys []string
	// Checkpoints are signed notes that the caller kept. The ledger MUST extend the tree of each.
	Checkpoints [][]byte
	// Memory, if set, is a directory with the keys to trust and the checkpoints of earlier
	// verifications. Verify creates it and adds the verified checkpoint.
	Memory string
	// MaxAge is the maximum age of the newest event that a checkpoint covers. Default: any age.
	MaxAge time.Duration
	// KeyDir is Options.Content.KeyDir, for DataDir: heaps may be encrypted.
	KeyDir string
	// SkipBlobs skips heaps and texts.
	SkipBlobs bool
	// Progress, if set, is called periodically with the work done so far.
	Progress func(done, total uint64)
	// Logger receives messages of the store. Default: they are discarded.
	Logger *slog.Logger
}

// Report is the outcome of Verify.
type Report = audit.Report

// Verdict is the outcome in a Report.
type Verdict = audit.Verdict

// The verdicts of Verify besides intact, which Report.OK reports, and not intact.
const (
	IntactUpTo      = audit.IntactUpTo
	Unauthenticated = audit.Unauthenticated
	WrongKey        = audit.WrongKey
	RolledBack      = audit.RolledBack
	Forked          = audit.Forked
)

// KnownError is returned by Verify for a checkpoint in VerifyOptions.Checkpoints that cannot be
// used.
type KnownError = audit.KnownError

// MemoryError is returned by Verify for a directory in VerifyOptions.Memory that cannot be used.
type MemoryError = audit.MemoryError

// AnswerError is returned by Verify and Export if the server does not answer, or if its
// answer is cut off or not that of a Daybook server. Verify also returns it if the server
// refuses to send a heap or text and does not report damage of it.
type AnswerError = audit.AnswerError

// ErrBadKey is returned by Verify if one of the keys is not a valid key.
var ErrBadKey = proof.ErrBadKey

// Verify checks the events of a ledger against its signatures, its hashes and its
// rules. The report lists all findings. An error means that the verification could not
// be completed.
func Verify(ctx context.Context, opts VerifyOptions) (*Report, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	settings := audit.VerifyOptions{Keys: opts.Keys, MaxAge: opts.MaxAge, SkipBlobs: opts.SkipBlobs, Progress: opts.Progress}
	var memory *audit.Memory
	if opts.Memory != "" {
		var err error
		if memory, err = audit.OpenMemory(opts.Memory, opts.Keys); err != nil {
			return nil, err
		}
		settings.Keys, settings.Known = memory.Keys(), memory.Checkpoints()
	}
	for _, note := range opts.Checkpoints {
		c, err := audit.ParseKnown(note)
		if err != nil {
			return nil, err
		}
		settings.Known = append(settings.Known, c)
	}
	report, err := verify(ctx, opts, settings)
	if err == nil && memory != nil {
		err = memory.Keep(report)
	}
	return report, err
}

// verify verifies what opts select.
func verify(ctx context.Context, opts VerifyOptions, settings audit.VerifyOptions) (*Report, error) {
	switch {
	case opts.Export != "":
		settings.Source = opts.Export
		return audit.VerifyExport(ctx, opts.Export, settings)
	case opts.Server != nil:
		settings.Source = opts.ServerURL
		return audit.VerifyServer(ctx, audit.NewRemote(opts.Server, opts.ServerPost), settings)
	default:
		settings.Source = opts.DataDir
		return verifyDirectory(ctx, opts, settings)
	}
}

// verifyDirectory verifies the ledger of a data directory that no process owns. It opens
// the streams for reading.
func verifyDirectory(ctx context.Context, opts VerifyOptions, settings audit.VerifyOptions) (*Report, error) {
	if err := readableIn(opts.DataDir); err != nil {
		return nil, err
	}
	began := time.Now()
	streams := filepath.Join(opts.DataDir, "jetstream")
	lock, err := datadir.TakeLock(opts.DataDir)
	if err != nil {
		return nil, err
	}
	defer lock.Release() //nolint:errcheck // the end of the process releases it in any case
	keys := newDaybook(Options{DataDir: opts.DataDir, Content: ContentOptions{KeyDir: opts.KeyDir}})
	if !opts.SkipBlobs { // only heaps and texts are decrypted
		if err := keys.openKeys(); err != nil {
			return nil, fmt.Errorf("%w; or verify without heaps and texts, with --skip-blobs", err)
		}
	}
	if err := newDaybook(Options{DataDir: opts.DataDir, Logger: opts.Logger}).repairStreamConfigs(ctx); err != nil {
		return nil, err
	}
	blobs, err := checkFiles(ctx, opts.DataDir, streams, "")
	if errors.Is(err, events.ErrDamaged) {
		return audit.Unreadable(settings, began, err), nil
	}
	if err != nil {
		return nil, err
	}
	if names, err := streamfiles.Names(streams); err != nil {
		return nil, err
	} else if len(names) == 0 { // nothing was signed either, else checkFiles reports damage
		return nil, noLedgerIn(opts.DataDir)
	}
	if blobs { // the server would cut off the records after the damage
		if streams, err = keys.makeSalvageCopy(ctx); err != nil {
			return nil, err
		}
		defer os.RemoveAll(streams)
	}
	server, err := natsserver.Start(ctx, natsserver.Options{StoreDir: streams, NoSync: true, Logger: opts.Logger})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	publish, err := server.Conn("verify")
	if err != nil {
		return nil, err
	}
	defer publish.Close()
	consume, err := server.Conn("verify follow")
	if err != nil {
		return nil, err
	}
	defer consume.Close()
	store, err := jetstream.Open(ctx, publish, consume, jetstream.Options{Client: jet.Options{ReadExisting: true, Logger: opts.Logger}, Keys: keys.storeKeys(), Exclusive: true})
	if errors.Is(err, events.ErrDamaged) {
		return audit.Unreadable(settings, began, err), nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	if dir := auditDir(opts.DataDir); dirExists(dir) {
		settings.Dir = translog.Dir(dir)
	}
	return audit.Verify(ctx, store, storedBlobs{store}, settings)
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
