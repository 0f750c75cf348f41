package retention

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"daybook/events"
)

// Pass is a request for one pass.
type Pass struct {
	Rule Rule
	// Tenant limits the pass to one tenant. Empty means all tenants.
	Tenant string
	// DryRun makes the pass report its decisions without recording or deleting
	// anything.
	DryRun bool
	Actor  events.Actor
}

// Report is the result of a pass. In a dry run it counts what the pass would have done.
type Report struct {
	// Heaps is the number of stored heaps that the pass checked. Collected is the
	// number of heaps that the rule collected, and Bytes is their size before
	// compression.
	Heaps     int   `json:"heaps" doc:"Number of stored heaps that the pass checked."`
	Collected int   `json:"collected" doc:"Number of heaps that the rule collected."`
	Bytes     int64 `json:"bytes" doc:"Size of the collected heaps before compression, in bytes."`
	// Finished counts deleted blobs of heaps whose collection was recorded by an
	// earlier pass.
	Finished int `json:"finished" doc:"Number of heaps collected by earlier passes whose content was still stored."`
	// Orphans counts deleted blobs that no event names.
	Orphans int `json:"orphans" doc:"Number of contents that no event names, stored more than an hour ago."`
	// Chunks is the number of freed chunks, of up to 512 KiB each.
	Chunks uint64 `json:"chunks" doc:"Number of freed chunks of up to 512 KiB."`
	// Decided is the position of the last event that the decision is based on.
	Decided uint64 `json:"decided" doc:"Position of the last event that the decision is based on."`
	DryRun  bool   `json:"dry_run" doc:"Whether the pass only reported its decisions."`
	// List holds the first 1000 collected heaps, longest unused first.
	List []Collected `json:"list" doc:"The first 1000 collected heaps, longest unused first."`
}

// Collected is a heap that a pass collected, or would collect.
type Collected struct {
	Tenant  string `json:"tenant"`
	Heap    string `json:"heap"`
	Size    int64  `json:"size"`
	LastUse string `json:"last_use" format:"date-time"`
	// Seq is the position of the event, or 0 in a dry run.
	Seq uint64 `json:"seq,omitempty" doc:"Position of the event that says so."`
}

// maxListed bounds Report.List.
const maxListed = 1000

// collectBatch is the number of heaps whose collection is recorded before their blobs are deleted.
const collectBatch = 10_000

// readBatch is the number of events per read.
const readBatch = 1000

// candidate is a heap that the rule collects.
type candidate struct {
	Collected
	// producedAt and used are those of the heap.
	producedAt uint64
	used       int64
	event      events.HeapCollected
	blob       events.BlobInfo
}

// Collect makes one pass: it reads the ledger, decides, records the collected heaps and
// deletes their blobs. It returns ErrBusy if another pass runs. If a pass is
// interrupted, the next one completes its recorded deletions.
func (s *Service) Collect(ctx context.Context, p Pass) (Report, error) {
	if err := p.Rule.Check(); err != nil {
		return Report{}, err
	}
	select {
	case <-s.sem:
		defer func() { s.sem <- struct{}{} }()
	default:
		return Report{}, ErrBusy
	}
	// List the blobs before reading the events. A blob that is stored in between is not
	// in the list, and RemoveBlob does not remove one that was stored again since.
	f := newHeapState(p.Rule.KeepEntries)
	now := s.opts.Now()
	stored := newStoredBlobs()
	defer stored.close()
	heaps := 0
	err := s.opts.Blobs.StoredBlobs(ctx, func(b events.BlobInfo) error {
		if p.Tenant != "" && b.Tenant != p.Tenant {
			return nil
		}
		if b.Heap {
			heaps++
		}
		return stored.add(f.key(b.Tenant, b.SHA256), b, now.Sub(b.StoredAt) > orphanAge)
	})
	if err != nil {
		return Report{}, fmt.Errorf("collect heaps: %w", err)
	}
	last, err := s.read(ctx, f, stored)
	if err != nil {
		return Report{}, fmt.Errorf("collect heaps: %w", err)
	}
	report := Report{Heaps: heaps, Decided: last, DryRun: p.DryRun, List: []Collected{}}
	due, err := s.decide(f, p, stored, now)
	if err != nil {
		return report, fmt.Errorf("collect heaps: %w", err)
	}
	defer due.close()
	err = due.each(f, stored, s.batch, func(list []candidate) error {
		for i := range list {
			list[i].prepare(p, last)
		}
		if !p.DryRun {
			var err error
			if list, err = s.collect(ctx, list); err != nil {
				report.add(list)
				return err
			}
		}
		report.add(list)
		if p.DryRun {
			return nil
		}
		return s.removeCollected(ctx, list)
	})
	if err == nil {
		err = s.removeRest(ctx, f, p, stored, due.unfinished, now, &report)
	}
	if err != nil {
		return report, fmt.Errorf("collect heaps: %w", err)
	}
	return report, nil
}

// add counts collected heaps.
func (r *Report) add(list []candidate) {
	for _, c := range list {
		r.Collected++
		r.Bytes += c.Size
		if len(r.List) < maxListed {
			r.List = append(r.List, c.Collected)
		}
	}
}

// read applies the events of the ledger to f, and marks the blobs that the events name.
func (s *Service) read(ctx context.Context, f *heapState, stored *storedBlobs) (last uint64, err error) {
	return readAll(ctx, s.opts.Feed, func(m events.Stored) error {
		if stored.unnamed > 0 {
			forEachHash(m.Body, stored.markNamed)
		}
		if err := stored.err(); err != nil {
			return err
		}
		return f.take(m)
	})
}

