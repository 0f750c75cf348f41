package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/runner"
)

var testActor = events.Actor{Principal: "tester", Transport: "embed"}

func seal(t testing.TB, s *jetstream.Store) events.VolumeInfo {
	t.Helper()
	v, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: testActor})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ended(id string) events.Event {
	return events.New(tenant, time.Now(), &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id, Attempt: 1}})
}

func mustLast(t testing.TB, s *jetstream.Store) uint64 {
	t.Helper()
	last, err := s.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// everything reads the whole ledger and checks that its positions have no hole.
func everything(t testing.TB, s *jetstream.Store) []events.Event {
	t.Helper()
	last := mustLast(t, s)
	all, err := s.Read(t.Context(), 0, int(last)+10)
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(all)) != last {
		t.Fatalf("%d events, but the ledger ends at %d", len(all), last)
	}
	for i, e := range all {
		if e.Seq != uint64(i)+1 {
			t.Fatalf("event %d of the ledger is at position %d", i+1, e.Seq)
		}
	}
	return all
}

func TestSealing(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	id := newID()
	if _, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked}); !errors.Is(err, events.ErrEmptyVolume) {
		t.Errorf("sealing an empty ledger: %v", err)
	}
	run := mustAppend(t, s, requested(id), 0)
	start := mustAppend(t, s, started(id, 1), 0)
	v := seal(t, s)
	if v.Number != 1 || v.First != 1 || v.Last != 3 || !v.Sealed {
		t.Errorf("sealed %+v", v)
	}
	if _, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked}); !errors.Is(err, events.ErrEmptyVolume) {
		t.Errorf("sealing a volume that was just opened: %v", err)
	}
	// The run continues in the next volume.
	cancel := mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionCancelRequested{ExecutionID: id}), int64(start))
	if cancel != 5 {
		t.Errorf("the first event after the sealing is at %d, want 5", cancel)
	}
	seal(t, s)
	end := mustAppend(t, s, ended(id), int64(cancel))

	all := everything(t, s)
	var types []events.Type
	for _, e := range all {
		types = append(types, e.Type)
	}
	want := []events.Type{
		events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeLedgerVolumeSealed,
		events.TypeLedgerVolumeOpened, events.TypeExecutionCancelRequested, events.TypeLedgerVolumeSealed,
		events.TypeLedgerVolumeOpened, events.TypeExecutionCompleted,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
	opened := all[3].Data.(*events.LedgerVolumeOpened)
	if diff := cmp.Diff(&events.LedgerVolumeOpened{
		Volume: 2, First: 4, Reason: events.VolumeAsked, Actor: testActor,
		Predecessor: events.Predecessor{Volume: 1, First: 1, Last: 3, LastID: all[2].ID},
	}, opened); diff != "" {
		t.Errorf("the opening (-want +got):\n%s", diff)
	}
	history, err := s.Execution(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	var at []uint64
	for _, e := range history {
		at = append(at, e.Seq)
	}
	if diff := cmp.Diff([]uint64{run, start, cancel, end}, at); diff != "" {
		t.Errorf("the execution's history (-want +got):\n%s", diff)
	}
	volumes, err := s.Volumes(t.Context())
	if err != nil || len(volumes) != 3 || volumes[2].First != 7 || volumes[2].Last != 8 || volumes[2].Sealed || !volumes[1].Sealed {
		t.Errorf("volumes %+v, %v", volumes, err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// An expected position on a subject applies to all volumes together.
func TestExpectedPositionsAcrossVolumes(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	// The ids of runs contain their creation time. The volumes are sealed later.
	id, other := events.NewID(time.Now().Add(-72*time.Hour)), events.DerivedID(tenant, "a key")
	mustAppend(t, s, requested(id), 0)
	start := started(id, 1)
	at := mustAppend(t, s, start, 0)
	seal(t, s)
	mustAppend(t, s, requested(other), 0)
	seal(t, s)

	for name, try := range map[string]struct {
		e     events.Event
		after int64
	}{
		"a request once more, with the same id": {requested(id), 0},
		"a request once more, by its key":       {requested(other), 0},
		"with no expected event":                {started(id, 2), 0},
		"after another event":                   {started(id, 2), int64(at) - 1},
		"after an event on another subject":     {started(id, 2), int64(at) + 1},
		"after a position beyond the end":       {started(id, 2), 1000},
	} {
		if _, err := s.Append(t.Context(), try.e, try.after); !errors.Is(err, events.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	if seq, err := s.Append(t.Context(), start, 0); err != nil || seq != at {
		t.Errorf("an event that is in a sealed volume: %d, %v; want %d", seq, err, at)
	}
	end := ended(id)
	last := mustAppend(t, s, end, int64(at))
	if _, err := s.Append(t.Context(), ended(id), int64(at)); !errors.Is(err, events.ErrConflict) {
		t.Errorf("a second end: %v, want a conflict", err)
	}
	if seq, err := s.Append(t.Context(), end, int64(at)); err != nil || seq != last {
		t.Errorf("the same end again: %d, %v; want %d", seq, err, last)
	}
	seal(t, s)
	if _, err := s.Append(t.Context(), ended(id), int64(last)); err != nil {
		t.Errorf("after the last in a sealed volume, between others: %v", err)
	}
}

// A process may die between any two steps of a rotation. The next process that opens
// the ledger completes the others.
func TestSealingIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	for steps := range 5 {
		for _, from := range []int{1, 2} {
			t.Run(fmt.Sprintf("volume %d after %d steps", from, steps), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				server := storetest.StartServer(t, dir)
				s := storetest.Open(t, server, jetstream.Options{})
				ids := make([]string, 3)
				for i := range ids {
					ids[i] = newID()
					mustAppend(t, s, requested(ids[i]), 0)
					if i == 0 && from == 2 {
						seal(t, s)
					}
				}
				before := mustLast(t, s)
				for _, step := range s.SealingSteps()[:steps] {
					if err := step(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				server.Close()

				s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
				volumes, err := s.Volumes(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if want := from + min(steps, 1); len(volumes) != want {
					t.Errorf("%d volumes, want %d", len(volumes), want)
				}
				all := everything(t, s)
				if steps > 0 {
					if n := uint64(len(all)); n != before+2 {
						t.Fatalf("%d events, want %d", n, before+2)
					}
					d, ok := all[before+1].Data.(*events.LedgerVolumeOpened)
					if !ok || d.First != before+2 || d.Predecessor.Last != before+1 || d.Reason != events.VolumeAsked {
						t.Errorf("event %d is %+v, not the opening", before+2, all[before+1].Data)
					}
				}
				for _, id := range ids {
					if _, err := s.Append(t.Context(), requested(id), 0); !errors.Is(err, events.ErrConflict) {
						t.Errorf("a second request: %v", err)
					}
				}
				mustAppend(t, s, requested(newID()), 0)
				if err := s.Health(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Twenty clients record runs while volumes are rotated. No event is lost, no expected
// position is violated, and each run ends once.
func TestSealingUnderLoad(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	const clients, runs, volumes = 20, 30, 8
	var left atomic.Int64
	left.Store(clients * runs)
	var running sync.WaitGroup
	ids := make(chan string, clients*runs)
	for range clients {
		running.Go(func() {
			for range runs {
				defer left.Add(-1)
				id := newID()
				if _, err := s.Append(t.Context(), requested(id), 0); err != nil {
					t.Error(err)
					return
				}
				at, err := s.Append(t.Context(), started(id, 1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Append(t.Context(), output(id, 1), -1); err != nil {
					t.Error(err)
					return
				}
				// Two goroutines try to end it.
				var won atomic.Int32
				var racers sync.WaitGroup
				for range 2 {
					racers.Go(func() {
						switch _, err := s.Append(t.Context(), ended(id), int64(at)); {
						case err == nil:
							won.Add(1)
						case !errors.Is(err, events.ErrConflict):
							t.Error(err)
						}
					})
				}
				racers.Wait()
				if won.Load() != 1 {
					t.Errorf("%d ends of one execution", won.Load())
				}
				ids <- id
			}
		})
	}
	// One follower reads all events as they are appended.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var followed atomic.Uint64
	following := make(chan error, 1)
	go func() {
		following <- s.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			for _, e := range batch {
				if e.Seq != followed.Load()+1 {
					return fmt.Errorf("position %d follows %d", e.Seq, followed.Load())
				}
				followed.Store(e.Seq)
			}
			return nil
		})
	}()
	for n := 1; n < volumes; {
		// Only after an event was recorded in the volume, and for a bounded number of
		// rotations.
		if left.Load() == 0 {
			mustAppend(t, s, requested(newID()), 0)
		}
		if _, err := s.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeFull, Actor: testActor}); err == nil {
			n++
		} else if !errors.Is(err, events.ErrEmptyVolume) {
			t.Fatal(err)
		}
		if t.Failed() {
			break
		}
	}
	running.Wait()
	close(ids)

	ends := map[string]int{}
	for _, e := range everything(t, s) {
		if e.Type.Terminal() {
			ends[e.About()]++
		}
	}
	n := 0
	for id := range ids {
		n++
		if ends[id] != 1 {
			t.Errorf("%d ends of execution %s", ends[id], id)
		}
		history, err := s.Execution(t.Context(), tenant, id)
		if err != nil || len(history) != 3 {
			t.Errorf("history of %s: %d events, %v", id, len(history), err)
		}
		lines := 0
		_, err = s.EachAbout(t.Context(), events.OutSubject(tenant, id), id, history[0].Seq, func(events.Event) error { lines++; return nil })
		if err != nil || lines != 1 {
			t.Errorf("output of %s: %d events, %v", id, lines, err)
		}
	}
	if n != clients*runs || len(ends) != n {
		t.Errorf("%d runs, %d ended", n, len(ends))
	}
	last := mustLast(t, s)
	for followed.Load() < last {
		select {
		case err := <-following:
			t.Fatalf("the follower ended at %d of %d: %v", followed.Load(), last, err)
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	if err := <-following; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	list, err := s.Volumes(t.Context())
	if err != nil || len(list) != volumes {
		t.Errorf("%d volumes, %v; want %d", len(list), err, volumes)
	}
}

// A process notices that another one has sealed the volume: when it appends, follows or
// waits for work.
func TestAnotherProcessSeals(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	other := storetest.Open(t, server, jetstream.Options{})
	first := newID()
	mustAppend(t, s, requested(first), 0)

	work := make(chan string)
	consume(t, s, 2, func(ctx context.Context, d runner.Delivery) {
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
		work <- d.Event.About()
	})
	if got := soon(t, "work", work); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen, done := make(chan events.Event, 100), make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			for _, e := range batch {
				seen <- e
			}
			return nil
		})
	}()
	if e := soon(t, "event", seen); e.Seq != 1 {
		t.Errorf("position %d", e.Seq)
	}
	seal(t, other)
	id := newID()
	mustAppend(t, other, requested(id), 0)
	for want := uint64(2); want <= 4; want++ {
		if e := soon(t, "event", seen); e.Seq != want {
			t.Errorf("position %d, want %d", e.Seq, want)
		}
	}
	if got := soon(t, "work", work); got != id {
		t.Errorf("got %s, want %s", got, id)
	}
	seal(t, other)
	if seq := mustAppend(t, s, started(id, 1), 0); seq != 7 {
		t.Errorf("appended at %d, want 7", seq)
	}
	if _, err := other.Append(t.Context(), started(id, 1), 0); !errors.Is(err, events.ErrConflict) {
		t.Errorf("a second start: %v", err)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Requests in sealed volumes are delivered oldest first, before later ones, and are
// delivered again after a nak.
func TestWorkOfSealedVolumes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	var ids []string
	for range 4 {
		ids = append(ids, newID())
		mustAppend(t, s, requested(ids[len(ids)-1]), 0)
		seal(t, s)
	}
	ids = append(ids, newID())
	mustAppend(t, s, requested(ids[4]), 0)

	var mu sync.Mutex
	var order []string
	done := make(chan string, 20)
	given := false
	run := func(ctx context.Context, d runner.Delivery) {
		mu.Lock()
		back := d.Event.About() == ids[1] && !given
		given = given || back
		order = append(order, d.Event.About())
		mu.Unlock()
		if back {
			if err := d.Nak(ctx, 0); err != nil {
				t.Error(err)
			}
			return
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
		done <- d.Event.About()
	}
	stop := consume(t, s, 1, run)
	for range ids {
		soon(t, "work", done)
	}
	mu.Lock()
	if diff := cmp.Diff([]string{ids[0], ids[1], ids[1], ids[2], ids[3], ids[4]}, order); diff != "" {
		t.Errorf("order of requests (-want +got):\n%s", diff)
	}
	mu.Unlock()
	stop()

	// Acknowledged requests stay so after a restart.
	server.Close()
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{Exclusive: true})
	consume(t, s, 1, run)
	last := newID()
	mustAppend(t, s, requested(last), 0)
	if got := soon(t, "work", done); got != last {
		t.Errorf("got %s, want %s", got, last)
	}
}

func TestTailCrossesVolumes(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	tail := s.NewTail()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 3)
	go func() { ended <- tail.Run(ctx, 0) }()
	seqs := make(chan uint64, 1000)
	raws := make(chan uint64, 1000)
	go func() {
		ended <- tail.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			for _, e := range batch {
				seqs <- e.Seq
			}
			return nil
		})
	}()
	go func() {
		ended <- tail.FollowRaw(ctx, 0, func(batch []events.Stored, _ uint64) error {
			for _, m := range batch {
				raws <- m.Seq
			}
			return nil
		})
	}()
	for i := range 60 {
		mustAppend(t, s, requested(newID()), 0)
		if i%10 == 9 {
			seal(t, s)
		}
	}
	for want := uint64(1); want <= mustLast(t, s); want++ {
		if got := soon(t, "event", seqs); got != want {
			t.Fatalf("position %d, want %d", got, want)
		}
		if got := soon(t, "message", raws); got != want {
			t.Fatalf("raw position %d, want %d", got, want)
		}
	}
	stop()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// A hole is accepted only if the opening of a volume records it.
func TestVolumeAfterAHole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	at := mustAppend(t, s, started(id, 1), 0)
	if _, err := s.OpenVolume(t.Context(), 2, "", testActor); err == nil {
		t.Error("a position that is taken was accepted")
	}
	v, err := s.OpenVolume(t.Context(), 10, "positions 3 to 9 were lost", testActor)
	if err != nil || v.Number != 2 || v.First != 10 {
		t.Fatalf("opened %+v, %v", v, err)
	}
	if seq := mustAppend(t, s, ended(id), int64(at)); seq != 11 {
		t.Errorf("appended at %d", seq)
	}
	if all, err := s.Read(t.Context(), 0, 100); err != nil || len(all) != 4 {
		t.Errorf("the ledger that opened the volume has %d events, %v", len(all), err)
	}
	server.Close()
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	all, err := s.Read(t.Context(), 0, 100)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d events, %v", len(all), err)
	}
	d, ok := all[2].Data.(*events.LedgerVolumeOpened)
	if !ok || all[2].Seq != 10 || d.Reason != events.VolumeDamaged || d.Hole == nil || *d.Hole != (events.Hole{From: 3, To: 9}) || !strings.Contains(d.Note, "lost") {
		t.Errorf("the opening is %+v", all[2])
	}
	if history, err := s.Execution(t.Context(), tenant, id); err != nil || len(history) != 3 {
		t.Errorf("history %v, %v", history, err)
	}
	if last := mustLast(t, s); last != 11 {
		t.Errorf("the ledger ends at %d", last)
	}
}

// An event about an object comes after the id of the object was made, so volumes that ended long before
// need not be read for it.
func TestEarliestPosition(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{})
	fill(t, s, 2)
	list, err := s.Volumes(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("volumes %v, %v", list, err)
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		id   string
		want uint64
	}{
		{"a name", 1},
		{"", 1},
		{events.NewID(time.Now().Add(-3 * day)), 1},
		{events.NewID(time.Now()), 1}, // clocks differ
		{events.NewID(time.Now().Add(3 * day)), list[2].First},
	} {
		if got := s.EarliestPosition(c.id); got != c.want {
			t.Errorf("the earliest position of %q is %d, want %d", c.id, got, c.want)
		}
	}
}
