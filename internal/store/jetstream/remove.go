package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Removing a blob takes three steps, each of which may be the last before a
// crash: its description is replaced by one that says "deleted", the chunks
// that thereby belong to no blob are counted, and then purged. The count, on
// the description of an object that is none, is what missing messages are
// measured against: more of them than were ever counted is damage.
//
// A blob somebody relies on is safe from removal for a while: whoever stores
// one that exists renews its description, unless that was done lately, and a
// description renewed after it was listed is not replaced. So there is no
// moment at which storing a blob succeeds and the blob then goes, as long as
// the event that names it follows within half of Options.Settle.

// countName is the object that counts what was purged.
const (
	countName = "purged-chunks"
	metaCount = "count"
)

// relyOn renews the description of a blob that is stored, so that it is not
// removed before it is named.
func (b *bucket) relyOn(ctx context.Context, e entry) error {
	if time.Since(e.at) < b.s.opts.Settle/2 || strings.HasPrefix(e.Name, basePrefix) {
		return nil
	}
	// A conflict means that somebody else renewed it, or that it was removed:
	// then it is described as such, and must be stored again.
	return b.writeEntry(ctx, e.ObjectInfo, e.seq)
}

// checkWhole looks for signs of lost messages in a state of the bucket.
func (b *bucket) checkWhole(ctx context.Context, st natsjs.StreamState) error {
	missing := st.LastSeq - st.Msgs
	if missing == 0 {
		return nil
	}
	// Read after the state: it only grows, and before the messages go.
	purged, _, err := b.purged(ctx)
	if err != nil {
		return err
	}
	if missing > purged {
		return b.lacks(missing, st.LastSeq, purged)
	}
	return nil
}

// purged is how many chunks were counted before they were purged, and the
// position of the count, 0 if there is none yet.
func (b *bucket) purged(ctx context.Context) (n, seq uint64, err error) {
	e, err := b.entry(ctx, countName)
	if errors.Is(err, events.ErrNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read how many chunks were purged: %w", err)
	}
	if n, err = strconv.ParseUint(e.Metadata[metaCount], 10, 64); err != nil {
		return 0, e.seq, b.damaged("the count of purged chunks is %q", e.Metadata[metaCount])
	}
	return n, e.seq, nil
}

// setPurged counts chunks that are about to be purged, in place of the count at
// seq.
func (b *bucket) setPurged(ctx context.Context, n, seq uint64) error {
	body, err := json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: countName, Metadata: map[string]string{metaCount: strconv.FormatUint(n, 10)}},
		Bucket:     bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil),
	})
	if err != nil {
		return err
	}
	return b.replace(ctx, countName, body, seq)
}

// replace writes a description under the expected position of the one before.
func (b *bucket) replace(ctx context.Context, name string, body []byte, seq uint64) error {
	m := nats.NewMsg(entryOf(name))
	m.Data = body
	m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(seq, 10))
	err := b.publish(ctx, m)
	if IsConflict(err) {
		return events.ErrConflict
	}
	return err
}

// scan calls fn with every message stored under subjects that match, in order.
func (b *bucket) scan(ctx context.Context, subjects string, fn func(events.Stored) error) error {
	for from := uint64(1); ; {
		var got uint64
		r := Request{Seq: from, NextBySubject: subjects, Batch: BatchMessages, MaxBytes: BatchBytes}
		_, err := b.s.getBatch(ctx, bucketStream, r, func(m events.Stored) error {
			got = m.Seq
			return fn(m)
		})
		if err != nil {
			return err
		}
		if got == 0 {
			return nil
		}
		from = got + 1
	}
}

// entries reads the newest description under each name.
func (b *bucket) entries(ctx context.Context) (map[string]entry, error) {
	all := map[string]entry{}
	err := b.scan(ctx, entrySubject+">", func(m events.Stored) error {
		e, err := decodeEntry(m)
		if err == nil {
			all[e.Name] = e
		}
		return err
	})
	return all, err
}

