package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"daybook/events"
)

const (
	// newSuffix is the end of the name of the file that a rebuild writes.
	newSuffix = ".new"
	// comparedSuffix is the end of the name of the file in which a copy is restored to be compared.
	comparedSuffix = ".compared"
)

// errBuilt stops the feed when a rebuild is complete.
var errBuilt = errors.New("built")

// Prepare makes sure that the file at opts.Path is intact and has this schema version,
// so that Open need not rebuild it. Otherwise it calls Rebuild with the ledger up to
// position last. It reports whether it did.
func Prepare(ctx context.Context, opts Options, feed Feed, last uint64) (built bool, err error) {
	why, err := verifyChecksum(opts.Path)
	// An interrupted rebuild may have left content that is erased later.
	if err := errors.Join(err, removeFile(opts.Path+newSuffix), removeFile(opts.Path+comparedSuffix)); err != nil {
		return false, fmt.Errorf("prepare projections %s: %w", opts.Path, err)
	}
	if why == "" || why == missingChecksum {
		// A file without a checksum may be another program's database. fileVersion then
		// fails, and the file is not overwritten.
		version, _, err := fileVersion(ctx, opts.Path, opts.DiskFull)
		if err != nil {
			return false, fmt.Errorf("prepare projections %s: %w", opts.Path, err)
		}
		if version == SchemaVersion && why == "" {
			return false, nil
		}
	}
	if why != "" && opts.Logger != nil {
		opts.Logger.WarnContext(ctx, "the projections file is not trusted and is rebuilt", "file", opts.Path, "why", why)
	}
	from, err := Rebuild(ctx, opts, feed, last)
	if err == nil && from > 0 {
		loggerOf(opts).InfoContext(ctx, "the rebuild of the projections began with a copy", "position", from)
	}
	return true, err
}

// Rebuild folds the ledger up to position last into a new file and then replaces the
// file at opts.Path with it. It begins with the newest usable copy in opts.CopyDir, whose position
// it returns, or with the first event and returns 0. No Store may have that path open. If the
// ledger cannot be folded, the old file is unchanged. If content that was not shredded cannot be
// decrypted and Options.AllowLostKeys is not set, the old file is unchanged too, and the error is a
// *LostKeysError. With AllowLostKeys, Rebuild uses no copy and deletes all, because they can have
// the content.
func Rebuild(ctx context.Context, opts Options, feed Feed, last uint64) (from uint64, err error) {
	from, err = rebuild(ctx, opts, feed, last)
	if err != nil {
		return 0, fmt.Errorf("rebuild projections: %w", err)
	}
	return from, nil
}

func rebuild(ctx context.Context, opts Options, feed Feed, last uint64) (from uint64, err error) {
	newOpts, err := newFile(opts)
	if err != nil {
		return 0, err
	}
	if opts.AllowLostKeys {
		if err := errors.Join(RemoveCopies(opts.CopyDir), build(ctx, newOpts, 0, feed, last, nil)); err != nil {
			return 0, errors.Join(err, removeFile(newOpts.Path))
		}
		return 0, replaceFile(opts.Path, newOpts.Path)
	}
	copies, err := usableCopies(ctx, opts, last)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		loggerOf(opts).WarnContext(ctx, "projection copies cannot be used; the rebuild begins with the first event", "err", err)
	}
	for _, c := range copies {
		err := restoreCopy(ctx, opts.CopyDir, c, newOpts.Path)
		if err == nil {
			if err = build(ctx, newOpts, c.position, feed, last, nil); err == nil {
				return c.position, replaceFile(opts.Path, newOpts.Path)
			}
			err = errors.Join(err, removeFile(newOpts.Path))
		}
		if !isOfCopy(ctx, err) {
			return 0, err
		}
		loggerOf(opts).WarnContext(ctx, "a projection copy cannot be used; the rebuild begins earlier", "position", c.position, "err", err)
	}
	if err := build(ctx, newOpts, 0, feed, last, nil); err != nil {
		return 0, errors.Join(err, removeFile(newOpts.Path))
	}
	return 0, replaceFile(opts.Path, newOpts.Path)
}

// isOfCopy reports whether a rebuild that began with a copy may have failed because of the copy.
func isOfCopy(ctx context.Context, err error) bool {
	_, isLostKey := errors.AsType[*LostKeysError](err)
	return ctx.Err() == nil && !isLostKey && !errors.Is(err, events.ErrDamaged) && !isUnwritable(err)
}

func loggerOf(opts Options) *slog.Logger {
	if opts.Logger == nil {
		return slog.Default()
	}
	return opts.Logger
}

// newFile returns the options of the file that a rebuild writes. The file does not exist, and what
// an interrupted rebuild left is removed, because it may have content that this one erases.
func newFile(opts Options) (Options, error) {
	err := removeFile(opts.Path + comparedSuffix)
	opts.Path += newSuffix
	return opts, errors.Join(err, removeFile(opts.Path))
}

