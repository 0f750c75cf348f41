package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
)

// keyDirFile is the file of a data directory that says where its keys are.
const keyDirFile = "key-dir"

// openKeys reads the keys of sessions, where there are any or are to be. Once
// there were, a directory that is missing is an error: what is encrypted under
// its keys would seem erased, and what is recorded from now on would go under
// others.
func (d *Daybook) openKeys() error {
	dir, known, err := d.opts.keyDir()
	if err != nil {
		return err
	}
	_, err = os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && known != "":
		return fmt.Errorf("sessions of this ledger are encrypted, and the directory of their keys, %s, is missing (they were in %s): bring it back, or say where it is with --key-dir; "+
			"if the keys are lost for good, daybook rebuild --without-keys goes on without what was encrypted under them", dir, known)
	case errors.Is(err, os.ErrNotExist) && !d.opts.ErasableSessions:
		return nil
	}
	if d.keys, err = keyring.Open(dir); err != nil {
		if _, path := errors.AsType[*os.PathError](err); path && d.opts.KeyDir != "" {
			return asOption(ofField("KeyDir", err))
		}
		return err
	}
	if known == "" || known != dir && d.keys.Len() > 0 {
		return d.opts.writeKeyPlace(dir)
	}
	return nil
}

// keyDir is where the keys are to be, and where the data directory says that they
// were last, which is empty before there were any.
func (o Options) keyDir() (dir, known string, err error) {
	raw, err := os.ReadFile(filepath.Join(o.DataDir, keyDirFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("find out where the keys are: %w", err)
	}
	if known = strings.TrimSuffix(string(raw), "\n"); known != "" && !filepath.IsAbs(known) {
		known = filepath.Join(o.DataDir, known)
	}
	switch {
	case o.KeyDir != "":
		dir, err = filepath.Abs(o.KeyDir)
		return dir, known, err
	case known != "":
		return known, known, nil
	default:
		return filepath.Join(o.DataDir, "keys"), "", nil
	}
}

// writeKeyPlace records where the keys are, durably: a start that finds no record uses another
// directory. A directory below the data directory is recorded relative to it.
func (o Options) writeKeyPlace(dir string) error {
	if rel, err := filepath.Rel(o.DataDir, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	if err := durable.WriteFile(filepath.Join(o.DataDir, keyDirFile), []byte(dir+"\n"), 0o600); err != nil {
		return fmt.Errorf("record the directory of the keys: %w", err)
	}
	return nil
}

// forgetKeys lets a ledger go on whose keys are lost.
func (o Options) forgetKeys() error {
	dir, _, err := o.keyDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err // it is there, and some of the keys may be
	}
	if err := os.Remove(filepath.Join(o.DataDir, keyDirFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget where the keys were: %w", err)
	}
	return nil
}

// knownKeys are those that readers have, which may be none.
func (d *Daybook) knownKeys() events.Keys {
	if d.keys == nil {
		return noKeys{}
	}
	return d.keys
}

type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }

// warnMissingKeys tells in the log when runs are on record whose content nobody here can
// read, and nobody has erased.
func (d *Daybook) warnMissingKeys(ctx context.Context) error {
	lost, err := d.projections.FindLostKeys(ctx, d.knownKeys())
	if err != nil {
		return err
	}
	if lost != nil {
		d.opts.Logger.WarnContext(ctx, "keys are missing: what is encrypted under them cannot be read, and a rebuild would lose what the projections hold of it; put their files back into the directory of keys", "keys", lost.Keys, "runs", lost.Runs)
	}
	return nil
}

// storeKeys are those the store reads with, or nil.
func (d *Daybook) storeKeys() events.Keys {
	if d.keys == nil {
		return nil
	}
	return d.keys
}

// ledgerKeys are those the ledger writes with, or nil.
func (d *Daybook) ledgerKeys() ledger.Keys {
	if d.keys == nil {
		return nil
	}
	return d.keys
}

// startShredder makes what erases sessions, and destroys what is on record as
// erased and still there.
func (d *Daybook) startShredder(ctx context.Context) error {
	if d.keys == nil {
		return nil
	}
	d.shredder = retention.NewShredder(retention.ShredOptions{Store: d.store, Recorder: d.ledger, Keys: d.keys})
	if d.damage.Damaged() { // nothing can be recorded now
		return nil
	}
	return d.shredder.Finish(ctx)
}

// storedBlobs are blobs for those who prove what is stored: what is encrypted
// stays so.
type storedBlobs struct{ *jetstream.Store }

func (b storedBlobs) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	return b.RawText(ctx, tenant, hash)
}

// Heap reads a heap that is not kept in the cache: exports read old heaps, and would
// take the place of heaps in use.
func (b storedBlobs) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	return b.StoredHeap(ctx, tenant, hash)
}

// withoutPlaintext hides from a batch of events what was decrypted, without changing
// the events of others.
func withoutPlaintext(batch []events.Event) []events.Event {
	shown := make([]events.Event, len(batch))
	for i, e := range batch {
		events.StripPlaintext(&e)
		shown[i] = e
	}
	return shown
}

// Shred erases the content of a session's runs: see retention.Shredder.Shred.
func (d *Daybook) Shred(ctx context.Context, tenant, session string, force bool, actor events.Actor) (retention.ShredResult, error) {
	if d.shredder == nil {
		return retention.ShredResult{}, &retention.RefusedError{Message: fmt.Sprintf("session %q cannot be erased: the server was not started with --erasable-sessions", session)}
	}
	return d.shredder.Shred(ctx, tenant, session, force, actor)
}
