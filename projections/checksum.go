package projections

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"daybook/internal/durable"
)

// SQLite does not notice a changed byte in a row. A file that was closed
// therefore has a hash beside it, and one that does not have its hash is built
// again. While it is open the file beside holds a mark instead: after a crash what SQLite
// recovers is relied upon.
const (
	sumSuffix = ".sum"
	sumFormat = "daybook-projections-sum-v1\n"
	sumOpen   = "open"
	// withoutSum is why a file that nobody hashed is not relied upon.
	withoutSum = "it has no hash beside it"
)

// sumOf is the hash of a file's bytes.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeSum replaces the file beside. A file that has the content already is left: a full
// disk has no space for another one. Nothing is synced: whatever a power cut leaves of the
// file, the projections are at worst built again.
func writeSum(path, sum string) error {
	content := sumFormat + sum + "\n"
	if raw, err := os.ReadFile(path + sumSuffix); err == nil && string(raw) == content {
		return nil
	}
	return durable.WriteFileUnsynced(path+sumSuffix, []byte(content), 0o600)
}

// markOpen says beside the file that it changes. Until then it has the hash that it was
// closed with, and nothing may be written to it.
func (s *Store) markOpen() error {
	if s.marked {
		return nil
	}
	if err := writeSum(s.opts.Path, sumOpen); err != nil {
		return fmt.Errorf("mark the file as open: %w", err)
	}
	s.marked = true
	return nil
}

// checkSum reports why a file cannot be relied upon, empty if it can.
func checkSum(path string) (why string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil // it is to be made
	}
	raw, err := os.ReadFile(path + sumSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return withoutSum, nil
	case err != nil:
		return "", err
	case string(raw) == sumFormat+sumOpen+"\n":
		return "", nil
	}
	sum, err := sumOf(path)
	if err != nil {
		return "", err
	}
	if string(raw) != sumFormat+sum+"\n" {
		return "it does not have the hash it was closed with", nil
	}
	return "", nil
}

// sealFile leaves the hash of a file that was closed.
func sealFile(path string) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
		return nil // something is not in the file yet
	}
	sum, err := sumOf(path)
	if err == nil {
		err = writeSum(path, sum)
	}
	if err != nil {
		return fmt.Errorf("leave the hash of %s: %w", path, err)
	}
	return nil
}
