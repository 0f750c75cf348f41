package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/archive"
	"daybook/internal/store/jet"
)

// ArchiveOptions select the volume to archive.
type ArchiveOptions struct {
	Volume events.Volume
	// Verify, if set, is called with each event as it was read back from the archive, in order.
	// If it fails, the volume stays as it is.
	Verify func(m events.Stored) error
	// PendingWork returns the number of run requests of the volume that are waiting or in flight.
	// Such requests are delivered from the stream.
	PendingWork func(ctx context.Context, n events.Volume) (uint64, error)
}

// NotArchivableError is returned for a volume that must stay a stream for now.
type NotArchivableError struct {
	Volume events.Volume
	Reason string
}

// Error implements error.
func (e *NotArchivableError) Error() string {
	return fmt.Sprintf("volume %d cannot be archived: %s", e.Volume, e.Reason)
}

// Archive stores the events of a sealed volume in an archive, reads all of them back, and then
// deletes the stream of the volume. Concurrent reads do not fail. If Archive is interrupted or
// fails, the stream stays and the next call begins again, or uses the archive if that is complete:
// the stream is what counts until it is deleted. Several processes may call Archive. It uses at most about half of a processor.
func (s *Ledger) Archive(ctx context.Context, opts ArchiveOptions) (events.VolumeInfo, error) {
	s.removalMu.Lock()
	defer s.removalMu.Unlock()
	v, err := s.archivable(ctx, opts)
	if err != nil {
		return events.VolumeInfo{}, err
	}
	a, err := s.writeArchive(ctx, v, opts)
	if err == nil {
		err = s.replaceStream(ctx, v, a, opts)
	}
	if err != nil {
		return events.VolumeInfo{}, fmt.Errorf("archive volume %d: %w", v.number, err)
	}
	return a.info(), nil
}

// archivable returns the volume to archive, or a *NotArchivableError.
func (s *Ledger) archivable(ctx context.Context, opts ArchiveOptions) (volume, error) {
	no := func(format string, args ...any) (volume, error) {
		return volume{}, &NotArchivableError{opts.Volume, fmt.Sprintf(format, args...)}
	}
	now := s.volumes()
	i := slices.IndexFunc(now.list, func(v volume) bool { return v.number == opts.Volume && v.segment() == nil })
	if i < 0 {
		return no("it has no stream")
	}
	v := now.list[i]
	if v.number >= now.active().number {
		return no("it is the active volume")
	}
	if v.last < v.first {
		return no("it holds no event")
	}
	if spans.Between(s.Lost(), v.first, v.last) > 0 {
		return no("some of its events are recorded as lost")
	}
	return v, s.checkNoWork(ctx, opts)
}

// checkNoWork returns a *NotArchivableError while requests of the volume wait or are in flight.
func (s *Ledger) checkNoWork(ctx context.Context, opts ArchiveOptions) error {
	left, err := opts.PendingWork(ctx, opts.Volume)
	if err == nil && left > 0 {
		err = &NotArchivableError{opts.Volume, fmt.Sprintf("%d of its run requests are waiting or in flight", left)}
	}
	return err
}

