// Package projections is the read side of Daybook: SQLite tables folded from
// the ledger's events, and the queries answered from them.
//
// The file holds nothing that cannot be rebuilt. The position applied is
// committed with the rows, so applying an event is exactly-once in effect. The
// write side never reads it.
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

	"github.com/mattn/go-sqlite3"

	"daybook/events"
)

// Texts fetches text that was too large for its event.
type Texts interface {
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// ErrBadQuery is wrapped by errors about a query's own parameters; their text
// names the parameter and the rule.
var ErrBadQuery = errors.New("bad query")

func badQuery(format string, args ...any) error { return badQueryError(fmt.Sprintf(format, args...)) }

type badQueryError string

func (e badQueryError) Error() string        { return string(e) }
func (e badQueryError) Is(target error) bool { return target == ErrBadQuery }

// Options set up a Store. Path is required.
type Options struct {
	// Path is the SQLite file. A missing one, or one of another schema version,
	// is begun anew: see Prepare for a way without a time of half-built answers.
	Path string
	// Full says that the disk is full: nothing is written that can wait, and SQLite
	// keeps the index of the log in memory unless another process has the file open. No
	// other process can then open it until Close. Open sets Full by itself where there is
	// no space.
	Full bool
	// Texts resolves large sources, results and errors; without it their
	// previews are shown.
	Texts Texts
	// Keys are those that the feed decrypts with, if any: without all that are
	// needed Prepare and Rebuild refuse, unless WithoutKeys is set.
	Keys        events.Keys
	WithoutKeys bool
	// Progress, if set, is called by Rebuild after each batch with the position
	// reached and the last one.
	Progress func(done, total uint64)
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// busyWait is how long a commit waits for another process, in milliseconds.
const busyWait = 10_000

// maxReaders is how many queries run at once.
const maxReaders = 8

// Store is a set of read models. It is safe for concurrent use: one Run
// applies events while any number of queries read.
type Store struct {
	opts   Options
	writer *sql.DB // one connection
	reader *sql.DB
	insert *statements
	opened bool // to its end, so that its file may be sealed
	// private is true while no other process can open the file: see inMemory.
	private bool
	// marked is true once the file beside says that this one is open. Without space
	// Open leaves that to the first Apply. It is Apply's, and Close's.
	marked bool
	// unscrubbed is true while the log may hold content that was erased. It is
	// Apply's, and Close's.
	unscrubbed bool
	// moving is held while pages are moved from the log, other than by a commit.
	moving sync.Mutex

	mu       sync.Mutex
	stats    Stats
	damage   error
	stalled  error         // why applying has stopped for now
	changed  chan struct{} // closed and replaced at every commit
	watchers watchers
	// endWatchers wait for ends only.
	endWatchers watchers
	unlogged    unlogged
	usages      map[string]Usage // by tenant, as of stats.Applied; not of all tenants
}

// Open opens or begins a file of read models. The caller closes the Store
// after its Run has returned.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Store{opts: opts, changed: make(chan struct{}), watchers: watchers{}, endWatchers: watchers{}, unlogged: unlogged{}}
	err := s.open(ctx)
	if err == nil {
		return s, nil
	}
	err = errors.Join(fmt.Errorf("open projections %s: %w", opts.Path, err), s.Close())
	if !opts.Full && noRoom(err) {
		opts.Full = true
		if s, full := Open(ctx, opts); full == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *Store) open(ctx context.Context) error {
	version, private, err := fileVersion(ctx, s.opts.Path, s.opts.Full)
	if err != nil {
		return err
	}
	s.private, s.opts.Full = private, s.opts.Full || private
	if version != SchemaVersion {
		if version != 0 {
			s.opts.Logger.InfoContext(ctx, "projections have another schema and are begun anew", "found", version, "want", SchemaVersion)
		}
		if err := removeFile(s.opts.Path); err != nil {
			return err
		}
	}
	// A commit lost in a power cut is applied again from the ledger, so
	// synchronous=NORMAL is enough.
	s.writer, err = sql.Open("sqlite3", s.dsn(fmt.Sprintf("_journal_mode=WAL&_synchronous=NORMAL&_busy_timeout=%d&_txlock=immediate&_cache_size=-32000&_secure_delete=on", busyWait)))
	if err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	// A process that died may have left content in the log that was erased.
	if s.opts.Full {
		s.unscrubbed = true // it is tried again with the next commit
	} else if busy, err := emptyLog(ctx, s.writer); err != nil {
		return fmt.Errorf("empty the log: %w", err)
	} else if busy {
		return fmt.Errorf("empty the log: another process reads the file %s; end it first", s.opts.Path)
	}
	if _, err := s.writer.ExecContext(ctx, schema+callSchema+agentSchema+contextSchema+logicalSchema); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	// Moving pages from the log to the file every 4 MB, the default, took a third
	// of the time of catching up with a large ledger; this is every 32 MB.
	if _, err := s.writer.ExecContext(ctx, "PRAGMA wal_autocheckpoint=8000"); err != nil {
		return err
	}
	if version != SchemaVersion { // else nothing is written, for which there may be no space
		if _, err := s.writer.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version=%d", SchemaVersion)); err != nil {
			return err
		}
	}
	mode := "mode=ro&"
	if s.private {
		mode = "" // a connection that may not write looks for the index in its file
	}
	if s.reader, err = sql.Open("sqlite3", s.dsn(mode+"_query_only=1&_busy_timeout=10000&_cache_size=-4000&_stmt_cache_size=32")); err != nil {
		return err
	}
	s.reader.SetMaxOpenConns(maxReaders)
	s.reader.SetMaxIdleConns(maxReaders)
	if s.insert, err = prepare(ctx, s.writer); err != nil {
		return err
	}
	if err := s.writer.QueryRowContext(ctx, "SELECT applied FROM position").Scan(&s.stats.Applied); err != nil {
		return err
	}
	s.stats.Known = s.stats.Applied
	if err := s.markOpen(); err != nil && (!s.opts.Full || !noRoom(err)) {
		return err
	}
	s.opened = true
	return nil
}

// inMemory lets SQLite keep the index of the log in memory instead of a file, for
// which a full disk has no space. All connections of the process must ask for it, and no
// other process can open the file meanwhile.
const inMemory = "vfs=unix-excl&"

// fileVersion reads the schema version of a file: 0 for a missing one and one
// whose creation was cut short. private says that the connections to the file should be
// inMemory, as on a full disk.
func fileVersion(ctx context.Context, path string, full bool) (version int, private bool, err error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, full, nil
	}
	if !full {
		if version, err = readVersion(ctx, path, "_busy_timeout=10000"); err == nil || !noRoom(err) {
			return version, false, err
		}
	}
	private = true
	version, err = readVersion(ctx, path, inMemory+"_busy_timeout=100")
	if se, ok := errors.AsType[sqlite3.Error](err); ok && se.Code == sqlite3.ErrBusy {
		// Another process has the file open, and with it the file of the index. A connection
		// that may write would move the log to the file at its end, which may grow by it.
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
	case outOfSpace(err):
		return 0, fmt.Errorf("read the schema version (free some space on the disk and keep the file): %w", err)
	case noRoom(err):
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return 0, fmt.Errorf("read the schema version (delete the file, and it is built again): %w", err)
}

// removeFile removes a file and then what belongs to it. In this order, what is
// left when it is cut short is a log without a file, which SQLite discards.
func removeFile(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", sumSuffix} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func dsn(path, params string) string {
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(path)}).String() + "?" + params
}

