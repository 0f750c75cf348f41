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

// secretStore is the directory of the data that must not be in the ledger. For each
// webhook it holds the secret in ID.secret and the delivered position in ID.position.
type secretStore struct{ dir string }

const (
	secretSuffix   = ".secret"
	positionSuffix = ".position"
)

func openSecretStore(dir string) (secretStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return secretStore{}, fmt.Errorf("create the webhook directory: %w", err)
	}
	return secretStore{dir}, nil
}

func (k secretStore) path(id, suffix string) string { return filepath.Join(k.dir, id+suffix) }

// storeSecret returns once the secret is on disk, so that a webhook registered
// afterwards can always be signed for.
func (k secretStore) storeSecret(id string, s Secret) error {
	if err := durable.Create(k.path(id, secretSuffix), []byte(s.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("store the secret of webhook %s: %w", id, err)
	}
	return nil
}

// secret returns the secret of a webhook. The error is os.ErrNotExist if the webhook was
// registered at another server or its secret was lost. A file that other users can access
// is refused, because they may know the secret.
func (k secretStore) secret(id string) (Secret, error) {
	path := k.path(id, secretSuffix)
	info, err := os.Stat(path)
	if err != nil {
		return Secret{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Secret{}, fmt.Errorf("%s is accessible to other users; delete webhook %s and add it again, or, if the secret was not read, chmod 600 the file and restart", path, id)
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

// deleteFiles removes the files of a webhook. It does not sync: sweep removes files that
// a power cut brings back.
func (k secretStore) deleteFiles(id string) error {
	var errs []error
	for _, suffix := range []string{secretSuffix, positionSuffix} {
		if err := os.Remove(k.path(id, suffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes the files of unknown webhooks. Such files remain if a process died after it
// stored a secret and before it recorded the registration, or after it recorded a deletion
// and before it deleted the files.
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

// positionDigits is the number of digits of every written position. A file keeps its
// size, so that a write touches one sector of the disk and is atomic.
const positionDigits = 20

// positionFile stores the position of a webhook. The caller of openPosition MUST close it.
type positionFile struct{ f *os.File }

// openPosition opens the position file of a webhook and returns the position in it. If the
// file is new or invalid, or its position is lower than from, openPosition returns from. At
// worst, deliveries are then repeated, but none is lost, so the directory need not be synced.
func (k secretStore) openPosition(id string, from uint64) (positionFile, uint64, error) {
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

// set writes the position. With sync it returns once the position is on disk.
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
