package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"daybook/events"
	"daybook/internal/store/archive"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// atFirst returns a function for ArchiveOptions.Verify that calls fn before the first event, and then
// returns err.
func atFirst(fn func(), err error) func(events.Stored) error {
	var once sync.Once
	return func(events.Stored) error {
		once.Do(fn)
		return err
	}
}

// atSwitch returns a function for ArchiveOptions.PendingWork that calls fn when the archive is
// complete and the stream not yet deleted.
func atSwitch(fn func()) func(context.Context, events.Volume) (uint64, error) {
	calls := 0
	return func(context.Context, events.Volume) (uint64, error) {
		if calls++; calls == 2 {
			fn()
		}
		return 0, nil
	}
}

// Two processes may archive a volume at the same time, and one of them may die. No event is lost.
func TestTwoProcessesArchive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// first returns the options of the first process, which call second at some step.
		first func(second func()) stream.ArchiveOptions
		fails bool  // whether the call of the first process fails
		dies  error // of the second process, while it reads the archive back
	}{
		"the second one comes while the first one deletes the stream": {
			first: func(second func()) stream.ArchiveOptions { return stream.ArchiveOptions{PendingWork: atSwitch(second)} },
		},
		"the second one comes while the first one reads its archive": {
			first: func(second func()) stream.ArchiveOptions {
				return stream.ArchiveOptions{PendingWork: noWork, Verify: atFirst(second, nil)}
			},
			fails: true,
		},
		"the second one dies while the first one deletes the stream": {
			first: func(second func()) stream.ArchiveOptions { return stream.ArchiveOptions{PendingWork: atSwitch(second)} },
			dies:  errors.New("crash"),
		},
		"the second one dies while the first one reads its archive": {
			first: func(second func()) stream.ArchiveOptions {
				return stream.ArchiveOptions{PendingWork: noWork, Verify: atFirst(second, nil)}
			},
			fails: true,
			dies:  errors.New("crash"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := storetest.StartServer(t, dir)
			one := storetest.Open(t, server, jetstream.Options{})
			ids := fill(t, one, 2)
			two := storetest.Open(t, server, jetstream.Options{})
			want := answers(t, one, ids)
			resume, reached, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var other error
			opts := test.first(func() {
				go func() {
					defer close(done)
					_, other = two.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: noWork, Verify: atFirst(func() { close(reached); <-resume }, test.dies)})
				}()
				select {
				case <-reached:
				case <-done:
				}
			})
			opts.Volume = 1
			_, err := one.Archive(t.Context(), opts)
			if (err != nil) != test.fails {
				t.Errorf("the first process: %v", err)
			}
			close(resume)
			if <-done; !errors.Is(other, test.dies) {
				t.Errorf("the second process: %v", other)
			}
			for name, s := range map[string]*jetstream.Store{"first": one, "second": two, "third": storetest.Open(t, server, jetstream.Options{})} {
				if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
					t.Errorf("the %s process: %s", name, diff)
				}
			}
			if got := stream.StreamsOf(t, one.Ledger); len(got) != 2 && (!test.fails || test.dies == nil) {
				t.Errorf("streams %v", got)
			}
		})
	}
}

// A process whose archive was written by another one in the meantime does not complete it.
func TestSecondProcessArchivesFirst(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	one := storetest.Open(t, server, jetstream.Options{})
	ids := fill(t, one, 2)
	two := storetest.Open(t, server, jetstream.Options{})
	want := answers(t, one, ids)
	_, err := one.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: noWork, Verify: atFirst(func() { mustArchive(t, two, 1) }, nil)})
	if err == nil {
		t.Error("both processes completed the archive")
	}
	for name, s := range map[string]*jetstream.Store{"first": one, "second": two} {
		if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
			t.Errorf("the %s process: %s", name, diff)
		}
	}
}

