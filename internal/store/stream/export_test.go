package stream

import (
	"context"
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
	numbers, err := s.volumeNumbers(t.Context())
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
