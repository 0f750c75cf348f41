package embed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
)

// checkedFiles is what is known of the stream files, so that a start need not read those that have not
// changed since. A stop records it, and a running server every few minutes, because it may be killed.
// The scrub reads all files of the ledger again and again: it finds bits that change on the disk.
type checkedFiles struct {
	Blocks streamfiles.Checked `json:"blocks"`
	// Checkpoint and Origin are those of fileScan for these blocks.
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Origin     string `json:"origin,omitempty"`
	// Archives are the archives in these blocks, all of them complete.
	Archives []archiveSummary `json:"archives,omitempty"`
}

// checkedName is the file of a data directory that holds the checkedFiles: a line with the SHA-256 of
// the JSON after it, in hex.
const checkedName = "checked-files"

// readChecked returns the recorded checkedFiles, or none if they are missing or cannot be trusted.
func readChecked(dataDir string) (c checkedFiles) {
	raw, err := os.ReadFile(filepath.Join(dataDir, checkedName))
	if err != nil {
		return c
	}
	sum, body, _ := bytes.Cut(raw, []byte("\n"))
	if string(sum) != hexSum(body) || json.Unmarshal(body, &c) != nil {
		return checkedFiles{}
	}
	return c
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// write replaces the record.
func (c checkedFiles) write(dataDir string) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dataDir, checkedName), append([]byte(hexSum(body)+"\n"), body...), 0o600)
}

// next returns the record after a check that began with c, and found streams and seen.
func (c checkedFiles) next(streams []streamfiles.Stream, seen *fileScan) checkedFiles {
	n := checkedFiles{Blocks: streamfiles.Checked{}, Checkpoint: seen.checkpoint, Origin: seen.origin}
	for _, s := range streams {
		n.Blocks[s.Name] = s.Checked
	}
	for _, s := range streams {
		if s.Name != stream.ArchiveStream {
			continue
		}
		// Archives that are in other blocks than the recorded ones would not be read again.
		complete := s.Blocks-s.Skipped == len(s.Checked)
		if complete {
			n.Archives, complete = seen.summaries()
		}
		if !complete {
			delete(n.Blocks, stream.ArchiveStream) // the next check reads it
		}
	}
	return n
}