// StoredBlobs calls fn with every heap and text that is stored, in no order.
// Base heaps are not among them: they live as long as the ledger, because heaps
// are stored against them.
func (s *Store) StoredBlobs(ctx context.Context, fn func(events.BlobInfo) error) error {
	all, err := s.blobs.entries(ctx)
	if err != nil {
		return fmt.Errorf("list the blobs: %w", err)
	}
	for name, e := range all {
		kind, rest, _ := strings.Cut(name, "/")
		tenant, hash, ok := strings.Cut(rest, "/")
		if e.Deleted || !ok || kind != "heap" && kind != "text" || !events.ValidHash(hash) {
			continue
		}
		size, err := blobSize(&e.ObjectInfo)
		if err != nil {
			return fmt.Errorf("list the blobs: %s: %w", name, err)
		}
		if err := fn(events.BlobInfo{Tenant: tenant, Heap: kind == "heap", SHA256: hash, Size: int64(size), StoredAt: e.at, Version: e.seq}); err != nil {
			return err
		}
	}
	return nil
}

// RemoveBlob removes a blob as it was listed. It reports false, and leaves it,
// when somebody has relied on it lately, or since it was listed. Its room comes
// free with ReclaimBlobs.
func (s *Store) RemoveBlob(ctx context.Context, info events.BlobInfo) (removed bool, err error) {
	kind := "text"
	if info.Heap {
		kind = "heap"
	}
	name, err := blobName(kind, info.Tenant, info.SHA256)
	if err != nil {
		return false, fmt.Errorf("remove blob: %w", err)
	}
	if time.Since(info.StoredAt) < s.opts.Settle {
		return false, nil
	}
	body, err := deletedEntry(name)
	if err != nil {
		return false, err
	}
	switch err := s.blobs.replace(ctx, name, body, info.Version); {
	case errors.Is(err, events.ErrConflict):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("remove blob %s: %w", name, err)
	}
	s.heaps.drop(name)
	s.blobs.good(name, "it was removed")
	return true, nil
}

// deletedEntry is the description of a blob that is no more.
func deletedEntry(name string) ([]byte, error) {
	return json.Marshal(natsjs.ObjectInfo{
		ObjectMeta: natsjs.ObjectMeta{Name: name}, Bucket: bucketName, NUID: events.NewID(time.Now()), Digest: digest(nil), Deleted: true,
	})
}

// ReclaimBlobs gives back the room of what belongs to no blob: removed ones,
// and what writers left that did not get to their end. It returns how many
// chunks, of up to 512 KiB, went.
func (s *Store) ReclaimBlobs(ctx context.Context) (chunks uint64, err error) {
	b := s.blobs
	all, err := b.entries(ctx)
	if err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	owned := make(map[string]bool, len(all))
	for _, e := range all {
		if !e.Deleted {
			owned[e.NUID] = true
		}
	}
	info, err := b.info(ctx, natsjs.WithSubjectFilter(chunkSubjects+">"))
	if err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	var stray []string
	for subject, n := range info.State.Subjects {
		if owned[strings.TrimPrefix(subject, chunkSubjects)] {
			continue
		}
		m, err := s.getOne(ctx, bucketStream, Request{LastBySubject: subject})
		if errors.Is(err, events.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
		}
		if at, err := time.Parse(time.RFC3339Nano, HeaderValue(m.Header, HeaderTime)); err != nil || time.Since(at) < s.opts.Settle {
			continue // it may become a blob yet
		}
		stray, chunks = append(stray, subject), chunks+n
	}
	if len(stray) == 0 {
		return 0, nil
	}
	if err := b.count(ctx, chunks); err != nil {
		return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
	}
	for _, subject := range stray {
		if err := b.stream.Purge(ctx, natsjs.WithPurgeSubject(subject)); err != nil {
			return 0, fmt.Errorf("reclaim the room of blobs: %w", err)
		}
	}
	return chunks, nil
}

// count notes that chunks are about to be purged. What was counted by a pass
// that was cut short before it purged is counted once.
func (b *bucket) count(ctx context.Context, chunks uint64) error {
	for {
		purged, seq, err := b.purged(ctx)
		if err != nil {
			return err
		}
		info, err := b.info(ctx)
		if err != nil {
			return err
		}
		missing := info.State.LastSeq - info.State.Msgs
		if missing > purged {
			return b.lacks(missing, info.State.LastSeq, purged)
		}
		if err := b.setPurged(ctx, missing+chunks, seq); !errors.Is(err, events.ErrConflict) {
			return err
		}
	}
}