// dsn names the file for a connection of the Store.
func (s *Store) dsn(params string) string {
	if s.private {
		params = inMemory + params
	}
	return dsn(s.opts.Path, params)
}

// Close closes the file. Run must have returned.
func (s *Store) Close() error {
	var errs []error
	if s.insert != nil {
		errs = append(errs, s.insert.close())
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	if s.unscrubbed {
		err := s.scrub(context.Background())
		if noRoom(err) {
			s.opts.Logger.Warn("the disk is full; the log of the projections is emptied at the next start", "file", s.opts.Path, "err", err)
			s.unscrubbed, err = false, nil
		}
		errs = append(errs, err)
		if s.unscrubbed {
			errs = append(errs, fmt.Errorf("erased content is still in %s-wal: another process reads it; start the server again when it has ended", s.opts.Path))
		}
	}
	if s.writer != nil {
		errs = append(errs, s.writer.Close())
	}
	if s.opened && s.marked {
		err := sealFile(s.opts.Path)
		if noRoom(err) { // the mark stays, and the next Open takes the file as after a crash
			s.opts.Logger.Warn("the projections are closed without a hash beside them", "file", s.opts.Path, "err", err)
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Applied is the position of the last event applied.
func (s *Store) Applied() uint64 {
	return s.Stats().Applied
}

// Stats is how far the applier has come; asking costs nothing.
type Stats struct {
	// Applied is the position of the last event applied, Known that of the
	// newest event the feed has told of.
	Applied, Known uint64
	// Events and Commits count since Open.
	Events, Commits uint64
}

// Lag is the number of events known and not applied yet.
func (s Stats) Lag() uint64 { return s.Known - s.Applied }

// Stats returns how far Run has come.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Changed returns a channel that is closed at the next commit.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Damage is what stopped Run for good, or nil. What was applied before can
// still be read.
func (s *Store) Damage() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}

// Stalled is why Run cannot apply anything now, an *events.UnwritableError, or
// nil. It tries again by itself.
func (s *Store) Stalled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled
}

// Wait returns once the event at seq is applied. It returns the damage when
// that can never be, what Stalled tells when it cannot be now, or ctx's error.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		applied, damage, stalled, changed := s.stats.Applied, s.damage, s.stalled, s.changed
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
	applied := batch[len(batch)-1].Seq
	s.stats.Applied, s.stats.Known = applied, max(s.stats.Known, applied)
	s.stats.Events += uint64(len(batch))
	s.stats.Commits++
	s.stalled = nil
	s.addUsage(a)
	s.wake()
	s.unlogged.note(a.log)
	s.watchers.tell(batch)
	s.endWatchers.tellEnds(batch)
}

// known remembers how far the ledger is known to reach.
func (s *Store) known(last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Known = max(s.stats.Known, last)
}

// Stop makes Damage tell what keeps answers from being whole: it stopped Run for
// good, or Run was not even begun.
func (s *Store) Stop(damage error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damage = damage
	s.wake()
	s.watchers.tellAll()
	s.endWatchers.tellAll()
}

// wake is called with mu held.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func notFound(what, id string) error { return fmt.Errorf("%s %q: %w", what, id, events.ErrNotFound) }