// forEachHash calls fn with each run of exactly 64 lowercase hex characters in a payload.
// Events of all versions name blobs in this form.
func forEachHash(payload []byte, fn func([32]byte)) {
	var hash [32]byte
	n := 0
	for i := 0; i <= len(payload); i++ {
		if i < len(payload) && (payload[i] >= '0' && payload[i] <= '9' || payload[i] >= 'a' && payload[i] <= 'f') {
			n++
			continue
		}
		if n == 64 {
			_, _ = hex.Decode(hash[:], payload[i-64:i]) // the loop checked the digits
			fn(hash)
		}
		n = 0
	}
}

// readAll calls fn with each event that the ledger holds at the time of the call, and
// returns the position of the last one.
func readAll(ctx context.Context, feed Feed, fn func(events.Stored) error) (last uint64, err error) {
	return readAfter(ctx, feed, 0, fn)
}

// readAfter is readAll for the events after a position.
func readAfter(ctx context.Context, feed Feed, after uint64, fn func(events.Stored) error) (last uint64, err error) {
	if last, err = feed.LastSeq(ctx); err != nil {
		return 0, err
	}
	for after < last {
		batch, err := feed.ReadRaw(ctx, after, readBatch)
		if err != nil {
			return 0, err
		}
		if len(batch) == 0 {
			return 0, fmt.Errorf("the ledger ends at %d, before %d: %w", after, last, events.ErrDamaged)
		}
		for _, m := range batch {
			if after = m.Seq; after > last {
				break
			}
			if err := fn(m); err != nil {
				return 0, err
			}
		}
	}
	return last, nil
}

// decide returns the heaps that the rule collects, and the blobs of collected heaps that are still
// stored. The caller MUST close the result.
func (s *Service) decide(f *heapState, p Pass, stored *storedBlobs, now time.Time) (*dueHeaps, error) {
	before := now.Add(-p.Rule.OlderThan).UnixMilli()
	ofKept := f.heapsOfKept(before)
	due := newDueHeaps()
	for k, h := range f.heaps {
		b, ok := stored.get(f, k, true)
		if !ok || now.Sub(b.StoredAt) < MinAge {
			continue // not stored, or within the grace period of a new or pinned blob
		}
		switch {
		case h.collected > h.producedAt && b.StoredAt.UnixMilli() <= h.collectedAt:
			due.unfinished = append(due.unfinished, b)
		case h.exists() && !h.isKept(before) && !ofKept[h]:
			if err := due.add(k, h.used); err != nil {
				due.close()
				return nil, err
			}
		}
	}
	return due, cmp.Or(stored.err(), due.sort())
}

// prepare sets the event that records the collection.
func (c *candidate) prepare(p Pass, decided uint64) {
	c.event = events.HeapCollected{
		Heap: c.Heap, Rule: events.CollectionRule{OlderThanSecs: int64(p.Rule.OlderThan / time.Second), KeepEntries: p.Rule.KeepEntries},
		Size: c.Size, MadeAt: c.producedAt, LastUse: events.Instant{Time: time.UnixMilli(c.used).UTC()}, Decided: decided, Actor: p.Actor,
	}
}

// collect records the collection of heaps. It returns the heaps whose collection is recorded.
func (s *Service) collect(ctx context.Context, list []candidate) ([]candidate, error) {
	together := map[string][]*candidate{} // by tenant
	for i := range list {
		together[list[i].Tenant] = append(together[list[i].Tenant], &list[i])
	}
	var err error
	for tenant, group := range together {
		named := make(map[string]*candidate, len(group))
		data := make([]events.HeapCollected, len(group))
		for i, c := range group {
			data[i], named[c.Heap] = c.event, c
		}
		err = s.opts.Recorder.CollectHeaps(ctx, tenant, data, func(heap string, seq uint64) { named[heap].Seq = seq })
		if err != nil {
			break // the heaps whose collection is recorded are still deleted
		}
	}
	return slices.DeleteFunc(list, func(c candidate) bool { return c.Seq == 0 }), err
}

// removeCollected deletes the blobs of heaps whose collection this pass recorded.
func (s *Service) removeCollected(ctx context.Context, list []candidate) error {
	for _, c := range list {
		if _, err := s.opts.Blobs.RemoveBlob(ctx, c.blob); err != nil {
			return err
		}
	}
	return nil
}

// removeRest deletes the blobs of heaps that earlier passes collected, and the orphans. A dry run
// counts them.
func (s *Service) removeRest(ctx context.Context, f *heapState, p Pass, stored *storedBlobs, unfinished []events.BlobInfo, now time.Time, report *Report) error {
	remove := func(b events.BlobInfo, count *int) error {
		removed, err := p.DryRun, error(nil)
		if !p.DryRun {
			removed, err = s.opts.Blobs.RemoveBlob(ctx, b)
		}
		if removed {
			*count++
		}
		return err
	}
	for _, b := range unfinished {
		if err := remove(b, &report.Finished); err != nil {
			return err
		}
	}
	err := stored.eachUnnamed(f, func(b events.BlobInfo) error {
		// Events that the ledger no longer holds may have named older blobs.
		if f.first.IsZero() || !b.StoredAt.After(f.first) || now.Sub(b.StoredAt) <= orphanAge {
			return nil
		}
		return remove(b, &report.Orphans)
	})
	if err != nil || p.DryRun {
		return err
	}
	report.Chunks, err = s.opts.Blobs.PurgeOrphanChunks(ctx)
	return err
}
