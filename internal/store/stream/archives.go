package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/archive"
	"daybook/internal/store/jet"
)

// ArchiveStream is the stream that holds the parts of archives, one message each. It is not a
// bucket of the object store: that reads whole objects only.
const ArchiveStream = "ARCHIVE"

// archiveCacheBytes bounds the frames and index pages of archives in memory, in bytes.
const archiveCacheBytes = 8 << 20

// archiveConfig returns the configuration of ArchiveStream. A part cannot be replaced: it must be
// purged first, which only an admin connection may do.
func (s *Ledger) archiveConfig() natsjs.StreamConfig {
	return natsjs.StreamConfig{
		Name:                 ArchiveStream,
		Description:          "Daybook archives of sealed volumes",
		Subjects:             []string{"archive.>"},
		Retention:            natsjs.LimitsPolicy,
		Discard:              natsjs.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		Storage:              natsjs.FileStorage,
		Replicas:             s.jet.Options.Replicas,
		MaxMsgs:              -1,
		MaxBytes:             -1,
		MaxConsumers:         -1,
		DenyDelete:           true,
		AllowDirect:          true,
		Duplicates:           duplicateWindow,
	}
}

// archiveSubject returns the subject of a part, or of a pattern of parts.
func archiveSubject(v events.Volume, part string) string {
	return fmt.Sprintf("archive.%04d.%s", int(v), part)
}

// claimSubject returns the subject of the claim of a volume: the message whose writer alone may
// store parts of its archive. It is no part.
func claimSubject(v events.Volume) string { return fmt.Sprintf("archive.claim.%04d", int(v)) }

// ArchivePart returns the volume and the name of the part with a subject of ArchiveStream. It
// returns false for any other subject.
func ArchivePart(subject string) (v events.Volume, part string, ok bool) {
	var n int
	if _, err := fmt.Sscanf(subject, "archive.%d.%s", &n, &part); err != nil {
		return 0, "", false
	}
	v = events.Volume(n)
	return v, part, n > 0 && archiveSubject(v, part) == subject
}

// archiveParts implements archive.Parts for a volume.
type archiveParts struct {
	s      *Ledger
	volume events.Volume
	// attempt distinguishes the messages of this writing from those of one before, which were
	// purged and whose ids the server may remember.
	attempt string
	// claim is the position of the claim, which MUST be the current one when a part is stored.
	// 0 stores without that condition, for callers that are alone.
	claim uint64
}

// Get implements archive.Parts.
func (p archiveParts) Get(ctx context.Context, name string) ([]byte, error) {
	subject := archiveSubject(p.volume, name)
	for began := time.Now(); ; {
		m, err := p.s.jet.Get(ctx, ArchiveStream, jet.Request{LastBySubject: subject})
		if err == nil {
			return m.Body, nil
		}
		if !errors.Is(err, events.ErrNotFound) || !p.s.jet.Outside() {
			return nil, err
		}
		// Another replica may have answered, which lacks the newest messages.
		if _, _, lerr := p.s.jet.NextAtLeader(ctx, ArchiveStream, subject, 1); lerr != nil {
			return nil, lerr
		}
		if time.Since(began) > lagTimeout {
			return nil, err
		}
		if werr := jet.Wait(ctx, lagPause); werr != nil {
			return nil, werr
		}
	}
}

// Put implements archive.Parts. A part is stored once, also if an acknowledgement is lost. It is
// refused if another process claims the archive.
func (p archiveParts) Put(ctx context.Context, name string, part []byte) error {
	m := &nats.Msg{Subject: archiveSubject(p.volume, name), Data: part, Header: nats.Header{natsjs.MsgIDHeader: {p.attempt + "." + name}}}
	if p.claim > 0 {
		m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatUint(p.claim, 10))
		m.Header.Set(natsjs.ExpectedLastSubjSeqSubjHeader, claimSubject(p.volume))
	}
	_, err := p.s.publishToArchive(ctx, m)
	return err
}

// publishToArchive publishes a message with a message id, and tries again if the outcome is unknown.
func (s *Ledger) publishToArchive(ctx context.Context, m *nats.Msg) (position uint64, err error) {
	for try := 0; ; try++ {
		ack, err := s.jet.Publish(ctx, m)
		if err == nil {
			return ack.Sequence, nil
		}
		if jet.IsRejected(err) || jet.IsUnwritable(err) {
			return 0, err
		}
		if werr := jet.Wait(ctx, retryPause); werr != nil || try == maxVolumeEventTries {
			return 0, err
		}
	}
}

// errComplete is returned by claimArchive if the archive is complete.
var errComplete = errors.New("the archive is complete")

// claimArchive makes the caller the only one that may store parts of the archive of a volume, and
// deletes parts of earlier attempts. It never deletes a complete archive: another process may be
// deleting the stream because of it. The error is errComplete then. If another process claims the
// archive at the same time, claimArchive fails for one of the two.
//
// The former claim is deleted first: its writer can store nothing after that. The new claim is
// stored only if the former writer has not stored the manifest before.
func (s *Ledger) claimArchive(ctx context.Context, n events.Volume) (archiveParts, error) {
	p := archiveParts{s: s, volume: n, attempt: events.NewID(time.Now())}
	former, _, err := s.jet.NextAtLeader(ctx, ArchiveStream, claimSubject(n), 1)
	if err == nil {
		err = s.purgeParts(ctx, claimSubject(n), former+1)
	}
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return archiveParts{}, err
	}
	m := &nats.Msg{Subject: claimSubject(n), Header: nats.Header{
		natsjs.MsgIDHeader:                   {p.attempt + ".claim"},
		natsjs.ExpectedLastSubjSeqHeader:     {"0"},
		natsjs.ExpectedLastSubjSeqSubjHeader: {archiveSubject(n, archive.ManifestPart)},
	}}
	p.claim, err = s.publishToArchive(ctx, m)
	if jet.IsConflict(err) {
		return archiveParts{}, errComplete
	}
	if err != nil {
		return archiveParts{}, fmt.Errorf("claim the archive: %w", err)
	}
	return p, s.purgeParts(ctx, archiveSubject(n, ">"), p.claim)
}

