package projections

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"daybook/internal/durable"
	"daybook/internal/resources/exhausted"
)

const (
	// copySuffix is the end of the name of a copy. Before it is its position, as 20 digits.
	copySuffix = ".zst"
	// incompleteName is the file in which a copy is written.
	incompleteName = "incomplete"
)

// afterStep is called after each change of the files of copies and rebuilds. A test replaces it to
// kill the process there.
var afterStep = func() {}

func copyPath(dir string, position uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", position, copySuffix))
}

// copyPositions returns the positions of the copies in a directory, in ascending order.
func copyPositions(dir string) (list []uint64, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), copySuffix)
		position, parseErr := strconv.ParseUint(digits, 10, 64)
		if ok && parseErr == nil && !e.IsDir() && copyPath(dir, position) == filepath.Join(dir, e.Name()) {
			list = append(list, position)
		}
	}
	return list, err
}

// RemoveCopies deletes all projection copies in a directory. No Store may write one there.
func RemoveCopies(dir string) error {
	if err := removeCopies(dir, func(uint64) bool { return true }); err != nil {
		return fmt.Errorf("delete the projection copies: %w", err)
	}
	return nil
}

// removeCopies deletes the copies whose position is matched, and incomplete ones, durably. That
// includes what an earlier process deleted and did not sync.
func removeCopies(dir string, matches func(position uint64) bool) error {
	if dir == "" {
		return nil
	}
	list, err := copyPositions(dir)
	if err != nil {
		return err
	}
	paths := []string{filepath.Join(dir, incompleteName)}
	for _, position := range list {
		if matches(position) {
			paths = append(paths, copyPath(dir, position))
		}
	}
	for _, path := range paths {
		switch err := os.Remove(path); {
		case err == nil:
			afterStep()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if err := durable.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeIncomplete(dir string) error {
	return removeCopies(dir, func(uint64) bool { return false })
}

// pruneCopies deletes all but the newest keep copies.
func pruneCopies(dir string, keep int) error {
	list, err := copyPositions(dir)
	if err != nil || len(list) <= keep {
		return err
	}
	oldest := list[len(list)-keep]
	return removeCopies(dir, func(position uint64) bool { return position < oldest })
}

// usableCopy is a copy that a rebuild can begin with if the hash of its file is among hashes.
type usableCopy struct {
	position uint64
	// hashes are recorded for the position and this version. Servers that share a ledger record
	// copies of their own, which can have equal positions.
	hashes []string
}

// usableCopies returns the copies that a rebuild up to position last can begin with, the newest
// first. Their files are not verified.
func usableCopies(ctx context.Context, opts Options, last uint64) ([]usableCopy, error) {
	if opts.CopyDir == "" || opts.RecordedCopies == nil {
		return nil, nil
	}
	positions, err := copyPositions(opts.CopyDir)
	if err != nil || len(positions) == 0 {
		return nil, err
	}
	recorded, err := opts.RecordedCopies(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the recorded hashes of projection copies: %w", err)
	}
	var list []usableCopy
	for _, position := range slices.Backward(positions) {
		c := usableCopy{position: position}
		for _, r := range recorded {
			if r.Schema == SchemaVersion && r.Position == position {
				c.hashes = append(c.hashes, r.SHA256)
			}
		}
		if len(c.hashes) > 0 && position <= last {
			list = append(list, c)
		}
	}
	return list, nil
}

// CheckCopies reads the copies and deletes those whose hash Options.RecordedCopies does not return:
// they are damaged, or a process was killed before it recorded them, or they are of another history
// of the ledger. No rebuild uses them, and they may have content that is erased later.
// NewestCopy then returns the newest copy of this version. Like WriteCopy, CheckCopies waits until
// Run has compared the file with its checksum. It MUST not be called while WriteCopy is.
func (s *Store) CheckCopies(ctx context.Context) error {
	err := s.awaitCompared(ctx)
	if err == nil {
		err = s.checkCopies(ctx)
	}
	if err != nil {
		return fmt.Errorf("check the projection copies: %w", err)
	}
	return nil
}

func (s *Store) checkCopies(ctx context.Context) error {
	positions, err := copyPositions(s.opts.CopyDir)
	if err != nil || len(positions) == 0 || s.opts.RecordedCopies == nil {
		return err
	}
	recorded, err := s.opts.RecordedCopies(ctx)
	if err != nil {
		return fmt.Errorf("read their recorded hashes: %w", err)
	}
	var newest uint64
	for _, position := range positions {
		path := copyPath(s.opts.CopyDir, position)
		sum, err := fileChecksum(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			continue // content was erased meanwhile
		case exhausted.Is(err):
			return err // it may be intact
		}
		i := slices.IndexFunc(recorded, func(c Copy) bool { return err == nil && c.Position == position && c.SHA256 == sum })
		switch {
		case i < 0:
			s.opts.Logger.WarnContext(ctx, "a projection copy does not match a recorded hash and is deleted", "file", path, "err", err)
			if err := s.dropCopy(position); err != nil {
				return err
			}
		case recorded[i].Schema == SchemaVersion: // one of another version stays, because a server of that version can use it
			newest = position
		}
	}
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	s.copying.newest = newest
	return nil
}

// NewestCopy returns the position of the newest copy that CheckCopies has found or WriteCopy has
// written, or 0 if there is none, or it was deleted.
func (s *Store) NewestCopy() uint64 {
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	if _, err := os.Stat(copyPath(s.opts.CopyDir, s.copying.newest)); err != nil {
		return 0
	}
	return s.copying.newest
}

// restoreCopy verifies the hash of a copy and writes its content to path. After an error the file
// at path does not exist.
func restoreCopy(ctx context.Context, dir string, c usableCopy, path string) (err error) {
	from := copyPath(dir, c.position)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("use the projection copy %s: %w", from, err), removeFile(path))
		}
	}()
	if err := unpackCopy(ctx, from, c.hashes, path); err != nil {
		return err
	}
	version, _, err := fileVersion(ctx, path, false)
	if err != nil {
		return err
	}
	if version != SchemaVersion {
		return fmt.Errorf("it has schema version %d, not %d", version, SchemaVersion)
	}
	if applied, err := readApplied(ctx, path, "mode=ro&_busy_timeout=10000"); err != nil || applied != c.position {
		return errors.Join(fmt.Errorf("its position is %d, not %d", applied, c.position), err)
	}
	return nil
}

// unpackCopy writes the content of a copy to a new file. It verifies the hash of the copy before,
// because the content can be of any size, and of what it reads then: the file may change meanwhile.
func unpackCopy(ctx context.Context, from string, hashes []string, to string) error {
	packed, err := os.Open(from)
	if err != nil {
		return err
	}
	defer packed.Close()
	sum, err := checksumOf(ctx, packed)
	if err != nil {
		return err
	}
	if !slices.Contains(hashes, sum) {
		return errors.New("its content does not match its recorded hash")
	}
	if _, err := packed.Seek(0, io.SeekStart); err != nil {
		return err
	}
	again := sha256.New()
	read := io.TeeReader(packed, again)
	z, err := zstd.NewReader(read, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(copyPieces(ctx, f, z), f.Close()); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return err
	}
	if hexOf(again) != sum {
		return errors.New("it changed while it was read")
	}
	return nil
}
