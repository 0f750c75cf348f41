package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
	// WitnessPolicy, if set, is the content of a policy (C2SP tlog-policy): the verdict is intact only
	// if enough witnesses cosigned a checkpoint that covers the events. Without Keys, the keys of the
	// logs in the policy are trusted.
	WitnessPolicy []byte
	// MaxAge is the maximum age of the newest event that a checkpoint covers, or with WitnessPolicy
	// that of the cosignatures. Default: any age.
	MaxAge time.Duration
	// MinSigners is the number of signers that must cover the events with checkpoints; see audit.Quorum.
	// Default: 1.
	MinSigners int
	// Tenant is the only tenant whose events Server is expected to show; empty for a server that
	// shows all events.
	Tenant string
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

// TenantError is returned by Verify if the server does not show the part of VerifyOptions.Tenant,
// and only that.
type TenantError = audit.TenantError

// SignersError is returned by Verify and Watch if fewer signers are trusted than VerifyOptions.MinSigners
// says, and nothing else is wrong.
type SignersError = audit.SignersError

// AnswerError is returned by Verify and Export if the server does not answer, or if its
// answer is cut off or not that of a Daybook server. Verify also returns it if the server
// refuses to send a heap or text and does not report damage of it.
type AnswerError = audit.AnswerError

// PolicyError is returned by Verify for a policy in VerifyOptions.WitnessPolicy that is not valid.
type PolicyError struct{ err error }

// Error returns the message of the error.
func (e *PolicyError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.err }

// ErrBadKey is returned by Verify if one of the keys is not a valid key.
var ErrBadKey = proof.ErrBadKey

// Verify checks the events of a ledger against its signatures, its hashes and its
// rules. The report lists all findings. An error means that the verification could not
// be completed; with a report, that the checkpoint could not be kept in VerifyOptions.Memory.
func Verify(ctx context.Context, opts VerifyOptions) (*Report, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return withMemory(opts, func(settings audit.VerifyOptions) (*Report, error) { return verify(ctx, opts, settings) })
}

// Watch checks the newest checkpoint of a server and a sample of its events; see audit.Watch. It keeps
// the checkpoint in VerifyOptions.Memory.
func Watch(ctx context.Context, opts VerifyOptions, samples int) (*Report, error) {
	return withMemory(opts, func(settings audit.VerifyOptions) (*Report, error) {
		settings.Source = opts.ServerURL
		return audit.Watch(ctx, audit.NewRemote(opts.Server, nil), audit.WatchOptions{VerifyOptions: settings, Samples: samples})
	})
}

// withMemory verifies with the keys and checkpoints in VerifyOptions.Memory and Checkpoints, and keeps the
// verified checkpoint.
func withMemory(opts VerifyOptions, verify func(audit.VerifyOptions) (*Report, error)) (*Report, error) {
	settings := audit.VerifyOptions{Keys: opts.Keys, Tenant: opts.Tenant, MaxAge: opts.MaxAge, MinSigners: opts.MinSigners, SkipBlobs: opts.SkipBlobs, Progress: opts.Progress}
	if opts.WitnessPolicy != nil {
		var err error
		if settings.Policy, err = proof.ParsePolicy(opts.WitnessPolicy); err != nil {
			return nil, &PolicyError{err}
		}
		if len(opts.Keys) == 0 {
			for _, log := range settings.Policy.Logs {
				opts.Keys = append(opts.Keys, log.VKey)
			}
			settings.Keys = opts.Keys
		}
	}
	var memory *audit.Memory
	if opts.Memory != "" {
		var err error
		if memory, err = audit.OpenMemory(opts.Memory, opts.Keys); err != nil {
			return nil, err
		}
		settings.Keys, settings.Known, settings.Signers = memory.Keys(), memory.Checkpoints(), memory.Signers()
		settings.Remembered = len(settings.Known)
	}
	for _, note := range opts.Checkpoints {
		c, err := audit.ParseKnown(note)
		if err != nil {
			return nil, err
		}
		settings.Known = append(settings.Known, c)
	}
	report, err := verify(settings)
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
	blobs, reach, err := checkFiles(ctx, opts.DataDir, streams, "")
	if errors.Is(err, events.ErrDamaged) {
		return audit.Unreadable(settings, began, err), nil
	}
	if err != nil {
		return nil, err
	}
	if names, err := streamfiles.Names(streams); err != nil {
		return nil, err
	} else if reach > 0 && !slices.ContainsFunc(names, isVolume) {
		return audit.Unreadable(settings, began, fmt.Errorf("recorded events are missing: positions 1 to %d", reach)), nil
	} else if len(names) == 0 {
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
	settings.Reach = reach
	if dir := auditDir(opts.DataDir); dirExists(dir) {
		settings.Dir = translog.Dir(dir)
	}
	return audit.Verify(ctx, store, storedBlobs{store}, settings)
}

func isVolume(stream string) bool {
	_, ok := events.VolumeOf(stream)
	return ok
}

func dirExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
