package projections

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"daybook/internal/durable"
)

// Copy describes a projection copy: a compressed copy of the file of a Store as of a position.
type Copy struct {
	// Position is the position of the last event that is applied in the copy.
	Position uint64
	// Schema is the SchemaVersion of the copy.
	Schema int
	// SHA256 is the hash of the compressed file, in hex.
	SHA256 string
}

// ErrCopyStopped is returned by WriteCopy if the copy had to be given up: content was erased,
// or disk space ran out. A later call can succeed.
var ErrCopyStopped = errors.New("the copy of the projections was given up")

// errNotMoved means that a reader holds back pages of the log.
var errNotMoved = fmt.Errorf("%w: another program reads the file", ErrCopyStopped)

// errCopiesStay means that an erasure cannot be applied yet.
var errCopiesStay = errors.New("projection copies with erased content cannot be deleted")

const (
	// copyPiece is the number of bytes after which a copy can be stopped.
	copyPiece = 1 << 20
	// pinTries and pinRetry bound the waiting for readers that hold back pages of the log.
	pinTries = 20
	pinRetry = 50 * time.Millisecond
)

// copying is the state of the copy that is written.
type copying struct {
	mu sync.Mutex // held while copies get their names or are deleted
	// stop ends the copy that is written; nil if there is none. released is closed when its
	// transaction has ended. Both are guarded by mu.
	stop     context.CancelCauseFunc
	released chan struct{}
	newest   uint64 // position of the newest copy that a rebuild can use, also if it was deleted since
}

// WriteCopy writes a copy of the file to Options.CopyDir. It calls record once the copy is on
// disk, and then deletes all but the newest keep copies. If record fails, it deletes the new copy.
// A rebuild uses only copies that Options.RecordedCopies returns, so record MUST record the copy
// there. At most one call may run at a time, and Close must not be called meanwhile.
//
// WriteCopy waits until Run has compared the file with the checksum of its last close: a copy of a
// damaged file would be the start of the rebuild that repairs it.
//
// Events are applied meanwhile, but the log of the file grows until the file is read. If content
// is erased, the error is ErrCopyStopped.
func (s *Store) WriteCopy(ctx context.Context, keep int, record func(context.Context, Copy) error) (Copy, error) {
	var c Copy
	err := s.awaitCompared(ctx)
	if err == nil {
		c, err = s.writeCopy(ctx, record)
	}
	if err == nil {
		err = pruneCopies(s.opts.CopyDir, keep)
	}
	if err != nil {
		return c, fmt.Errorf("copy the projections: %w", err)
	}
	return c, nil
}

func (s *Store) writeCopy(ctx context.Context, record func(context.Context, Copy) error) (c Copy, err error) {
	if err := durable.MkdirAll(s.opts.CopyDir, 0o700); err != nil {
		return c, err
	}
	// An earlier process may have left an incomplete copy, and erased content in it.
	if err := removeIncomplete(s.opts.CopyDir); err != nil {
		return c, err
	}
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	s.copying.mu.Lock()
	s.copying.stop, s.copying.released = stop, released
	s.copying.mu.Unlock()
	defer func() {
		s.copying.mu.Lock()
		defer s.copying.mu.Unlock()
		s.copying.stop = nil
	}()

	beside, err := os.OpenFile(filepath.Join(s.opts.CopyDir, incompleteName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c, err
	}
	afterStep()
	c, err = s.readInto(ctx, beside)
	release()
	if err == nil {
		err = beside.Sync() // outside of the lock, which erasures wait for
	}
	isComplete := err == nil
	if isComplete {
		err = s.nameCopy(ctx, beside, c)
	} else {
		err = errors.Join(err, beside.Close(), os.Remove(beside.Name()))
	}
	if cause := context.Cause(ctx); cause != nil && outer.Err() == nil {
		err = cause
	}
	if err == nil {
		err = record(outer, c)
	}
	if err != nil {
		if isComplete { // it may have its name, and no rebuild would use it
			err = errors.Join(err, s.dropCopy(c.Position))
		}
		return c, err
	}
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	s.copying.newest = c.Position
	return c, nil
}

// readInto writes the compressed file to w.
func (s *Store) readInto(ctx context.Context, w io.Writer) (c Copy, err error) {
	file, err := s.openFile()
	if err != nil {
		return c, err
	}
	p, err := s.pin(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, p.release()) }()
	sum := sha256.New()
	z, err := newCopyWriter(io.MultiWriter(w, sum))
	if err != nil {
		return c, err
	}
	if err := copyPieces(ctx, z, io.NewSectionReader(file, 0, p.bytes)); err != nil {
		return c, errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return c, err
	}
	return Copy{Position: p.applied, Schema: SchemaVersion, SHA256: hexOf(sum)}, nil
}