// writeArchive writes and verifies the archive of a volume.
func (s *Ledger) writeArchive(ctx context.Context, v volume, opts ArchiveOptions) (*archived, error) {
	info, err := s.jet.StreamInfo(ctx, v.stream())
	if err != nil {
		return nil, err
	}
	if _, err := s.jet.JS.CreateStream(ctx, s.archiveConfig()); err != nil && !errors.Is(err, natsjs.ErrStreamNameAlreadyInUse) {
		return nil, fmt.Errorf("create stream %s: %w", ArchiveStream, err)
	}
	if err := s.jet.Sync(); err != nil {
		return nil, err
	}
	parts, err := s.claimArchive(ctx, v.number)
	if errors.Is(err, errComplete) {
		return s.useArchive(ctx, v, opts)
	}
	if err != nil {
		return nil, err
	}
	w := archive.NewWriter(parts, archive.Info{Volume: v.number, First: v.first, Last: v.last, Began: info.State.FirstTime, Ended: info.State.LastTime})
	defer w.Close()
	written, err := s.readStream(ctx, v, func(m events.Stored) error { return w.Add(ctx, m) })
	if err != nil {
		return nil, err
	}
	m, err := w.Finish(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.compareArchive(ctx, archive.NewReader(parts, m, archive.NewCache(0), neverLost), written, opts); err != nil {
		return nil, err
	}
	if err := archive.Commit(ctx, parts, m); err != nil {
		return nil, err
	}
	return s.openArchive(ctx, v.number)
}

// useArchive returns the complete archive of a volume whose stream exists: an earlier attempt was
// interrupted, or another process is about to delete the stream. It verifies the archive as if it
// had been written now.
func (s *Ledger) useArchive(ctx context.Context, v volume, opts ArchiveOptions) (*archived, error) {
	// Not openArchive: damage of an archive is no damage of the ledger while there is a stream.
	r, err := archive.Open(ctx, archiveParts{s: s, volume: v.number}, v.number, archive.NewCache(0), neverLost)
	if err == nil {
		var written archive.Sum
		if written, err = s.readStream(ctx, v, func(events.Stored) error { return nil }); err == nil {
			err = s.compareArchive(ctx, r, written, opts)
		}
	}
	if errors.Is(err, archive.ErrDamaged) && !s.jet.Outside() { // no other process relies on it
		if err := s.purgeArchive(ctx, v.number); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("use the archive of an earlier attempt: %w", err)
	}
	return s.openArchive(ctx, v.number)
}

func neverLost(uint64, uint64) bool { return false }

// readStream calls fn with each message of a volume and returns the hash over them. The error is a
// *NotArchivableError if an execution that the volume requests has not ended.
func (s *Ledger) readStream(ctx context.Context, v volume, fn func(events.Stored) error) (sum archive.Sum, err error) {
	open := map[string]string{} // the subject of the end of each execution that was requested, by tenant and id
	err = s.eachStored(ctx, v.first, v.last, func(m events.Stored) error {
		sum.Add(m)
		noteRequest(open, m)
		return fn(m)
	})
	if err == nil {
		err = s.checkEnded(ctx, v.number, open)
	}
	return sum, err
}

// compareArchive reads all parts of an archive but its manifest. r MUST NOT share its cache with
// other readers: it may hold the parts of an earlier attempt.
func (s *Ledger) compareArchive(ctx context.Context, r *archive.Reader, want archive.Sum, opts ArchiveOptions) error {
	var read archive.Sum
	if err := (&archived{s, r}).readBack(ctx, &read, opts.Verify); err != nil {
		return err
	}
	if read != want {
		return fmt.Errorf("the archive does not hold what the stream holds: %w", archive.ErrDamaged)
	}
	return r.CheckIndex(ctx)
}

// readBack reads all events of an archive.
func (a *archived) readBack(ctx context.Context, sum *archive.Sum, verify func(events.Stored) error) error {
	for from := a.Manifest().First; ; {
		began := time.Now()
		list, err := a.Read(ctx, from, jet.BatchMessages, jet.BatchBytes)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, m := range list {
			sum.Add(m)
			if verify == nil {
				continue
			}
			if err := verify(m); err != nil {
				return fmt.Errorf("verify position %d: %w", m.Seq, err)
			}
		}
		from = list[len(list)-1].Seq + 1
		if err := jet.Wait(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// eachStored calls fn with the messages at positions first to last.
func (s *Ledger) eachStored(ctx context.Context, first, last uint64, fn func(events.Stored) error) error {
	for after := first - 1; after < last; {
		began := time.Now()
		batch, err := s.ReadRaw(ctx, after, int(min(last-after, jet.BatchMessages)))
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return s.damageErrorf("position %d cannot be read", after+1)
		}
		for _, m := range batch {
			if err := fn(m); err != nil {
				return err
			}
		}
		after = batch[len(batch)-1].Seq
		if err := jet.Wait(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// noteRequest adds the request of an execution, and removes an execution that ends.
func noteRequest(open map[string]string, m events.Stored) {
	value := func(name string) string { return events.HeaderValue(m.Header, name) }
	id, tenant := value("ce-subject"), value("ce-tenant")
	switch t := events.Type(value("ce-type")); {
	case t == events.TypeExecutionRequested:
		open[tenant+" "+id] = events.ExecSubject(tenant, id)
	case t.Terminal():
		delete(open, tenant+" "+id)
	}
}

// checkEnded returns a *NotArchivableError unless the executions ended after the volume.
func (s *Ledger) checkEnded(ctx context.Context, n events.Volume, open map[string]string) error {
	for key, subject := range open {
		m, err := s.lastMessage(ctx, subject)
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return err
		}
		if err != nil || !events.Type(events.HeaderValue(m.Header, "ce-type")).Terminal() {
			return &NotArchivableError{n, fmt.Sprintf("execution %s has not ended", key)}
		}
	}
	return nil
}

// replaceStream makes readers use an archive, and deletes the stream.
func (s *Ledger) replaceStream(ctx context.Context, v volume, a *archived, opts ArchiveOptions) error {
	s.volumesMu.Lock()
	defer s.volumesMu.Unlock()
	if err := s.checkNoWork(ctx, opts); err != nil { // a returned request may be in flight again
		return err
	}
	before := s.volumes().list
	list := slices.Clone(before)
	i := slices.IndexFunc(list, func(o volume) bool { return o.number == v.number && o.segment() == nil })
	if i < 0 {
		return errors.New("another process archived or removed it")
	}
	list[i] = archivedVolume(a)
	s.setVolumes(list)
	if err := s.deleteStreams(ctx, v.number); err != nil {
		s.setVolumes(before)
		return err
	}
	return s.jet.Sync()
}

// deleteStreams deletes the streams of volumes.
func (s *Ledger) deleteStreams(ctx context.Context, numbers ...events.Volume) error {
	js, done, err := s.adminConn()
	if err != nil {
		return err
	}
	defer done()
	for _, n := range numbers {
		if err := js.DeleteStream(ctx, n.Stream()); err != nil && !errors.Is(err, natsjs.ErrStreamNotFound) {
			return fmt.Errorf("remove stream %s: %w", n.Stream(), err)
		}
	}
	return nil
}

// purgeArchive deletes the claim and all parts of the archive of a volume, if there are any. A
// process that is writing the archive fails then.
func (s *Ledger) purgeArchive(ctx context.Context, n events.Volume) error {
	if err := s.purgeParts(ctx, claimSubject(n), math.MaxInt64); err != nil {
		return err
	}
	return s.purgeParts(ctx, archiveSubject(n, ">"), math.MaxInt64)
}

// purgeParts deletes the messages of archives on a subject or pattern at positions below before.
func (s *Ledger) purgeParts(ctx context.Context, subject string, before uint64) error {
	switch seq, _, err := s.jet.NextAtLeader(ctx, ArchiveStream, subject, 1); {
	case errors.Is(err, events.ErrNotFound) || err == nil && seq >= before:
		return nil
	case err != nil:
		return err
	}
	js, done, err := s.adminConn()
	if err != nil {
		return err
	}
	defer done()
	stream, err := js.Stream(ctx, ArchiveStream)
	if err == nil {
		err = stream.Purge(ctx, natsjs.WithPurgeSubject(subject), natsjs.WithPurgeSequence(before))
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", subject, err)
	}
	return nil
}

// reindexArchives writes the indexes and manifests of archives again, over the frames that are
// left after a loss, of the volumes up to a number that have no stream.
func (s *Ledger) reindexArchives(ctx context.Context, upTo events.Volume) error {
	numbers, archives, err := s.volumeNumbers(ctx)
	if err != nil || !archives {
		return err
	}
	for n := events.Volume(1); n <= upTo; n++ {
		if slices.Contains(numbers, n) {
			continue // its stream counts
		}
		if err := s.reindexArchive(ctx, n); err != nil {
			return fmt.Errorf("index the archive of volume %d again: %w", n, err)
		}
	}
	return nil
}

func (s *Ledger) reindexArchive(ctx context.Context, n events.Volume) error {
	type extent struct{ first, last uint64 }
	var frames []extent
	whole := map[string]bool{}
	for from := uint64(1); from < math.MaxUint64; {
		got := uint64(0)
		_, err := s.jet.GetBatch(ctx, ArchiveStream, jet.Request{Seq: from, NextBySubject: archiveSubject(n, ">"), Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}, func(m events.Stored) error {
			got = m.Seq
			_, name, _ := ArchivePart(m.Subject)
			whole[name] = true
			if first, last, ok := archive.FrameExtent(name); ok {
				frames = append(frames, extent{first, last})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if got == 0 {
			break
		}
		from = got + 1
	}
	if len(frames) == 0 {
		return nil
	}
	parts := archiveParts{s: s, volume: n, attempt: events.NewID(time.Now())}
	info := archive.Info{Volume: n, First: frames[0].first, Last: frames[len(frames)-1].last}
	if whole[archive.ManifestPart] {
		r, err := s.openArchive(ctx, n)
		if err != nil {
			return err
		}
		info = r.Manifest().Info
		if complete := !slices.ContainsFunc(r.Manifest().Parts(), func(name string) bool { return !whole[name] }); complete {
			return nil
		}
	}
	for _, pattern := range []string{archive.ManifestPart, archive.Opening, "index.*", "filter.*"} {
		if err := s.purgeParts(ctx, archiveSubject(n, pattern), math.MaxInt64); err != nil {
			return err
		}
	}
	if info.Ended.IsZero() { // the manifest is lost
		for f, at := range map[extent]*time.Time{frames[0]: &info.Began, frames[len(frames)-1]: &info.Ended} {
			raw, err := parts.Get(ctx, archive.FramePart(f.first, f.last))
			if err != nil {
				return err
			}
			list, err := archive.DecodeFrame(raw)
			if err != nil {
				return err
			}
			e, err := events.Decode(list[len(list)-1].Seq, list[len(list)-1].Message())
			if err != nil {
				return err
			}
			*at = e.Time
		}
	}
	w := archive.NewWriter(parts, info)
	defer w.Close()
	for _, f := range frames {
		raw, err := parts.Get(ctx, archive.FramePart(f.first, f.last))
		if err != nil {
			return err
		}
		if err := w.AddFrame(ctx, raw); err != nil {
			return err
		}
	}
	m, err := w.Finish(ctx)
	if err != nil {
		return err
	}
	return archive.Commit(ctx, parts, m)
}
