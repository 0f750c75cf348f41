package projections

import (
	"context"
	"errors"
	"fmt"
	"os"

	"daybook/events"
)

// errBuilt ends the feed of a rebuild.
var errBuilt = errors.New("built")

// Rebuild folds the ledger up to position last into a new file beside
// opts.Path, and swaps it in. No Store may have the path open. Whatever goes
// wrong, the old file stays as it was.
func Rebuild(ctx context.Context, opts Options, feed Feed, last uint64) error {
	beside := opts
	beside.Path = opts.Path + ".new"
	if err := removeFile(beside.Path); err != nil {
		return fmt.Errorf("rebuild projections: %w", err)
	}
	if err := build(ctx, beside, feed, last); err != nil {
		return fmt.Errorf("rebuild projections: %w", errors.Join(err, removeFile(beside.Path)))
	}
	if err := removeFile(opts.Path); err != nil {
		return fmt.Errorf("rebuild projections: %w", err)
	}
	if err := os.Rename(beside.Path, opts.Path); err != nil {
		return fmt.Errorf("rebuild projections: %w", err)
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
			if over := int(batch[len(batch)-1].Seq) - int(last); over > 0 {
				batch = batch[:len(batch)-over]
			}
			if err := s.Apply(ctx, batch); err != nil {
				return err
			}
			if s.Applied() >= last {
				return errBuilt
			}
			return nil
		})
		if !errors.Is(err, errBuilt) {
			return err
		}
	}
	// One file, so that a rename moves all of it.
	_, err = s.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}
