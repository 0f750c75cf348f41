package stream

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// DecodeStored decodes an answer to a direct get as the Ledger does.
func DecodeStored(m *nats.Msg) (events.Event, error) {
	got, err := jet.DecodeMessage(m)
	if err != nil {
		return events.Event{}, err
	}
	s := New(&jet.Client{}, nil, Options{})
	return s.Decode(got)
}

// Appended is the type appended.
type Appended struct{ k appended }

// Add is the method add.
func (k *Appended) Add(m events.Stored) { k.k.add(m) }

// Take is the method take.
func (k *Appended) Take(after uint64) (list []events.Stored, later bool) { return k.k.take(after) }

// Held returns the number of kept events and the size of their bodies.
func (k *Appended) Held() (n, size int) { return len(k.k.messages), k.k.size }

// SetLimit sets the maximum size of the bodies that the tail keeps, in bytes.
func (t *SharedTail) SetLimit(n int) { t.limit = n }

// SetStarved makes a Ledger believe that its server cannot open files while starved returns an
// error.
func SetStarved(s *Ledger, starved func() error) { s.jet.Options.Starved = starved }

// SetSweeping makes new events be swept once they are older than age and larger than
// bytes.
func (t *SharedTail) SetSweeping(age time.Duration, bytes int64) {
	t.sweepAge, t.sweepInterval, t.sweepBytes = age, time.Millisecond, bytes
}

// Swept returns the last position that was swept.
func (t *SharedTail) Swept() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.swept
}

// Kept returns the number of pages that the tail keeps.
func (t *SharedTail) Kept() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pages)
}

// SealingSteps returns the steps of a rotation of the active volume, in order, for
// tests that stop between them.
func (s *Ledger) SealingSteps() []func(context.Context) error {
	v := s.volumes().active()
	return []func(context.Context) error{
		func(ctx context.Context) error {
			return s.recordSealing(ctx, v, 0, RotateOptions{Reason: events.VolumeAsked})
		},
		func(ctx context.Context) error { return s.sealStream(ctx, v.number) },
		func(ctx context.Context) error {
			info, err := s.jet.StreamInfo(ctx, v.stream())
			if err == nil {
				_, err = s.createVolume(ctx, v.number+1, info.State.LastSeq+1)
			}
			return err
		},
		func(ctx context.Context) error {
			list, err := s.findVolumes(ctx)
			if err == nil {
				_, err = s.recordOpening(ctx, list)
			}
			return err
		},
	}
}

// StreamsOf returns the names of the streams of the volumes.
func StreamsOf(t testing.TB, s *Ledger) (names []string) {
	t.Helper()
	numbers, _, err := s.volumeNumbers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		names = append(names, n.Stream())
	}
	return names
}

// DeleteStream deletes a stream without a recorded removal.
func DeleteStream(t testing.TB, s *Ledger, name string) {
	t.Helper()
	js, done, err := s.adminConn()
	if err == nil {
		defer done()
		err = js.DeleteStream(t.Context(), name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// LockVolumes holds volumesMu until unlock is called.
func LockVolumes(s *Ledger) (unlock func()) {
	s.volumesMu.Lock()
	return s.volumesMu.Unlock
}

// AwaitRequests returns when the connection of a Ledger has sent n more messages.
func AwaitRequests(t testing.TB, s *Ledger, n uint64) {
	t.Helper()
	for end := s.jet.Conn.Stats().OutMsgs + n; s.jet.Conn.Stats().OutMsgs < end; {
		if err := jet.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// LookForVolumes does what a follower does if no event was announced for a poll
// interval.
func LookForVolumes(ctx context.Context, s *Ledger) { s.refreshVolumes(ctx) }

// Received returns the number of messages that the connection of a Ledger has received.
func Received(s *Ledger) uint64 { return s.jet.Conn.Stats().InMsgs }

// ArchivePartsOf returns the number of parts of the archive of a volume.
func ArchivePartsOf(t testing.TB, s *Ledger, n events.Volume) (parts int) {
	t.Helper()
	_, err := s.jet.GetBatch(t.Context(), ArchiveStream, jet.Request{Seq: 1, NextBySubject: archiveSubject(n, ">"), Batch: jet.BatchMessages}, func(events.Stored) error {
		parts++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// PurgeParts deletes parts of an archive.
func PurgeParts(t testing.TB, s *Ledger, n events.Volume, pattern string) {
	t.Helper()
	if err := s.purgeParts(t.Context(), archiveSubject(n, pattern), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
}

// IsGoneAfter reports whether a request to the stream of a volume that
// fails with err after archive has run is repeated at the archive.
func IsGoneAfter(ctx context.Context, s *Ledger, n events.Volume, archive func(), err error) bool {
	v := s.volumeByNumber(n)
	archive()
	now, rerr := s.reloadIfGone(ctx, v, err)
	return rerr == nil && now.segment() != nil
}

// MissingAfter returns the error of a request to the stream of a volume that finds no message after
// before has run, or nil if the request is repeated at the archive.
func MissingAfter(ctx context.Context, s *Ledger, n events.Volume, before func()) error {
	v := s.volumeByNumber(n)
	before()
	_, err := s.reloadIfGone(ctx, v, events.ErrNotFound)
	return err
}

// RestOfBatch returns the messages of a batch of an archived volume behind those that were read from
// its stream.
func RestOfBatch(ctx context.Context, s *Ledger, n events.Volume, r jet.Request, read []events.Stored) (list []events.Stored, pending uint64, err error) {
	var got partOfBatch
	for _, m := range read {
		got.add(r, m)
	}
	pending, err = getRest(ctx, s.volumeByNumber(n).segment(), r, got, func(m events.Stored) error { list = append(list, m); return nil })
	return list, pending, err
}
