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
	"daybook/ledger"
)

// keyDirFile is the file of a data directory that records the directory of its keys.
const keyDirFile = "key-dir"

// openKeys opens the content keys if their directory exists or Content.Erasable is set. If
// the data directory records a directory of keys and the directory to open is missing,
// openKeys returns an error: encrypted content would seem shredded, and further content
// would be encrypted under other keys.
func (d *Daybook) openKeys() error {
	dir, known, err := d.opts.keyDir()
	if err != nil {
		return err
	}
	_, err = os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && known != "":
		return fmt.Errorf("sessions of this ledger are encrypted, and the directory of their keys, %s, is missing (last used: %s): restore it, or name it with --key-dir; "+
			"if the keys are lost permanently, \"daybook rebuild --without-keys\" continues without the content that was encrypted under them", dir, known)
	case errors.Is(err, os.ErrNotExist) && !d.opts.Content.Erasable:
		return nil
	}
	if d.keys, err = keyring.Open(dir); err != nil {
		if _, path := errors.AsType[*os.PathError](err); path && d.opts.Content.KeyDir != "" {
			return asOption(ofField("Content.KeyDir", err))
		}
		return err
	}
	if known == "" || known != dir && d.keys.Len() > 0 {
		return d.opts.writeKeyDir(dir)
	}
	return nil
}

// keyDir returns the directory of the keys: the configured one, else the recorded one, else
// the default. known is the directory that the data directory records, or empty.
func (o Options) keyDir() (dir, known string, err error) {
	raw, err := os.ReadFile(filepath.Join(o.DataDir, keyDirFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("read the recorded directory of the keys: %w", err)
	}
	if known = strings.TrimSuffix(string(raw), "\n"); known != "" && !filepath.IsAbs(known) {
		known = filepath.Join(o.DataDir, known)
	}
	switch {
	case o.Content.KeyDir != "":
		dir, err = filepath.Abs(o.Content.KeyDir)
		return dir, known, err
	case known != "":
		return known, known, nil
	default:
		return filepath.Join(o.DataDir, "keys"), "", nil
	}
}

// writeKeyDir records the directory of the keys durably, because a start without the
// record and without --key-dir uses the default directory. The path of a directory below
// the data directory is recorded relative to the data directory, so both can be moved
// together.
func (o Options) writeKeyDir(dir string) error {
	if rel, err := filepath.Rel(o.DataDir, dir); err == nil && filepath.IsLocal(rel) {
		dir = rel
	}
	if err := durable.WriteFile(filepath.Join(o.DataDir, keyDirFile), []byte(dir+"\n"), 0o600); err != nil {
		return fmt.Errorf("record the directory of the keys: %w", err)
	}
	return nil
}

// forgetKeys deletes the record of the directory of the keys if that directory is missing,
// so that a ledger whose keys are lost can continue.
func (o Options) forgetKeys() error {
	dir, _, err := o.keyDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err // nil if it exists: it may hold some of the keys
	}
	if err := os.Remove(filepath.Join(o.DataDir, keyDirFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete the recorded directory of the keys: %w", err)
	}
	return nil
}

// knownKeys returns the keys that readers use. Without a directory of keys it returns an
// empty set of keys.
func (d *Daybook) knownKeys() events.Keys {
	if d.keys == nil {
		return noKeys{}
	}
	return d.keys
}

type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }

// warnMissingKeys logs a warning if the ledger has content that cannot be read,
// because the keys of the content are missing although they were not shredded.
func (d *Daybook) warnMissingKeys(ctx context.Context) error {
	lost, err := d.projections.FindLostKeys(ctx, d.knownKeys())
	if err != nil {
		return err
	}
	if lost != nil {
		d.opts.Logger.WarnContext(ctx, "keys are missing: content in the ledger cannot be decrypted; the projections may have a copy, which \"daybook rebuild --without-keys\" would delete; restore the files of the keys", "keys", lost.Keys, "runs", lost.Runs, "others", lost.Others)
	}
	return nil
}

// storeKeys returns the keys that the store reads with, or nil.
func (d *Daybook) storeKeys() events.Keys {
	if d.keys == nil {
		return nil
	}
	return d.keys
}

// ledgerKeys returns the keys that the ledger writes with, or nil.
func (d *Daybook) ledgerKeys() ledger.Keys {
	if d.keys == nil {
		return nil
	}
	return d.keys
}
