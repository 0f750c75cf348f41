package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// sealProven rotates under a checkpoint that is not a valid one.
func sealProven(t testing.TB, s *jetstream.Store) events.VolumeInfo {
	t.Helper()
	v, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
		return &events.ClosingCheckpoint{Origin: "daybook/test", Size: last, RootHash: "r", Note: "n"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func removal(n events.Volume, keep ...uint64) stream.RemoveOptions {
	return stream.RemoveOptions{Volume: n, Keep: keep, RootHash: "root", Export: events.VolumeExport{SHA256: events.Hash([]byte("x")), Events: 1}, Actor: testActor}
}

func mustRemove(t testing.TB, s *jetstream.Store, r stream.RemoveOptions) uint64 {
	t.Helper()
	seq, err := s.Remove(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func positions(list []events.Event) (all []uint64) {
	for _, e := range list {
		all = append(all, e.Seq)
	}
	return all
}

// TestRemoval removes two volumes in a row and reads the rest in every way.
func TestRemoval(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	kept, gone, later := newID(), newID(), newID()
	mustAppend(t, s, requested(kept), 0)                                                                                               // 1
	mustAppend(t, s, requested(gone), 0)                                                                                               // 2
	mustAppend(t, s, ended(gone), 0)                                                                                                   // 3
	at := mustAppend(t, s, started(kept, 1), 0)                                                                                        // 4
	entry := events.New(tenant, time.Now(), &events.SessionEntryRecorded{SessionID: "abc", Session: "s", Index: 4, ExecutionID: kept}) // 5
	entryAt := mustAppend(t, s, entry, 0)
	one := sealProven(t, s) // 6, and 7 is the opening of volume 2
	mustAppend(t, s, requested(later), 0)
	end := mustAppend(t, s, ended(kept), int64(at))
	two := sealProven(t, s)
	mustAppend(t, s, ended(later), 0)

	first := mustRemove(t, s, removal(1, 1, 4, 5))
	want := []uint64{1, 4, 5}
	for seq := one.Last + 1; seq <= mustLast(t, s); seq++ {
		want = append(want, seq)
	}
	check := func(s *jetstream.Store) {
		t.Helper()
		all, err := s.Read(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, positions(all)); diff != "" {
			t.Errorf("what is left: %s", diff)
		}
		before := uint64(0)
		for _, e := range all {
			if before+e.RemovedBefore+1 != e.Seq {
				t.Errorf("event %d skips %d after %d", e.Seq, e.RemovedBefore, before)
			}
			before = e.Seq
		}
		var followed []uint64
		err = s.Follow(t.Context(), 2, func(batch []events.Event, last uint64) error {
			followed = append(followed, positions(batch)...)
			if followed[len(followed)-1] == want[len(want)-1] {
				return errors.New("enough")
			}
			return nil
		})
		if diff := cmp.Diff(want[1:], followed); diff != "" {
			t.Errorf("following ended with %v: %s", err, diff)
		}
		if list, err := s.Execution(t.Context(), tenant, gone); err != nil || len(list) != 0 {
			t.Errorf("a removed execution has %d events, error %v", len(list), err)
		}
		if list, err := s.Execution(t.Context(), tenant, kept); err != nil || len(list) != 3 || list[2].Seq != end {
			t.Errorf("an execution that is kept: %v, error %v", positions(list), err)
		}
		if e, err := s.Last(t.Context(), events.SessionSubject(tenant, "abc")); err != nil || e.Seq != entryAt {
			t.Errorf("the last entry is at %d, error %v", e.Seq, err)
		}
		if _, err := s.Append(t.Context(), entry, 0); err == nil {
			// The same event again is found among the kept events.
		} else {
			t.Errorf("a kept event is recorded again: %v", err)
		}
		if _, err := s.Append(t.Context(), requested(kept), 0); !errors.Is(err, events.ErrConflict) {
			t.Errorf("a kept execution is requested again: %v", err)
		}
		if err := s.Health(t.Context()); err != nil {
			t.Error(err)
		}
	}
	check(s)
	check(storetest.Open(t, server, jetstream.Options{}))
	if d := s.Removed(); d.Volume != 1 || d.Last != one.Last || d.Seq != first || d.Kept.Events != 3 {
		t.Errorf("removed: %+v", d)
	}

	// Events that the first removal kept are kept again, or removed.
	mustRemove(t, s, removal(2, 1, 4, end))
	want = []uint64{1, 4, end}
	for seq := two.Last + 1; seq <= mustLast(t, s); seq++ {
		want = append(want, seq)
	}
	entryAt = mustAppend(t, s, entry, 0) // no event of it is left
	want = append(want, entryAt)
	check(s)
	check(storetest.Open(t, server, jetstream.Options{}))
	if list, err := s.Volumes(t.Context()); err != nil || len(list) != 1 || list[0].Number != 3 {
		t.Errorf("volumes: %+v, error %v", list, err)
	}
}

// An execution whose last event is in an older volume than the newest removed one is read like
// any other.
func TestExecutionOfAnOlderRemovedVolume(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	kept, waiting := newID(), newID()
	want := []uint64{mustAppend(t, s, requested(kept), 0), mustAppend(t, s, started(kept, 1), 0)}
	want = append(want, mustAppend(t, s, ended(kept), int64(want[1])))
	request := mustAppend(t, s, requested(waiting), 0)
	keep := append(slices.Clone(want), request)
	for n := range events.Volume(3) {
		sealProven(t, s)
		mustRemove(t, s, removal(n+1, keep...))
		for _, s := range []*jetstream.Store{s, storetest.Open(t, server, jetstream.Options{})} {
			if list, err := s.Execution(t.Context(), tenant, kept); err != nil || !slices.Equal(positions(list), want) {
				t.Errorf("after %d removals the control events are at %v, error %v", n+1, positions(list), err)
			}
			if list, err := s.Execution(t.Context(), tenant, waiting); err != nil || !slices.Equal(positions(list), []uint64{request}) {
				t.Errorf("after %d removals the request that waits is at %v, error %v", n+1, positions(list), err)
			}
			var all []events.Event
			err := s.ExecutionEvents(t.Context(), tenant, kept, 0, func(e events.Event) error {
				all = append(all, e)
				return nil
			})
			if err != nil || !slices.Equal(positions(all), want) {
				t.Errorf("after %d removals the events are at %v, error %v", n+1, positions(all), err)
			}
		}
	}
}

func TestNotRemovable(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	refused := func(n events.Volume, reason string) {
		t.Helper()
		_, err := s.Remove(t.Context(), removal(n))
		if no, ok := errors.AsType[*events.NotRemovableError](err); !ok || no.Volume != n || no.Reasons[0] != reason {
			t.Errorf("removing volume %d: %v", n, err)
		}
	}
	mustAppend(t, s, requested(newID()), 0)
	refused(0, "there is no such volume")
	refused(2, "there is no such volume")
	refused(1, "it is the active volume; seal it first")
	seal(t, s)
	refused(1, "it was sealed without a checkpoint, so its content could not be verified after the removal")

	s = storetest.Start(t)
	mustAppend(t, s, requested(newID()), 0)
	sealProven(t, s)
	mustAppend(t, s, requested(newID()), 0)
	sealProven(t, s)
	refused(2, "volume 1 is older; remove the oldest volume first")
	mustRemove(t, s, removal(1))
	at := s.Removed().Seq
	refused(1, fmt.Sprintf("it was removed already: event %d records that volume 1 and all volumes before it were removed", at))
	if last := mustLast(t, s); last != at {
		t.Errorf("refusals were recorded: the ledger ends at %d", last)
	}
	// Another event may have recorded the removal of volume 1, which the text must not hide.
	mustRemove(t, s, removal(2))
	refused(1, fmt.Sprintf("it was removed already: event %d records that volume 2 and all volumes before it were removed", s.Removed().Seq))
}

// TestRemovalIsFinishedAfterACrash stops after the event, before the stream is deleted.
func TestRemovalIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	v := sealProven(t, s)
	r := removal(1, 1)
	crash := errors.New("crash")
	r.OnRecorded = func(d *events.LedgerVolumeRemoved) error {
		if d.Last != v.Last {
			t.Errorf("OnRecorded received %+v", d)
		}
		return crash
	}
	if _, err := s.Remove(t.Context(), r); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	read := storetest.Open(t, server, jetstream.Options{Client: jet.Options{ReadExisting: true}}) // it changes nothing
	if streams := stream.StreamsOf(t, read.Ledger); !cmp.Equal(streams, []string{"LEDGER-0001", "LEDGER-0002"}) {
		t.Errorf("streams %v", streams)
	}
	again := storetest.Open(t, server, jetstream.Options{})
	if streams := stream.StreamsOf(t, again.Ledger); !cmp.Equal(streams, []string{"LEDGER-0002"}) {
		t.Errorf("streams %v", streams)
	}
	for _, s := range []*jetstream.Store{s, read, again} {
		all, err := s.Read(t.Context(), 0, 100)
		if err != nil || !cmp.Equal(positions(all), []uint64{1, v.Last + 1, v.Last + 2}) || !all[0].Kept() || all[1].Kept() || all[1].Removed != v.Last {
			t.Errorf("read %v, error %v", positions(all), err)
		}
	}
}

// TestMissingVolume has no event that records the removal.
func TestMissingVolume(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	mustAppend(t, s, requested(newID()), 0)
	sealProven(t, s)
	stream.DeleteStream(t, s.Ledger, "LEDGER-0001")
	for _, opts := range []jetstream.Options{{}, {Client: jet.Options{ReadExisting: true}}} {
		publish, consume := connections(t, server)
		if _, err := jetstream.Open(t.Context(), publish, consume, opts); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("opened with %v", err)
		}
	}
}

// A ledger that is open although a volume is missing returns the events before it, and then damage: it
// does not continue with the next volume.
func TestReadsEndBeforeAMissingVolume(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"LEDGER-0001", "LEDGER-0002"} {
		server := storetest.StartServer(t, t.TempDir())
		s := storetest.Open(t, server, jetstream.Options{})
		fill(t, s, 2)
		list, err := s.Volumes(t.Context())
		if err != nil || len(list) != 3 {
			t.Fatalf("volumes %v, %v", list, err)
		}
		stream.DeleteStream(t, s.Ledger, missing)
		want := list[0].Last
		if missing == "LEDGER-0001" {
			want = 0
		}
		var reported []error
		damaged := storetest.Open(t, server, jetstream.Options{OnDamage: func(err error) { reported = append(reported, err) }})
		if len(reported) == 0 {
			t.Errorf("without %s, no damage is reported", missing)
		}
		got := uint64(0)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err = damaged.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			got = batch[len(batch)-1].Seq
			return nil
		})
		if !errors.Is(err, events.ErrDamaged) || got != want {
			t.Errorf("without %s, following the ledger ends after position %d, want %d: %v", missing, got, want, err)
		}
		if _, err := damaged.Read(t.Context(), want, 10); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("without %s, reading after position %d returns %v", missing, want, err)
		}
		if list, err := damaged.Read(t.Context(), list[2].First-1, 10); err != nil || len(list) == 0 {
			t.Errorf("without %s, the events after it are %v, %v", missing, list, err)
		}
	}
}

