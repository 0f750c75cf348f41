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

// SQLite does not notice a changed byte in a row. A closed file therefore has a SHA-256
// checksum in a file next to it, and a file that does not match its checksum is
// rebuilt. While the file is open, the checksum file holds a mark instead: after a
// crash, the state that SQLite recovers is trusted.
const (
	sumSuffix = ".sum"
	sumFormat = "daybook-projections-sum-v1\n"
	sumOpen   = "open"
	// missingChecksum is why a file without a checksum file is not trusted.
	withoutSum = "it has no checksum file"
)

// fileChecksum returns the hash of a file's bytes.
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

// writeChecksumFile replaces the checksum file. It does nothing if the file has the content
// already: a full disk has no space for another one. It syncs nothing: whatever a power cut
// leaves of the file, the projections are at worst rebuilt.
func writeSum(path, sum string) error {
	content := sumFormat + sum + "\n"
	if raw, err := os.ReadFile(path + sumSuffix); err == nil && string(raw) == content {
		return nil
	}
	return durable.WriteFileUnsynced(path+sumSuffix, []byte(content), 0o600)
}

// markOpen writes the mark that the file is open and changes. Before that, the file has
// the checksum of its last close, and nothing may be written to it.
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

// verifyChecksum returns why a file cannot be trusted, or an empty string if it can.
func checkSum(path string) (why string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil // Open creates the file
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
		return "it does not match the checksum of its last close", nil
	}
	return "", nil
}

// writeChecksum writes the checksum of a file that was closed.
func sealFile(path string) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
		return nil // the log holds pages that are not in the file yet
	}
	sum, err := sumOf(path)
	if err == nil {
		err = writeSum(path, sum)
	}
	if err != nil {
		return fmt.Errorf("write the checksum of %s: %w", path, err)
	}
	return nil
}
