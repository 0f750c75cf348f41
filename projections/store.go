package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
	"daybook/internal/resources/cmemory"
)

// Texts reads texts that are too large for an event.
type Texts interface {
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// ErrBadQuery is matched by errors about the parameters of a query. Their text names
// the parameter and the rule.
var ErrBadQuery = errors.New("bad query")

func badQuery(format string, args ...any) error { return badQueryError(fmt.Sprintf(format, args...)) }

type badQueryError string

func (e badQueryError) Error() string        { return string(e) }
func (e badQueryError) Is(target error) bool { return target == ErrBadQuery }

// Options configures a Store. Path is required.
type Options struct {
	// Path is the SQLite file. If it is missing or has another schema version, Open
	// creates an empty one and Run fills it. Use Prepare before Open to avoid
	// incomplete results.
	Path string
	// DiskFull avoids all writes that can wait, and lets SQLite keep the index of its
	// log in memory unless another process has the file open. No other process can then
	// open the file until Close. Open sets it automatically if there is no space.
	DiskFull bool
	// Texts reads large sources, results and errors. Default: their previews are
	// returned.
	Texts Texts
	// Keys are the content keys that the feed decrypts with. If a key is missing,
	// Prepare and Rebuild fail with a *LostKeysError unless AllowLostKeys is set.
	Keys          events.Keys
	AllowLostKeys bool
	// CopyDir is the directory of the projection copies; see WriteCopy. Applying deletes the
	// copies there whose content is erased. Default: there are no copies.
	CopyDir string
	// RecordedCopies returns the copies that the ledger records, of all servers. Prepare and
	// Rebuild begin with the newest one in CopyDir that matches its recorded hash. Default: they
	// begin with the first event.
	RecordedCopies func(context.Context) ([]Copy, error)
	// Progress, if set, is called by Rebuild after each batch with the position of the
	// last applied event and the last position.
	Progress func(done, total uint64)
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// busyTimeoutMillis is how long a commit waits for another process, in milliseconds.
const busyTimeoutMillis = 10_000

// maxReaders is the number of queries that run at once.
const maxReaders = 8

// Store holds the projections. It is safe for concurrent use: one Run applies events
// while any number of queries read.
type Store struct {
	opts   Options
	writer *sql.DB // one connection
	reader *sql.DB
	stmts  *statements
	isOpen bool // open is complete, so Close may write the checksum
	// isPrivate is true while no other process can open the file; see memoryIndexVFS.
	isPrivate bool
	// isMarkedOpen is true when the checksum file holds the mark that this file is
	// open. Without space, Open leaves that to the first Apply. Used by Apply and
	// Close.
	isMarkedOpen bool
	// closed describes the file as it was closed, if it has not changed since. Used by open and Run.
	closed closedFile
	// compared is closed when Run has compared the file with closed, if that could be done.
	compared     chan struct{}
	noteCompared func()
	// isNew is true in a rebuild: no query reads the file before it is complete, and if that fails
	// the file is removed. withoutIndexes is true while it has no readIndexes.
	isNew, withoutIndexes bool
	// isChanged is true after Run found that the file does not match its checksum.
	isChanged atomic.Bool
	// needsScrub is true while the log may hold erased content. Used by Apply and
	// Close.
	needsScrub bool
	// states holds executions in progress as their rows are, so that later batches need not
	// read them. Used by Apply.
	states  map[executionKey]*executionState
	copying copying
	// checkpointMu is held while pages are moved from the log other than by a commit.
	checkpointMu sync.Mutex

	mu         sync.Mutex
	applied    uint64 // position of the last applied event
	events     uint64 // number of events applied since Open
	damage     error
	stallError error         // why no event can be applied now
	commitCh   chan struct{} // closed and replaced at every commit
	watchers   watchers
	// endWatchers wait for ends only.
	endWatchers    watchers
	pendingEntries pendingEntries
	usages         map[string]Usage // by tenant, as of applied; some tenants are missing
	file           *os.File         // for reading beside SQLite; nil until openFile
}

// Open opens the file of a Store, or creates it. The caller MUST call Close after Run
// has returned.
func Open(ctx context.Context, opts Options) (*Store, error) { return openStore(ctx, opts, false) }

func openStore(ctx context.Context, opts Options, isNew bool) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Store{opts: opts, isNew: isNew, compared: make(chan struct{}), commitCh: make(chan struct{}), watchers: watchers{}, endWatchers: watchers{}, pendingEntries: pendingEntries{}}
	s.noteCompared = sync.OnceFunc(func() { close(s.compared) })
	err := s.open(ctx)
	if err == nil {
		return s, nil
	}
	err = errors.Join(fmt.Errorf("open projections %s: %w", opts.Path, err), s.Close())
	if !opts.DiskFull && isUnwritable(err) {
		opts.DiskFull = true
		if s, full := openStore(ctx, opts, isNew); full == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *Store) open(ctx context.Context) error {
	version, private, err := fileVersion(ctx, s.opts.Path, s.opts.DiskFull)
	if err != nil {
		return err
	}
	s.isPrivate, s.opts.DiskFull = private, s.opts.DiskFull || private
	if version != SchemaVersion {
		if version != 0 {
			s.opts.Logger.InfoContext(ctx, "the projections file has another schema version and is rebuilt", "found", version, "want", SchemaVersion)
		}
		if err := removeFile(s.opts.Path); err != nil {
			return err
		}
	}
	if err := makePrivate(s.opts.Path); err != nil && !s.opts.DiskFull {
		return err
	}
	// A commit that is lost in a power cut is applied again from the ledger, so
	// synchronous=NORMAL is enough.
	mode := "_journal_mode=WAL&_synchronous=NORMAL&_cache_size=-32000"
	if s.isNew {
		mode = "_journal_mode=OFF&_synchronous=OFF&_locking_mode=EXCLUSIVE&_cache_size=-64000"
	}
	s.writer, err = sql.Open("sqlite3", s.dsn(fmt.Sprintf("%s&_busy_timeout=%d&_txlock=immediate&_secure_delete=on", mode, busyTimeoutMillis)))
	if err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	// A process that was killed may have left erased content in the log.
	if s.opts.DiskFull {
		s.needsScrub = true // the next commit tries again
	} else if busy, err := truncateLog(ctx, s.writer); err != nil {
		return fmt.Errorf("empty the log: %w", err)
	} else if busy {
		return fmt.Errorf("empty the log: another process is reading the file %s; stop that process first", s.opts.Path)
	}
	if _, err := s.writer.ExecContext(ctx, completeSchema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	// Commits move pages from the log to the file every 32 MB. The default of 4 MB took a
	// third of the time of catching up with a large ledger.
	if _, err := s.writer.ExecContext(ctx, "PRAGMA wal_autocheckpoint=8000"); err != nil {
		return err
	}
	if version != SchemaVersion { // otherwise nothing is written, for which there may be no space
		if _, err := s.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version=%d", SchemaVersion)); err != nil {
			return err
		}
	}
	readMode := "mode=ro&"
	if s.isPrivate {
		readMode = "" // a read-only connection would look for the index of the log in a file
	}
	if s.reader, err = sql.Open("sqlite3", s.dsn(readMode+"_query_only=1&_busy_timeout=10000&_cache_size=-4000&_stmt_cache_size=32")); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(maxReaders)
	s.reader.SetMaxIdleConns(maxReaders)
	if err = s.prepareWriter(ctx); err != nil {
		return err
	}
	if err := s.writer.QueryRowContext(ctx, "SELECT applied FROM position").Scan(&s.applied); err != nil {
		return err
	}
	if closed, _, err := readChecksumFile(s.opts.Path); err == nil {
		if unchanged, err := closed.isUnchanged(s.opts.Path); err == nil && unchanged {
			s.closed = closed
		}
	}
	if err := s.markOpen(); err != nil && (!s.opts.DiskFull || !isUnwritable(err)) {
		return err
	}
	s.isOpen = true
	return nil
}

// prepareWriter prepares the statements of the applier.
func (s *Store) prepareWriter(ctx context.Context) error {
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(conn.Raw(func(c any) error {
		s.stmts, err = prepare(ctx, c.(writerConn))
		return err
	}), conn.Close())
}

// memoryIndexVFS is the connection parameter that makes SQLite keep the index of the
// log in memory. A full disk has no space for the index file. All connections of the
// process must use it, and no other process can then open the file.
const memoryIndexVFS = "vfs=unix-excl&"

// makePrivate lets only the user of this process read the projections, which hold all content: other
// users may be able to open the directory. SQLite gives its log and the index of the log the mode of
// the file.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // earlier versions created them for all users
		if err := os.Chmod(path+suffix, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fileVersion returns the schema version of a file: 0 for a missing file and for one
// whose creation was interrupted. private reports whether connections to the file must
// use memoryIndexVFS, as on a full disk.
func fileVersion(ctx context.Context, path string, full bool) (version int, private bool, err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, full, nil
	}
	if !full {
		if version, err = readVersion(ctx, path, "_busy_timeout=10000"); err == nil || !isUnwritable(err) {
			return version, false, err
		}
	}
	private = true
	version, err = readVersion(ctx, path, memoryIndexVFS+"_busy_timeout=100")
	if se, ok := errors.AsType[sqlite3.Error](err); ok && se.Code == sqlite3.ErrBusy {
		// Another process has the file open and keeps the index of the log in a file, so
		// this connection need not. It is read-only, because a connection that may write
		// moves the log to the file when it is closed, and the file may then grow.
		version, err = readVersion(ctx, path, "mode=ro&_busy_timeout=10000")
		private = false
	}
	return version, private, err
}

func readVersion(ctx context.Context, path, params string) (version int, err error) {
	db, err := sql.Open("sqlite3", dsn(path, params))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	switch {
	case err == nil:
		return version, nil
	case isOutOfSpace(err):
		return 0, fmt.Errorf("read the schema version (free disk space and keep the file): %w", err)
	case isUnwritable(err):
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return 0, fmt.Errorf("read the schema version (delete the file to rebuild it): %w", err)
}

// removeFile removes a file and then the files that belong to it. If it is interrupted,
// this order leaves a log without a file, which SQLite discards.
func removeFile(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", checksumSuffix} {
		switch err := os.Remove(path + suffix); {
		case err == nil:
			afterStep()
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
	}
	return nil
}

func dsn(path, params string) string {
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(path)}).String() + "?" + params
}

// dsn returns the data source name of the file for a connection of the Store.
func (s *Store) dsn(params string) string {
	if s.isPrivate {
		params = memoryIndexVFS + params
	}
	return dsn(s.opts.Path, params)
}

// Close closes the file. Run MUST have returned.
func (s *Store) Close() error {
	var errs []error
	if s.stmts != nil {
		errs = append(errs, s.stmts.close())
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.needsScrub {
		err := s.scrub(context.Background())
		if isUnwritable(err) {
			s.opts.Logger.Warn("cannot empty the log of the projections; the next start tries again", "file", s.opts.Path, "err", err)
			s.needsScrub, err = false, nil
		}
		errs = append(errs, err)
		if s.needsScrub {
			errs = append(errs, fmt.Errorf("erased content is still in %s-wal: another process is reading it; stop that process and restart the server", s.opts.Path))
		}
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.file != nil { // after all connections, which would lose their locks
		errs = append(errs, s.file.Close())
	}
	if s.isOpen && s.isMarkedOpen {
		var err error
		if s.isChanged.Load() {
			err = writeChecksumFile(s.opts.Path, changedMark)
		} else {
			err = writeChecksum(s.opts.Path)
		}
		if isUnwritable(err) { // the mark stays, and the next Open treats the file as after a crash
			s.opts.Logger.Warn("the projections file was closed without a checksum", "file", s.opts.Path, "err", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Applied returns the position of the last applied event.
func (s *Store) Applied() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// appliedEvents returns the number of events applied since Open.
func (s *Store) appliedEvents() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// NextCommit returns a channel that is closed at the next commit.
func (s *Store) NextCommit() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commitCh
}

// Damage returns the damage that stopped Run permanently, or nil. Events that were
// applied before can still be read.
func (s *Store) Damage() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

// StallError returns why Run cannot apply events now, as an *events.UnwritableError, or
// nil. Run retries automatically.
func (s *Store) StallError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stallError
}

// Wait blocks until the event at seq is applied and then returns nil. It returns the
// damage if the event can never be applied, the error of StallError if it cannot be
// applied now, or ctx's error.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		applied, damage, stalled, changed := s.applied, s.damage, s.stallError, s.commitCh
		s.mu.Unlock()
		switch {
		case applied >= seq:
			return nil
		case damage != nil:
			return damage
		case stalled != nil:
			return stalled
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// advance publishes a commit and wakes the callers that wait for one.
func (s *Store) advance(batch []events.Event, a *applier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = batch[len(batch)-1].Seq
	s.events += uint64(len(batch))
	s.stallError = nil
	s.addUsage(a)
	s.wake()
	s.pendingEntries.applyChanges(a.logChanges)
	s.watchers.signalBatch(batch)
	s.endWatchers.signalEnds(batch)
}

// SetDamage sets the error of Damage: results are incomplete because Run stopped
// permanently or was never started.
func (s *Store) SetDamage(damage error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage = damage
	s.wake()
	s.watchers.signalAll()
	s.endWatchers.signalAll()
}

// wake wakes the callers that wait for a commit. The caller must hold mu.
func (s *Store) wake() {
	close(s.commitCh)
	s.commitCh = make(chan struct{})
}

func notFound(what, id string) error { return fmt.Errorf("%s %q: %w", what, id, events.ErrNotFound) }

// ReleaseMemory returns the memory of SQLite's page caches to the operating system.
// Queries in progress keep theirs. It is safe for concurrent use.
func (s *Store) ReleaseMemory() {
	// A closed connection frees all its memory; the next query opens another one.
	s.reader.SetMaxIdleConns(0)
	s.reader.SetMaxIdleConns(maxReaders)
	// An error means that the file cannot be read. The next query reports that.
	_, _ = s.writer.Exec("PRAGMA shrink_memory")
	cmemory.GiveBack()
}