// archived is a volume that is read from its archive.
type archived struct {
	s *Ledger
	*archive.Reader
}

// openArchive returns the archive of a volume, or events.ErrNotFound.
func (s *Ledger) openArchive(ctx context.Context, n events.Volume) (*archived, error) {
	lost := func(first, last uint64) bool { return spans.Covers(s.Lost(), first, last) }
	r, err := archive.Open(ctx, archiveParts{s: s, volume: n}, n, s.archiveCache, lost)
	if jet.IsStreamGone(err) {
		err = fmt.Errorf("%w: %w", events.ErrNotFound, err) // there is no archive at all
	}
	if err != nil {
		return nil, s.archiveError(err)
	}
	return &archived{s, r}, nil
}

// ClearCache removes the frames and index pages of archives from memory, which the next lookup
// reads again. The filters stay: one lookup may need all of them.
func (s *Ledger) ClearCache() { s.archiveCache.Clear() }

// DropUnusedParts removes the frames and index pages of archives from memory that were not read for
// a duration.
func (s *Ledger) DropUnusedParts(unused time.Duration) { s.archiveCache.Expire(unused) }

// archiveError reports damage of an archive.
func (s *Ledger) archiveError(err error) error {
	if errors.Is(err, archive.ErrDamaged) {
		return s.damageErrorf("%w", err)
	}
	return err
}

// keptInstead returns the kept events that answer the requests for an archive whose parts are
// missing because the volume was removed. It returns nil if that is not why err was returned.
func (s *Ledger) keptInstead(ctx context.Context, n events.Volume, err error) *keptEvents {
	if !errors.Is(err, archive.ErrDamaged) {
		return nil
	}
	now := s.volumeByNumber(n)
	if now.removed == nil && !s.opts.Exclusive {
		s.Reload(ctx) // another process may have removed it
		now = s.volumeByNumber(n)
	}
	return now.removed
}

// archivedVolume returns the volume of an archive.
func archivedVolume(a *archived) volume {
	m := a.Manifest()
	return volume{number: m.Volume, first: m.First, last: m.Last, sealed: true, ended: m.Ended, archive: a}
}

// get implements segment. If the volume was removed and the archive does not answer any more, the
// kept events do.
func (a *archived) get(ctx context.Context, r jet.Request) (list []events.Stored, more int, err error) {
	if err := a.s.checkSubjectRead(ArchiveStream, r); err != nil {
		return nil, 0, err
	}
	list, more, err = a.request(ctx, r)
	if kept := a.s.keptInstead(ctx, a.Manifest().Volume, err); kept != nil {
		return kept.get(ctx, r)
	}
	return list, more, a.s.archiveError(err)
}

// request is get for an archive that exists.
func (a *archived) request(ctx context.Context, r jet.Request) (list []events.Stored, more int, err error) {
	others := false
	switch {
	case len(r.MultiLast) > 0:
		for _, pattern := range r.MultiLast {
			last, err := a.LastOfEach(ctx, pattern)
			if err != nil {
				return nil, 0, err
			}
			list = append(list, last...)
		}
		sortBySeq(list)
	case r.LastBySubject != "":
		var m events.Stored
		if m, err = a.Last(ctx, r.LastBySubject); err == nil {
			list = append(list, m)
		} else if errors.Is(err, events.ErrNotFound) {
			err = nil
		}
	case r.NextBySubject != "":
		list, others, err = a.Next(ctx, r.NextBySubject, r.Seq, max(r.Batch, 1), r.MaxBytes)
	default:
		list, err = a.Read(ctx, r.Seq, max(r.Batch, 1), r.MaxBytes)
		if r.Batch == 0 && len(list) > 0 && list[0].Seq != r.Seq {
			list = nil
		}
	}
	if others {
		more = 1 // or more
	}
	return list, more, err
}

// find returns the position of the event with the id of e at position from or later, or 0.
func (a *archived) find(ctx context.Context, e events.Event, from uint64) (uint64, error) {
	for {
		list, more, err := a.Next(ctx, StoredSubject(a.Manifest().Volume, e.Subject()), from, jet.BatchMessages, jet.BatchBytes)
		if kept := a.s.keptInstead(ctx, a.Manifest().Volume, err); kept != nil {
			return kept.find(e, from), nil
		}
		if err != nil {
			return 0, a.s.archiveError(err)
		}
		for _, m := range list {
			if events.HeaderValue(m.Header, "ce-id") == e.ID {
				return m.Seq, nil
			}
			from = m.Seq + 1
		}
		if !more {
			return 0, nil
		}
	}
}

// info describes the volume.
func (a *archived) info() events.VolumeInfo {
	m := a.Manifest()
	return events.VolumeInfo{Number: m.Volume, First: m.First, Last: m.Last, Bytes: m.Bytes, Sealed: true, Archived: true, Began: m.Began, Ended: m.Ended}
}