// TestRemovalUnderLoad removes volumes during reads and writes.
func TestRemovalUnderLoad(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	other := storetest.Open(t, server, jetstream.Options{}) // another process
	const writers, rounds, volumes = 6, 60, 5
	ctx, stop := context.WithCancel(t.Context())
	var all, busy sync.WaitGroup
	done := make(chan struct{}, writers*rounds)
	for w := range writers {
		from := []*jetstream.Store{s, other}[w%2]
		busy.Go(func() {
			for range rounds {
				id := newID()
				first := mustAppend(t, from, requested(id), 0)
				at := mustAppend(t, from, started(id, 1), 0)
				mustAppend(t, from, ended(id), int64(at))
				done <- struct{}{}
				list, err := from.Execution(t.Context(), tenant, id)
				switch {
				case err != nil:
					t.Errorf("read an execution: %v", err)
				case len(list) == 3, first <= lastRemoved(s), first <= lastRemoved(other):
				default:
					t.Errorf("an execution of %d events", len(list))
				}
			}
		})
	}
	for _, from := range []*jetstream.Store{s, other} {
		all.Go(func() {
			before := uint64(0)
			err := from.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
				for _, e := range batch {
					if before+e.RemovedBefore+1 != e.Seq {
						return fmt.Errorf("event %d skips %d after %d", e.Seq, e.RemovedBefore, before)
					}
					before = e.Seq
				}
				return nil
			})
			if ctx.Err() == nil {
				t.Errorf("following ended: %v", err)
			}
		})
	}
	for n := range volumes {
		for range writers * rounds / (volumes + 1) {
			<-done
		}
		v := sealProven(t, s)
		// A volume is removed after it was exported. Other processes have noticed by then
		// that it is sealed.
		mustLast(t, other)
		mustRemove(t, s, removal(events.Volume(n+1), pendingVolumes(t, s, v.Last)...))
	}
	busy.Wait()
	stop()
	all.Wait()
	list, err := other.Read(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list[len(list)-1].Seq, mustLast(t, s); got != want {
		t.Errorf("it ends at %d, not %d", got, want)
	}
}

