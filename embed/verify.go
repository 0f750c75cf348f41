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
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
	"daybook/proof"
)

// VerifyOptions say what to verify and whom to trust. One of DataDir, Export and
// Server is set.
type VerifyOptions struct {
	// DataDir is the directory of a Daybook that does not run; with one that does,
	// the error is ErrLocked.
	DataDir string
	// Export is a directory that an export was written to.
	Export string
	// Server asks a running server; its URL is ServerURL.
	Server    audit.Get
	ServerURL string
	// ServerPost, if set, asks the server with the method POST. It has everything
	// signed that is recorded, where the server allows it.
	ServerPost audit.Get
	// Keys are the verification keys to trust; empty takes those found beside the
	// data.
	Keys []string
	// KeyDir is Options.KeyDir, for DataDir: heaps may be encrypted.
	KeyDir string
	// SkipBlobs leaves heaps and texts unread.
	SkipBlobs bool
	// Progress, if set, is told how far it has come, now and then.
	Progress func(done, total uint64)
	// Logger receives what the storage says; default discards.
	Logger *slog.Logger
}

// Report is the outcome of Verify.
type Report = audit.Report

// WrongKey is the verdict on an intact ledger that none of the keys given signed.
const WrongKey = audit.WrongKey

// ErrBadKey is returned by Verify for a text among the keys that is none.
var ErrBadKey = proof.ErrBadKey

// Verify computes everything that a ledger's signatures, hashes and rules promise
// anew and compares. What does not hold is in the report; an error means that it
// could not be found out.
func Verify(ctx context.Context, opts VerifyOptions) (*Report, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	settings := audit.VerifyOptions{Keys: opts.Keys, SkipBlobs: opts.SkipBlobs, Progress: opts.Progress}
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

// verifyDirectory opens the streams of a directory that nobody uses, to read
// them.
func verifyDirectory(ctx context.Context, opts VerifyOptions, settings audit.VerifyOptions) (*Report, error) {
	if err := readableIn(opts.DataDir); err != nil {
		return nil, err
	}
	began := time.Now()
	streams := filepath.Join(opts.DataDir, "jetstream")
	lock, err := lockDir(opts.DataDir)
	if err != nil {
		return nil, err
	}
	defer lock.release() //nolint:errcheck // the process gives it up in any case
	keys := newDaybook(Options{DataDir: opts.DataDir, KeyDir: opts.KeyDir})
	if !opts.SkipBlobs { // nothing else is decrypted
		if err := keys.openKeys(); err != nil {
			return nil, fmt.Errorf("%w; or verify without heaps and texts, with --skip-blobs", err)
		}
	}
	if err := newDaybook(Options{DataDir: opts.DataDir, Logger: opts.Logger}).repairDescriptions(ctx); err != nil {
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
	} else if len(names) == 0 { // nothing was signed, else that is damage
		return nil, noLedgerIn(opts.DataDir)
	}
	if blobs { // the server would cut off what follows the damage
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
	store, err := jetstream.Open(ctx, publish, consume, jetstream.Options{Keys: keys.storeKeys(), Exclusive: true, Existing: true, Logger: opts.Logger})
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