// replaceFile replaces a file with a new one that was built.
func replaceFile(path, built string) error {
	if err := syncFile(built); err != nil {
		return errors.Join(err, removeFile(built))
	}
	if err := removeFile(path); err != nil {
		return err
	}
	// The names are not synced: if either file is missing, the next start rebuilds the projections.
	for _, suffix := range []string{"", checksumSuffix} {
		if err := os.Rename(built+suffix, path+suffix); err != nil {
			return err
		}
		afterStep()
	}
	return nil
}

// syncFile syncs a new file. A rebuild syncs nothing before, and once the file is in use, a
// power cut may leave only what was synced.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// build applies the events up to last to a new file. The file has those up to from already, or
// does not exist and from is 0. If compareAt is not nil, build calls it after each batch, and
// applies no batch beyond the position that it returned.
func build(ctx context.Context, opts Options, from uint64, feed Feed, last uint64, compareAt func(*Store) (next uint64, err error)) (err error) {
	s, err := openStore(ctx, opts, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if from == 0 {
		if err := s.dropIndexes(ctx); err != nil {
			return err
		}
	}
	next := last
	if compareAt != nil {
		if next, err = compareAt(s); err != nil {
			return err
		}
	}
	if s.Applied() < last {
		err := feed.Follow(ctx, from, func(batch []events.Event, _ uint64) error {
			for len(batch) > 0 && batch[0].Seq <= last { // Run applies the events after last
				n, _ := slices.BinarySearchFunc(batch, min(next, last)+1, func(e events.Event, seq uint64) int { return cmp.Compare(e.Seq, seq) })
				n = max(n, 1) // no event may be left at next
				if err := s.Apply(ctx, batch[:n]); err != nil {
					return err
				}
				batch = batch[n:]
				if compareAt == nil {
					continue
				}
				if next, err = compareAt(s); err != nil {
					return err
				}
			}
			if opts.Progress != nil {
				opts.Progress(s.Applied(), last)
			}
			if s.Applied() >= last {
				return errBuilt
			}
			return nil
		})
		switch {
		case err == nil:
			return fmt.Errorf("the events of the ledger end at %d, before %d", s.Applied(), last)
		case !errors.Is(err, errBuilt):
			return err
		}
	}
	if !opts.AllowLostKeys {
		lost, err := findLostKeys(ctx, s.writer, opts.Keys)
		if err != nil {
			return err
		}
		if lost != nil {
			return lost
		}
	}
	if err := s.createIndexes(ctx); err != nil {
		return err
	}
	// The mode that Open uses is recorded in the file. Close leaves no log.
	if _, err = s.writer.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	return s.markOpen() // the checksum file is renamed with the file
}

// dropIndexes drops the readIndexes of a new file.
func (s *Store) dropIndexes(ctx context.Context) error {
	for _, name := range readIndexes {
		if _, err := s.writer.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return fmt.Errorf("drop index %s: %w", name, err)
		}
	}
	s.withoutIndexes = true
	return nil
}

// createIndexes creates the indexes that dropIndexes dropped.
func (s *Store) createIndexes(ctx context.Context) error {
	if !s.withoutIndexes {
		return nil
	}
	if _, err := s.writer.ExecContext(context.WithoutCancel(ctx), completeSchema); err != nil {
		return fmt.Errorf("create indexes: %w", err)
	}
	s.withoutIndexes = false
	return ctx.Err()
}

// needsIndexes reports whether applying an event uses the readIndexes.
func needsIndexes(e events.Event) bool {
	return e.Type == events.TypeOf(&events.LedgerVolumeRemoved{}) && !e.Kept()
}

// AppliedIn returns the position of the last event that is applied in the file at path,
// or 0 if the file is missing, not intact or of another schema version. It is a lower
// bound for the length of a ledger that has lost its end.
func AppliedIn(ctx context.Context, path string) uint64 {
	if why, err := verifyChecksum(path); why != "" || err != nil {
		return 0
	}
	version, private, err := fileVersion(ctx, path, false)
	if err != nil || version != SchemaVersion {
		return 0
	}
	params := "mode=ro&_busy_timeout=10000"
	if private {
		params = memoryIndexVFS + "_busy_timeout=10000"
	}
	applied, err := readApplied(ctx, path, params)
	if err != nil {
		return 0
	}
	return applied
}

// readApplied returns the position of the last event that is applied in a file.
func readApplied(ctx context.Context, path, params string) (applied uint64, err error) {
	db, err := sql.Open("sqlite3", dsn(path, params))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SELECT applied FROM position").Scan(&applied)
	return applied, err
}

// Remove removes the file at path, if it exists; the next Prepare rebuilds it. No Store
// may have it open.
func Remove(path string) error { return removeFile(path) }