// check checks the files that have changed since c was recorded. It returns the streams, and archived
// volumes as if they were streams. If the files of archives have changed, it reads all of these: what is
// recorded of an archive does not tell which of its parts are in which file.
func (c checkedFiles) check(ctx context.Context, dir string, opts streamfiles.Options, seen *fileScan) ([]streamfiles.Stream, error) {
	opts.Checked, opts.OnRecord, opts.OnDeleted = c.Blocks, seen.observe, seen.observeDeleted
	opts.Names = func(name string) bool { return name != stream.ArchiveStream }
	streams, err := streamfiles.Check(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	c.resume(streams, seen)
	opts.Names = func(name string) bool { return name == stream.ArchiveStream }
	archives, err := streamfiles.Check(ctx, dir, opts)
	if err != nil {
		return nil, err
	}
	switch recorded := c.Blocks[stream.ArchiveStream]; {
	case len(archives) == 0 || len(recorded) == 0:
	case archives[0].Blocks-archives[0].Skipped == len(recorded) && maps.EqualFunc(recorded, archives[0].Checked, sameBlock):
		seen.resumeArchives(c.Archives)
	default:
		opts.Checked = nil
		seen.forgetArchives()
		if archives, err = streamfiles.Check(ctx, dir, opts); err != nil {
			return nil, err
		}
	}
	return seen.withArchives(append(archives, streams...)), nil
}

func sameBlock(a, b streamfiles.CheckedBlock) bool { return a.Size == b.Size && a.ModTime == b.ModTime }

// resume adds the recorded checkpoint to seen if the block that holds it was not read again, because it
// has not changed.
func (c checkedFiles) resume(streams []streamfiles.Stream, seen *fileScan) {
	if c.Checkpoint <= seen.checkpoint {
		return
	}
	for _, s := range streams {
		if _, ledger := events.VolumeOf(s.Name); !ledger {
			continue
		}
		for name, b := range c.Blocks[s.Name] {
			now, found := s.Checked[name]
			if found && now.Size == b.Size && now.ModTime == b.ModTime && b.First <= c.Checkpoint && c.Checkpoint <= b.Last {
				seen.checkpoint, seen.origin = c.Checkpoint, c.Origin
			}
		}
	}
}

// checkNewFiles checks the stream files that have changed since the last check, and records the
// result. running says that the server uses the files.
func (d *Daybook) checkNewFiles(ctx context.Context, running bool) error {
	began, seen := time.Now(), newFileScan()
	if !running {
		streams, err := d.checked.check(ctx, d.streamsDir(), streamfiles.Options{}, seen)
		if err != nil {
			return err
		}
		return d.recordChecked(d.checked.next(streams, seen))
	}
	// Archives are checked at the stop: while the server runs, parts may be deleted.
	streams, err := streamfiles.Check(ctx, d.streamsDir(), streamfiles.Options{
		Names:   func(name string) bool { return name != stream.ArchiveStream },
		Checked: d.checked.Blocks, OnRecord: seen.observe, SkipNewest: true, Settle: d.store.Refresh, Pace: paceCheck,
	})
	if err != nil {
		return err
	}
	d.checked.resume(streams, seen)
	next := d.checked.next(streams, seen)
	next.Archives = d.checked.Archives
	next.forget(began.Add(-modTimeStep))
	if blocks := d.checked.Blocks[stream.ArchiveStream]; blocks != nil {
		next.Blocks[stream.ArchiveStream] = blocks
	}
	return d.recordChecked(next)
}

// checkRate limits how fast a running server checks files, in bytes per second.
const checkRate = 64 << 20

// paceCheck waits before a file of a size in bytes is checked.
func paceCheck(ctx context.Context, bytes int64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(bytes) * time.Second / checkRate):
		return nil
	}
}

// modTimeStep is more than the step of the time that a file system stores: a file that changes again
// within a step may keep its time.
const modTimeStep = 2 * time.Second

// forget removes the blocks that changed after a time.
func (c checkedFiles) forget(after time.Time) {
	for _, blocks := range c.Blocks {
		maps.DeleteFunc(blocks, func(_ string, b streamfiles.CheckedBlock) bool { return b.ModTime > after.UnixNano() })
	}
}

// recordChecked keeps the result of a check. It writes nothing if appended events need not be on disk,
// because files may then change in a power cut.
func (d *Daybook) recordChecked(c checkedFiles) error {
	d.checked = c
	if d.opts.NATS.NoSync {
		return nil
	}
	return c.write(d.opts.DataDir)
}

// checkFilesEvery is how often a running server checks the files that it has completed.
const checkFilesEvery = 5 * time.Minute

// startCheckingFiles starts to check completed files, so that a start after a crash need not read them.
func (d *Daybook) startCheckingFiles(ctx context.Context) error {
	if d.opts.NATS.URL != "" || d.damage.Damaged() {
		return nil
	}
	d.checkingFiles = startTask(ctx, func(ctx context.Context) {
		tick := time.NewTicker(checkFilesEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := d.checkNewFiles(ctx, true); err != nil && ctx.Err() == nil {
				d.opts.Logger.WarnContext(ctx, "the completed files of the streams could not be checked; a start after a crash reads them", "err", err)
			}
		}
	})
	return nil
}

// checkFilesAtStop checks the files that changed since the last check, after the NATS server has
// closed them.
func (d *Daybook) checkFilesAtStop() {
	if d.damage.Damaged() {
		return
	}
	if err := d.checkNewFiles(context.Background(), false); err != nil {
		d.opts.Logger.Warn("the files of the streams could not be checked; the next start reads them", slog.Any("error", err))
	}
}
