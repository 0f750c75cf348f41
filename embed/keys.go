package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"daybook/events"
	"daybook/internal/jetstream"
	"daybook/internal/keyring"
	"daybook/ledger"
	"daybook/retention"
)

// openKeys reads the keys of sessions, where there are any or are to be.
func (d *Daybook) openKeys() error {
	dir := d.opts.keyDir()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && !d.opts.ErasableSessions {
		return nil
	}
	var err error
	d.keys, err = keyring.Open(dir)
	return err
}

func (o Options) keyDir() string {
	if o.KeyDir != "" {
		return o.KeyDir
	}
	return filepath.Join(o.DataDir, "keys")
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
	return b.StoredText(ctx, tenant, hash)
}

// concealed hides from a batch of events what was decrypted, without changing
// the events of others.
func concealed(batch []events.Event) []events.Event {
	shown := make([]events.Event, len(batch))
	for i, e := range batch {
		events.Conceal(&e)
		shown[i] = e
	}
	return shown
}

// Shred erases the content of a session's runs: see retention.Shredder.Shred.
func (d *Daybook) Shred(ctx context.Context, tenant, session string, force bool, actor events.Actor) (retention.Erasure, error) {
	if d.shredder == nil {
		return retention.Erasure{}, &retention.RefusedError{Message: fmt.Sprintf("session %q cannot be erased: the server was not started with --erasable-sessions", session)}
	}
	return d.shredder.Shred(ctx, tenant, session, force, actor)
}
