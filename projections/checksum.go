package projections

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"daybook/internal/durable"
)

// SQLite does not notice a changed byte in a row. A closed file therefore has a SHA-256
// checksum in a file next to it, with its size and its time of modification. A file that does
// not match its checksum is rebuilt. If size and time match, Prepare does not read the file: Run
// does, while it serves. While the file is open, the checksum file holds a mark: after a crash, the
// state that SQLite recovers is trusted. The mark of a file that Run has not read yet holds the
// checksum too: after a crash, Prepare reads the file unless it has changed.
const (
	checksumSuffix = ".sum"
	checksumFormat = "daybook-projections-sum-v1\n"
	openMark       = "open"
	changedMark    = "changed"
	// missingChecksum is why a file without a checksum file is not trusted.
	missingChecksum = "it has no checksum file"
	// mismatch is why a file with another content is not trusted.
	mismatch = "it does not match the checksum of its last close"
)

// closedFile describes a file as it was closed.
type closedFile struct {
	sum string
	// size is in bytes, modTime in nanoseconds since 1970. Earlier versions recorded neither.
	size, modTime int64
}

func (c closedFile) String() string { return fmt.Sprintf("%s %d %d", c.sum, c.size, c.modTime) }

// isUnchanged reports whether a file has the size and time of its close.
func (c closedFile) isUnchanged(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return c.modTime != 0 && info.Size() == c.size && info.ModTime().UnixNano() == c.modTime, nil
}

// readChecksumFile returns the file as it was closed. mark is set if the checksum file holds a
// mark, or a text that cannot be parsed.
func readChecksumFile(path string) (c closedFile, mark string, err error) {
	raw, err := os.ReadFile(path + checksumSuffix)
	if err != nil {
		return c, "", err
	}
	text, ok := strings.CutPrefix(string(raw), checksumFormat)
	fields := strings.Fields(text)
	if !ok || len(fields) == 0 {
		return c, changedMark, nil
	}
	if fields[0] == openMark || fields[0] == changedMark {
		mark, fields = fields[0], fields[1:]
	}
	if len(fields) == 0 || mark == changedMark {
		return c, mark, nil
	}
	c.sum = fields[0]
	if len(fields) == 3 {
		size, sizeErr := strconv.ParseInt(fields[1], 10, 64)
		modTime, timeErr := strconv.ParseInt(fields[2], 10, 64)
		if sizeErr == nil && timeErr == nil {
			c.size, c.modTime = size, modTime
		}
	}
	return c, mark, nil
}

// fileChecksum returns the hash of a file's bytes.
func fileChecksum(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return checksumOf(ctx, f)
}

func checksumOf(ctx context.Context, r io.Reader) (string, error) {
	h := sha256.New()
	if err := copyPieces(ctx, h, r); err != nil {
		return "", err
	}
	return hexOf(h), nil
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
	if _, mark, err := readChecksumFile(s.opts.Path); err == nil && mark == openMark {
		s.isMarkedOpen = true // since a crash
		return nil
	}
	mark := openMark
	if s.closed.sum != "" {
		mark += " " + s.closed.String()
	}
	if err := writeChecksumFile(s.opts.Path, mark); err != nil {
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
	closed, mark, err := readChecksumFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingChecksum, nil
	case err != nil:
		return "", err
	case mark == changedMark:
		return mismatch, nil
	}
	unchanged, err := closed.isUnchanged(path)
	if err != nil || unchanged != (mark == openMark) {
		return "", err
	}
	sum, err := fileChecksum(context.Background(), path)
	if err != nil {
		return "", err
	}
	if sum != closed.sum {
		return mismatch, nil
	}
	return "", nil
}

// awaitCompared waits until verifyClosed has compared the file, if there is anything to compare. It
// waits until ctx is done if Run does not, or if the checksum differs.
func (s *Store) awaitCompared(ctx context.Context) error {
	if s.closed.sum == "" {
		return nil
	}
	select {
	case <-s.compared:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verifyClosed reads the file as it was closed and compares its checksum, unless the file changes
// meanwhile. If the checksum differs, the next Prepare rebuilds the file, also if this process is
// killed. isMarkedOpen is Store.isMarkedOpen.
func (s *Store) verifyClosed(ctx context.Context, isMarkedOpen bool) error {
	if s.closed.sum == "" {
		return nil
	}
	file, err := s.openFile()
	if err != nil {
		return err
	}
	sum, err := checksumOf(ctx, io.NewSectionReader(file, 0, s.closed.size))
	if err != nil {
		return err
	}
	switch unchanged, err := s.closed.isUnchanged(s.opts.Path); {
	case err != nil:
		return err
	case !unchanged:
		s.opts.Logger.InfoContext(ctx, "the projections file was not compared with the checksum of its last close, because it changed meanwhile", "file", s.opts.Path)
		return nil
	case sum == s.closed.sum:
		if isMarkedOpen {
			if err := writeChecksumFile(s.opts.Path, openMark); err != nil {
				s.opts.Logger.DebugContext(ctx, "a start after a crash reads the projections file again", "file", s.opts.Path, "err", err)
			}
		}
		return nil
	}
	s.isChanged.Store(true)
	err = fmt.Errorf("the projections file %s %s; restart the server, which rebuilds it", s.opts.Path, strings.TrimPrefix(mismatch, "it "))
	return errors.Join(err, writeChecksumFile(s.opts.Path, changedMark))
}

// writeChecksum writes the checksum of a file that was closed.
func writeChecksum(path string) error {
	if _, err := os.Stat(path + "-wal"); err == nil {
		return nil // the log holds pages that are not in the file yet
	}
	sum, err := fileChecksum(context.Background(), path)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(path); err == nil {
			err = writeChecksumFile(path, closedFile{sum, info.Size(), info.ModTime().UnixNano()}.String())
		}
	}
	if err != nil {
		return fmt.Errorf("write the checksum of %s: %w", path, err)
	}
	return nil
}