// newCopyWriter compresses at the fastest level, because the log grows while a copy is written.
func newCopyWriter(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// copyPieces copies r to w until ctx is done.
func copyPieces(ctx context.Context, w io.Writer, r io.Reader) error {
	for {
		_, err := io.CopyN(w, r, copyPiece)
		afterStep()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// pinned is a transaction that keeps the content of the file as it is.
type pinned struct {
	db      *sql.DB
	conn    *sql.Conn
	applied uint64
	bytes   int64 // size of the file
}

func (p *pinned) release() error {
	_, err := p.conn.ExecContext(context.Background(), "ROLLBACK")
	return errors.Join(err, p.conn.Close(), p.db.Close())
}

// pin begins a read transaction whose state is completely in the file. SQLite moves no page of a
// later commit from the log to the file until it ends. Appliers wait for pin, some milliseconds.
func (s *Store) pin(ctx context.Context) (*pinned, error) {
	if s.isPrivate {
		return nil, fmt.Errorf("%w: there is no disk space", ErrCopyStopped)
	}
	db, err := sql.Open("sqlite3", s.dsn("_busy_timeout=0&_cache_size=-64"))
	if err != nil {
		return nil, err
	}
	if _, _, err := s.moveLog(ctx, db); err != nil { // most pages, while appliers go on
		return nil, errors.Join(err, db.Close())
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	p := &pinned{db: db, conn: conn}
	for try := 1; ; try++ {
		err := s.tryPin(ctx, p)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, errNotMoved) || try == pinTries {
			return nil, errors.Join(err, conn.Close(), db.Close())
		}
		select {
		case <-time.After(pinRetry):
		case <-ctx.Done():
		}
	}
}

// tryPin begins the transaction and moves the log up to it. After an error there is no
// transaction.
func (s *Store) tryPin(ctx context.Context, p *pinned) (err error) {
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	writer, err := s.writer.Conn(ctx) // nothing is applied until it is closed
	if err != nil {
		return err
	}
	defer writer.Close() //nolint:errcheck // it returns the connection to the pool, and fails only if that was closed
	if _, err := p.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, rollback := p.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollback)
		}
	}()
	var pages, size int64
	if err := p.conn.QueryRowContext(ctx, "SELECT applied, (SELECT page_count FROM pragma_page_count), (SELECT page_size FROM pragma_page_size) FROM position").Scan(&p.applied, &pages, &size); err != nil {
		return err
	}
	p.bytes = pages * size
	var isBusy bool
	var logged, moved int
	if err := writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&isBusy, &logged, &moved); err != nil {
		return err
	}
	if isBusy || moved < logged {
		return errNotMoved
	}
	return nil
}

// openFile opens the file for reading beside SQLite. It stays open until Close: closing any
// descriptor of a file ends all locks that the process has on it, also those of SQLite.
func (s *Store) openFile() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		f, err := os.Open(s.opts.Path)
		if err != nil {
			return nil, err
		}
		s.file = f
	}
	return s.file, nil
}

// stopCopy stops the copy that is written, and waits until it reads no more.
func (s *Store) stopCopy(why string) {
	s.copying.mu.Lock()
	stop, released := s.copying.stop, s.copying.released
	s.copying.mu.Unlock()
	if stop != nil {
		stop(fmt.Errorf("%w: %s", ErrCopyStopped, why))
		<-released
	}
}

// dropCopies deletes the copies as of positions before an event that voids them, and the one that
// is written. The applier calls it before it commits the event: if the process ends between the
// two, the next one has no copy with erased content. A copy of a later position is one that a
// rebuild has not reached yet. Outside of a rebuild it is of another history, as after a ledger was
// set back, and can have the content too.
func (s *Store) dropCopies(before uint64) error {
	if s.opts.CopyDir == "" {
		return nil
	}
	s.stopCopy("content was erased, or events were lost")
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	if err := removeCopies(s.opts.CopyDir, func(position uint64) bool { return position < before || !s.isNew }); err != nil {
		return fmt.Errorf("%w: %w", errCopiesStay, err)
	}
	return nil
}

func (s *Store) dropCopy(position uint64) error {
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	return removeCopies(s.opts.CopyDir, func(p uint64) bool { return p == position })
}

// nameCopy gives a complete copy its name, unless ctx is done. It closes the file.
func (s *Store) nameCopy(ctx context.Context, beside *os.File, c Copy) error {
	s.copying.mu.Lock()
	defer s.copying.mu.Unlock()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), beside.Close(), os.Remove(beside.Name()))
	}
	err := durable.Replace(copyPath(s.opts.CopyDir, c.Position), beside, nil)
	afterStep()
	return err
}