// A complete archive that is damaged, of a volume that still has its stream, is written again.
func TestDamagedArchiveBesideItsStream(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	damaged := false
	s := storetest.Open(t, server, jetstream.Options{OnDamage: func(error) { damaged = true }})
	ids := fill(t, s, 2)
	want := answers(t, s, ids)
	for _, part := range []string{"frame.*", "index.*", "filter.*"} {
		crash := errors.New("crash")
		calls := 0
		_, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: func(context.Context, events.Volume) (uint64, error) {
			if calls++; calls == 2 {
				return 0, crash
			}
			return 0, nil
		}})
		if !errors.Is(err, crash) {
			t.Fatal(err)
		}
		stream.PurgeParts(t, s.Ledger, 1, part)
		if _, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: noWork}); !errors.Is(err, archive.ErrDamaged) {
			t.Errorf("%s: %v", part, err)
		}
	}
	mustArchive(t, s, 1)
	if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" || damaged {
		t.Errorf("damage reported: %v; %s", damaged, diff)
	}
}

// A request that the server does not answer, because it deletes the stream, is repeated at the
// archive; one that its caller gave up is not.
func TestUnansweredWhileArchived(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	fill(t, s, 2)
	unanswered := fmt.Errorf("get: %w", context.DeadlineExceeded)
	if stream.IsGoneAfter(t.Context(), s.Ledger, 1, func() {}, unanswered) {
		t.Error("a volume that has its stream is read from an archive")
	}
	if !stream.IsGoneAfter(t.Context(), s.Ledger, 1, func() { mustArchive(t, s, 1) }, unanswered) {
		t.Error("an archived volume is not read from its archive")
	}
	given, stop := context.WithCancel(t.Context())
	stop()
	if stream.IsGoneAfter(given, s.Ledger, 2, func() { mustArchive(t, s, 2) }, unanswered) {
		t.Error("a request is repeated after its caller gave up")
	}
}

// Reads of this process and of another one have the same answers while volumes are archived.
func TestReadsDuringArchiving(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	// The server does not answer requests that meet the deletion of a stream. They are repeated after
	// TryWait.
	opts := jetstream.Options{Client: jet.Options{TryWait: 5 * time.Second}}
	s := storetest.Open(t, server, opts)
	ids := fill(t, s, 6)
	other := storetest.Open(t, server, opts)
	want := answers(t, s, ids)
	archived := make(chan struct{})
	var readers sync.WaitGroup
	for _, reader := range []*jetstream.Store{s, s, other} {
		readers.Go(func() {
			for more := true; more; {
				select {
				case <-archived:
					more = false
				default:
				}
				if diff := cmp.Diff(want, answers(t, reader, ids)); diff != "" {
					t.Error(diff)
					return
				}
			}
		})
	}
	for n := range events.Volume(5) {
		mustArchive(t, s, n+1)
	}
	close(archived)
	readers.Wait()
}