// pendingVolumes returns the events up to a position of executions that have not ended
// there.
func pendingVolumes(t testing.TB, s *jetstream.Store, last uint64) (keep []uint64) {
	t.Helper()
	list, err := s.Read(t.Context(), 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	over := map[string]bool{}
	for _, e := range list {
		over[e.About()] = over[e.About()] || e.Seq <= last && e.Type.Terminal()
	}
	for _, e := range list {
		if e.Seq <= last && e.Type.OfExecution() && !over[e.About()] {
			keep = append(keep, e.Seq)
		}
	}
	return keep
}

func lastRemoved(s *jetstream.Store) uint64 { return s.Removed().UpTo() }

func connections(t testing.TB, server *natsserver.Server) (publish, consume *nats.Conn) {
	t.Helper()
	for _, c := range []**nats.Conn{&publish, &consume} {
		conn, err := server.Conn("test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		*c = conn
	}
	return publish, consume
}

// A reader that does not know the volumes after those that another process removed
// finds them.
func TestRemovalOfAllKnownVolumes(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	mustAppend(t, s, started(newID(), 1), 0)
	sealProven(t, s)
	mustAppend(t, s, started(newID(), 1), 0)
	reader := storetest.Open(t, server, jetstream.Options{})
	sealProven(t, s)
	mustAppend(t, s, started(newID(), 1), 0)
	for _, n := range []events.Volume{1, 2} {
		mustRemove(t, s, removal(n))
	}
	last := mustLast(t, s)
	list, err := reader.Read(t.Context(), 0, int(last))
	if err != nil || len(list) == 0 || list[len(list)-1].Seq != last {
		t.Errorf("it reads %d events, the last is %d: %v", len(list), last, err)
	}
}
