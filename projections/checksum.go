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
	checksumSuffix = ".sum"
	checksumFormat = "daybook-projections-sum-v1\n"
	openMark       = "open"
	// missingChecksum is why a file without a checksum file is not trusted.
	missingChecksum = "it has no checksum file"
)

// fileChecksum returns the hash of a file's bytes.
func fileChecksum(path string) (string, error) {
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
func writeChecksumFile(path, sum string) error {
	content := checksumFormat + sum + "\n"
	if raw, err := os.ReadFile(path + checksumSuffix); err == nil && string(raw) == content {
		return nil
	}
	return durable.WriteFileUnsynced(path+checksumSuffix, []byte(content), 0o600)
}

// markOpen writes the mark that the file is open and changes. Before that, the file has
// the checksum of its last close, and nothing may be written to it.
func (s *Store) markOpen() error {
	if s.isMarkedOpen {
		return nil
	}
	if err := writeChecksumFile(s.opts.Path, openMark); err != nil {
		return fmt.Errorf("mark the file as open: %w", err)
	}
	s.isMarkedOpen = true
	return nil
}

// verifyChecksum returns why a file cannot be trusted, or an empty string if it can.
func verifyChecksum(path string) (why string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil // Open creates the file
	}
	raw, err := os.ReadFile(path + checksumSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingChecksum, nil
	case err != nil:
		return "", err
	case string(raw) == checksumFormat+openMark+"\n":
		return "", nil
	}
	sum, err := fileChecksum(path)
	if err != nil {
		return "", err
	}
	if string(raw) != checksumFormat+sum+"\n" {
		return "it does not match the checksum of its last close", nil
	}
	return "", nil
}

// writeChecksum writes the checksum of a file that was closed.
func writeChecksum(path string) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
		return nil // the log holds pages that are not in the file yet
	}
	sum, err := fileChecksum(path)
	if err == nil {
		err = writeChecksumFile(path, sum)
	}
	if err != nil {
		return fmt.Errorf("write the checksum of %s: %w", path, err)
	}
	return nil
}
