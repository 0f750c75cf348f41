package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"

	"daybook/events"
)

// errBuilt stops the feed when a rebuild is complete.
var errBuilt = errors.New("built")

// Prepare makes sure that the file at opts.Path is intact and has this schema version,
// so that Open need not rebuild it. Otherwise it calls Rebuild with the ledger up to
// position last. It reports whether it did.
func Prepare(ctx context.Context, opts Options, feed Feed, last uint64) (built bool, err error) {
	why, err := verifyChecksum(opts.Path)
	if err != nil {
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
	return true, Rebuild(ctx, opts, feed, last)
}

// Rebuild folds the ledger up to position last into a new file and then replaces the
// file at opts.Path with it. No Store may have that path open. If the ledger cannot be
// folded, the old file is unchanged. If content that was not shredded cannot be decrypted
// and Options.AllowLostKeys is not set, the old file is unchanged too, and the error is a
// *LostKeysError.
func Rebuild(ctx context.Context, opts Options, feed Feed, last uint64) error {
	newOpts := opts
	newOpts.Path = opts.Path + ".new"
	if err := removeFile(newOpts.Path); err != nil {
		return fmt.Errorf("rebuild projections: %w", err)
	}
	if err := build(ctx, newOpts, feed, last); err != nil {
		return fmt.Errorf("rebuild projections: %w", errors.Join(err, removeFile(newOpts.Path)))
	}
	if err := removeFile(opts.Path); err != nil {
		return fmt.Errorf("rebuild projections: %w", err)
	}
	// Not synced: if either file is missing, the next start rebuilds the projections.
	for _, suffix := range []string{"", checksumSuffix} {
		if err := os.Rename(newOpts.Path+suffix, opts.Path+suffix); err != nil {
			return fmt.Errorf("rebuild projections: %w", err)
		}
	}
	return nil
}

func build(ctx context.Context, opts Options, feed Feed, last uint64) (err error) {
	s, err := Open(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if last > 0 {
		err := feed.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			// Run applies the events after last.
			n, _ := slices.BinarySearchFunc(batch, last+1, func(e events.Event, seq uint64) int { return cmp.Compare(e.Seq, seq) })
			if err := s.Apply(ctx, batch[:n]); err != nil {
				return err
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
	// Move the log into the file, so that renaming the file moves all data.
	if _, err = s.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	return s.markOpen() // the checksum file is renamed with the file
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
	db, err := sql.Open("sqlite3", dsn(path, params))
	if err != nil {
		return 0
	}
	defer db.Close()
	var applied uint64
	if db.QueryRowContext(ctx, "SELECT applied FROM position").Scan(&applied) != nil {
		return 0
	}
	return applied
}

// Remove removes the file at path, if it exists; the next Prepare rebuilds it. No Store
// may have it open.
func Remove(path string) error { return removeFile(path) }
