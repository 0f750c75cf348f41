package webhook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"daybook/events"
	"daybook/internal/durable"
)

// secretStore is the folder of what must not be in the ledger: for each webhook the
// file ID.secret, and ID.position with how far it has come.
type secretStore struct{ dir string }

const (
	secretSuffix   = ".secret"
	positionSuffix = ".position"
)

func openKeep(dir string) (secretStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return secretStore{}, fmt.Errorf("create the folder of webhooks: %w", err)
	}
	return secretStore{dir}, nil
}

func (k secretStore) path(id, suffix string) string { return filepath.Join(k.dir, id+suffix) }

// storeSecret returns once the secret is on disk: what is registered after it
// can be signed for ever.
func (k secretStore) storeSecret(id string, s Secret) error {
	if err := durable.Create(k.path(id, secretSuffix), []byte(s.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the secret of webhook %s: %w", id, err)
	}
	return nil
}

// secret is os.ErrNotExist for a webhook registered at another server, or whose
// secret was lost. A file that others can read is refused: the secret in it may
// be known.
func (k secretStore) secret(id string) (Secret, error) {
	path := k.path(id, secretSuffix)
	info, err := os.Stat(path)
	if err != nil {
		return Secret{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Secret{}, fmt.Errorf("%s can be read by others: delete webhook %s and register it anew, or, if nobody has read it, chmod 600 the file and restart", path, id)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, err
	}
	s, err := ParseSecret(strings.TrimSpace(string(raw)))
	if err != nil {
		return Secret{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// deleteFiles removes what is kept of a webhook. It does not sync: sweep removes what a power
// cut brings back.
func (k secretStore) deleteFiles(id string) error {
	var errs []error
	for _, suffix := range []string{secretSuffix, positionSuffix} {
		if err := os.Remove(k.path(id, suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes what is kept of webhooks that are not on record: a process that
// died between the two steps of registering leaves a secret behind, one that
// died while deleting too.
func (k secretStore) sweep(known func(id string) bool) error {
	list, err := os.ReadDir(k.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range list {
		id, ok := strings.CutSuffix(entry.Name(), secretSuffix)
		if !ok {
			id, ok = strings.CutSuffix(entry.Name(), positionSuffix)
		}
		if ok && events.ValidID(id) && !known(id) {
			errs = append(errs, k.deleteFiles(id))
		}
	}
	return errors.Join(errs...)
}

// positionDigits is the length of every position as written. A file never
// changes its size, so that writing it anew touches one sector of the disk and
// is there wholly or not at all.
const positionDigits = 20

// positionFile is where a webhook's position is kept. Its owner closes it.
type positionFile struct{ f *os.File }

// openPlace returns the place and the position in it. A place that was never
// written, or cannot be understood, holds from: that repeats deliveries rather
// than lose one. The directory is therefore not synced.
func (k secretStore) openPlace(id string, from uint64) (positionFile, uint64, error) {
	f, err := os.OpenFile(k.path(id, positionSuffix), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return positionFile{}, 0, err
	}
	buf := make([]byte, positionDigits)
	n, _ := f.ReadAt(buf, 0)
	at, err := strconv.ParseUint(string(buf[:n]), 10, 64)
	if err != nil || n != positionDigits || at < from {
		at = from
	}
	return positionFile{f}, at, nil
}

// set writes the position; with sync it returns once that is on disk.
func (p positionFile) set(at uint64, sync bool) error {
	if _, err := p.f.WriteAt(fmt.Appendf(nil, "%0*d\n", positionDigits, at), 0); err != nil {
		return err
	}
	if sync {
		return p.f.Sync()
	}
	return nil
}

func (p positionFile) close() error { return p.f.Close() }