// A batch that was answered in part when the stream was deleted continues at the archive.
func TestBatchContinuesAtArchive(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	ids := fill(t, s, 2)
	v := mustArchive(t, s, 1)
	read := func(r jet.Request) (list []events.Stored) {
		t.Helper()
		if _, err := s.GetBatchIn(t.Context(), 1, r, func(m events.Stored) error { list = append(list, m); return nil }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	of := func(subject string) string { return stream.StoredSubject(1, subject) }
	for name, r := range map[string]jet.Request{
		"by position":        {Seq: v.First, Batch: 4},
		"all by position":    {Seq: v.First, Batch: 1000},
		"by subject":         {Seq: v.First, NextBySubject: of(events.ExecSubject(tenant, "*")), Batch: 4},
		"all by subject":     {Seq: v.First, NextBySubject: of(events.ExecSubject(tenant, "*")), Batch: 1000},
		"newest by subjects": {MultiLast: []string{of(events.ExecSubject(tenant, ids[3])), of(events.ExecSubject(tenant, ids[0]))}, Batch: 2},
	} {
		want := read(r)
		if len(want) < 2 {
			t.Fatalf("%s: %d messages", name, len(want))
		}
		for n := range len(want) + 1 {
			rest, pending, err := stream.RestOfBatch(t.Context(), s.Ledger, 1, r, want[:n])
			if diff := cmp.Diff(want[n:], rest, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%s, after %d messages: %v, %s", name, n, err, diff)
			}
			if isMore := r.Batch == 4; r.NextBySubject != "" && isMore != (pending > 0) {
				t.Errorf("%s, after %d messages: %d pending", name, n, pending)
			}
		}
	}
}

// A batch that continues at the archive has about as many bytes as were asked for.
func TestBatchContinuesWithinItsBytes(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	fill(t, s, 2)
	v := mustArchive(t, s, 1)
	all, err := s.ReadRaw(t.Context(), v.First-1, 8)
	if err != nil || len(all) != 8 {
		t.Fatalf("%d messages: %v", len(all), err)
	}
	size := func(list []events.Stored) (n int) {
		for _, m := range list {
			n += len(m.Body)
		}
		return n
	}
	const some = 3
	for _, room := range []int{0, 1, len(all[some].Body), size(all[some:])} {
		r := jet.Request{Seq: v.First, Batch: 1000, MaxBytes: size(all[:some]) + room}
		rest, _, err := stream.RestOfBatch(t.Context(), s.Ledger, 1, r, all[:some])
		if err != nil {
			t.Fatal(err)
		}
		if n := size(rest); n > max(room, len(all[some].Body)) || room == 0 && n > 0 || room > 0 && n == 0 {
			t.Errorf("with %d bytes left: %d messages of %d bytes", room, len(rest), n)
		}
	}
}

// A batch that continues at kept events has no second message of a subject.
func TestBatchContinuesAtKeptEvents(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	id := newID()
	at := mustAppend(t, s, requested(id), 0)
	first := mustAppend(t, s, started(id, 1), 0)
	mustAppend(t, s, ended(id), int64(first))
	r := jet.Request{MultiLast: []string{stream.StoredSubject(1, events.RunSubject(tenant, "*", id)), stream.StoredSubject(1, events.ExecSubject(tenant, id))}, Batch: 2}
	var list []events.Stored
	if _, err := s.GetBatchIn(t.Context(), 1, r, func(m events.Stored) error { list = append(list, m); return nil }); err != nil || len(list) != 2 {
		t.Fatalf("%d messages: %v", len(list), err)
	}
	sealProven(t, s)
	mustRemove(t, s, removal(1, at, first))
	rest, _, err := stream.RestOfBatch(t.Context(), s.Ledger, 1, r, list)
	if err != nil || len(rest) != 0 {
		t.Errorf("%v, error %v", rest, err)
	}
}

// A read of an archive fails if the archive does not answer. It is not repeated without end.
func TestArchiveThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	fill(t, s, 2)
	mustArchive(t, s, 1)
	s.ClearCache()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream.PurgeParts(t, s.Ledger, 1, "frame.*")
	unanswered := fmt.Errorf("get: %w", context.DeadlineExceeded)
	stream.SetStarved(s.Ledger, func() error { return unanswered })
	if _, err := s.Read(ctx, 0, 10); !errors.Is(err, unanswered) || ctx.Err() != nil {
		t.Errorf("no answer: %v", err)
	}
	stream.DeleteStream(t, s.Ledger, stream.ArchiveStream)
	if _, err := s.Read(ctx, 0, 10); !jet.IsStreamGone(err) {
		t.Errorf("no stream: %v", err)
	}
}

// A process does not take a message for absent while it cannot look for the archive of a deleted
// stream.
func TestAbsentOnlyIfTheStreamExists(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	fill(t, s, 2)
	other := storetest.Open(t, server, jetstream.Options{})
	missing := func(before func()) error { return stream.MissingAfter(t.Context(), other.Ledger, 1, before) }
	if err := missing(func() {}); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("beside the stream: %v", err)
	}
	var unlock func()
	err := missing(func() {
		mustArchive(t, s, 1)
		unlock = stream.LockVolumes(other.Ledger) // as a rotation does
	})
	unlock()
	if err == nil || errors.Is(err, events.ErrNotFound) || jet.IsRejected(err) {
		t.Errorf("without the list of volumes: %v", err)
	}
	if err := missing(func() {}); err != nil {
		t.Errorf("of an archived volume: %v", err)
	}
}
