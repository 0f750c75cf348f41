package stream_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

func noWork(context.Context, events.Volume) (uint64, error) { return 0, nil }

func mustArchive(t testing.TB, s *jetstream.Store, n events.Volume) events.VolumeInfo {
	t.Helper()
	v, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: n, PendingWork: noWork})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// record appends an execution with output, or a part of it, and returns its id.
func record(t testing.TB, s *jetstream.Store, whole bool) string {
	t.Helper()
	id := newID()
	mustAppend(t, s, requested(id), 0)
	if whole {
		at := mustAppend(t, s, started(id, 1), 0)
		mustAppend(t, s, output(id, 1), -1)
		mustAppend(t, s, ended(id), int64(at))
	}
	return id
}

// answers returns what lookups of all kinds find.
func answers(t testing.TB, s *jetstream.Store, ids []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	note := func(what string, list []events.Event, err error) {
		text := fmt.Sprint(err)
		for _, e := range list {
			text += fmt.Sprintf(" %d %s %s %d;", e.Seq, e.ID, e.Type, e.LostBefore)
		}
		all[what] = text
	}
	list, err := s.Read(t.Context(), 0, 100_000)
	note("everything", list, err)
	for _, id := range ids {
		list, err := s.Execution(t.Context(), tenant, id)
		note("execution "+id, list, err)
		list = nil
		err = s.ExecutionEvents(t.Context(), tenant, id, 0, func(e events.Event) error { list = append(list, e); return nil })
		note("events of "+id, list, err)
		e, err := s.Last(t.Context(), events.ExecSubject(tenant, id))
		note("end of "+id, []events.Event{e}, err)
		e, err = s.Next(t.Context(), events.ExecSubject(tenant, id), 3)
		note("next of "+id, []events.Event{e}, err)
	}
	list = nil
	last, err := s.Each(t.Context(), events.OutSubject(tenant, ids[0]), 2, func(e events.Event) error { list = append(list, e); return nil })
	note(fmt.Sprintf("output, last %d", last), list, err)
	list = nil
	err = s.EachMatching(t.Context(), events.WebhookSubjects(), func(e events.Event) error { list = append(list, e); return nil })
	note("webhooks", list, err)
	list = nil
	err = s.EachMatching(t.Context(), events.VolumeSubject(events.LedgerTenant), func(e events.Event) error { list = append(list, e); return nil })
	note("volumes", list, err)
	list = nil
	end, err := s.LastSeq(t.Context()) // a follower may know less when it receives a page
	if err != nil {
		t.Error(err)
	}
	err = s.Follow(t.Context(), 5, func(batch []events.Event, _ uint64) error {
		if list = append(list, batch...); list[len(list)-1].Seq >= end {
			return errEnough
		}
		return nil
	})
	note("followed", list, err)
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	return all
}

// fill records executions in n sealed volumes and the active one, and returns their ids.
func fill(t testing.TB, s *jetstream.Store, n int) (ids []string) {
	t.Helper()
	for i := range n {
		for range 5 {
			ids = append(ids, record(t, s, true))
		}
		// One run ends in the next volume.
		id := newID()
		mustAppend(t, s, requested(id), 0)
		mustAppend(t, s, events.New(tenant, time.Now(), &events.WebhookRegistered{WebhookID: newID(), Content: events.Plain(events.WebhookContent{URL: "https://example.org/" + fmt.Sprint(i)}), Actor: testActor}), 0)
		sealProven(t, s)
		mustAppend(t, s, ended(id), 0)
		ids = append(ids, id)
	}
	return append(ids, record(t, s, true), newID())
}

// A ledger with archived volumes has the answers of one with streams, in the process that archives,
// in another one, and in the next.
func TestArchivedVolumesHaveTheSameAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	ids := fill(t, s, 5)
	other := storetest.Open(t, server, jetstream.Options{})
	want := answers(t, s, ids)
	for _, n := range []events.Volume{2, 1, 3, 4} {
		v := mustArchive(t, s, n)
		if !v.Archived || !v.Sealed || v.Number != n || v.Bytes == 0 || v.Began.IsZero() || v.Ended.Before(v.Began) {
			t.Errorf("archived %+v", v)
		}
		for name, s := range map[string]*jetstream.Store{"this": s, "another": other, "a new": storetest.Open(t, server, jetstream.Options{})} {
			if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
				t.Fatalf("%s process, after volume %d: %s", name, n, diff)
			}
			s.ClearCache() // the next answers read the archives again
		}
	}
	if got := stream.StreamsOf(t, s.Ledger); !slices.Equal(got, []string{"LEDGER-0005", "LEDGER-0006"}) {
		t.Errorf("streams %v", got)
	}
	server.Close()
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
		t.Error(diff)
	}
	list, err := s.Volumes(t.Context())
	for i, v := range list {
		if err != nil || v.Archived != (i < 4) || v.First == 0 {
			t.Errorf("%+v, error %v", v, err)
		}
	}
	// Expectations hold across archives, and an event is found in one.
	for _, id := range ids[:len(ids)-1] {
		if _, err := s.Append(t.Context(), requested(id), 0); !errors.Is(err, events.ErrConflict) {
			t.Errorf("a second request: %v", err)
		}
	}
	first, err := s.Last(t.Context(), events.ExecSubject(tenant, ids[0]))
	if err != nil {
		t.Fatal(err)
	}
	if seq, err := s.Append(t.Context(), first, int64(first.Seq-2)); err != nil || seq != first.Seq {
		t.Errorf("an archived event again: %d, %v", seq, err)
	}
}

// A volume stays a stream while runs of it have not ended or are in the hands of a runner, while it
// is active, and if events of it are lost.
func TestNotArchivable(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	id := record(t, s, false)
	seal(t, s)
	try := func(n events.Volume, want string) {
		t.Helper()
		_, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: n, PendingWork: s.PendingWork})
		if refused, ok := errors.AsType[*stream.NotArchivableError](err); !ok || !strings.Contains(refused.Reason, want) {
			t.Errorf("volume %d: %v, want %q", n, err, want)
		}
	}
	try(1, "1 of its run requests")
	try(2, "active")
	try(3, "no stream")
	if _, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: noWork}); err == nil || !strings.Contains(err.Error(), id+" has not ended") {
		t.Errorf("a run that has not ended: %v", err)
	}
	want := errors.New("the tree has another leaf")
	mustAppend(t, s, ended(id), 0)
	_, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: noWork, Verify: func(events.Stored) error { return want }})
	if !errors.Is(err, want) {
		t.Errorf("an archive that differs from the tree: %v", err)
	}
	if got := stream.StreamsOf(t, s.Ledger); len(got) != 2 {
		t.Errorf("streams %v", got)
	}
	mustArchive(t, s, 1)
	try(1, "no stream")
}

// A process may die before or after any write of an archive. The ledger then has the same answers,
// and the next call archives the volume.
func TestArchivingIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	for writes := 1; ; writes++ {
		dir := t.TempDir()
		server := storetest.StartServer(t, dir)
		ctx, cancel := context.WithCancel(t.Context())
		var left atomic.Int64
		left.Store(1 << 40)
		s := storetest.Open(t, server, jetstream.Options{Client: jet.Options{OnWrite: func(int) {
			if left.Add(-1) == 0 {
				cancel()
			}
		}}})
		ids := fill(t, s, 2)
		for range 60 { // several frames
			mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionOutput{ExecutionID: ids[0], Attempt: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: incompressible(20 << 10)}}})}), -1)
		}
		sealProven(t, s)
		want := answers(t, s, ids)
		left.Store(int64(writes))
		_, err := s.Archive(ctx, stream.ArchiveOptions{Volume: 3, PendingWork: noWork})
		cancel()
		if err == nil {
			if writes < 8 {
				t.Errorf("an archive needs %d writes", writes)
			}
			return
		}
		server.Close()
		server = storetest.StartServer(t, dir)
		s = storetest.Open(t, server, jetstream.Options{})
		if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
			t.Fatalf("after write %d: %s", writes, diff)
		}
		mustArchive(t, s, 3)
		if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
			t.Fatalf("archived after write %d: %s", writes, diff)
		}
		server.Close()
	}
}

// A crash after the manifest is stored leaves a stream and an archive. The stream counts, and
// the archive is written again.
func TestArchiveAndStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	ids := fill(t, s, 2)
	want := answers(t, s, ids)
	crash := errors.New("crash")
	asked := 0
	_, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: 1, PendingWork: func(context.Context, events.Volume) (uint64, error) {
		if asked++; asked == 2 { // after the manifest, before the list of volumes
			return 0, crash
		}
		return 0, nil
	}})
	if !errors.Is(err, crash) {
		t.Fatal(err)
	}
	server.Close()
	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	if got := stream.StreamsOf(t, s.Ledger); len(got) != 3 {
		t.Errorf("streams %v", got)
	}
	if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
		t.Fatal(diff)
	}
	mustArchive(t, s, 1)
	if diff := cmp.Diff(want, answers(t, s, ids)); diff != "" {
		t.Error(diff)
	}
}

// Removing an archived volume removes its archive and keeps the events that are needed.
func TestRemovalOfArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	ids := fill(t, s, 3)
	for n := range events.Volume(2) {
		mustArchive(t, s, n+1)
	}
	history, err := s.Execution(t.Context(), tenant, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	keep := positions(history)
	one, _, err := s.Removable(t.Context(), 1)
	if err != nil || !one.Archived {
		t.Fatalf("%+v, error %v", one, err)
	}
	failed := errors.New("crash")
	r := removal(1, keep...)
	r.OnRecorded = func(*events.LedgerVolumeRemoved) error { return failed }
	if _, err := s.Remove(t.Context(), r); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if n := stream.ArchivePartsOf(t, s.Ledger, 1); n == 0 {
		t.Error("the archive was deleted before the removal is remembered")
	}
	check := func(s *jetstream.Store) {
		t.Helper()
		all, err := s.Read(t.Context(), 0, 1000)
		if err != nil || !slices.Equal(positions(all)[:len(keep)], keep) || all[len(keep)].RemovedBefore == 0 {
			t.Errorf("%v, error %v", positions(all), err)
		}
		if list, err := s.Execution(t.Context(), tenant, ids[0]); err != nil || len(list) != len(history) {
			t.Errorf("%d events, error %v", len(list), err)
		}
		if list, err := s.Execution(t.Context(), tenant, ids[1]); err != nil || len(list) != 0 {
			t.Errorf("%d events of a removed execution, error %v", len(list), err)
		}
	}
	check(s)
	server.Close()
	server = storetest.StartServer(t, dir)
	s = storetest.Open(t, server, jetstream.Options{})
	check(s)
	if n := stream.ArchivePartsOf(t, s.Ledger, 1); n != 0 {
		t.Errorf("%d parts of a removed volume are left", n)
	}
	mustRemove(t, s, removal(2, keep...))
	check(s)
	check(storetest.Open(t, server, jetstream.Options{}))
	if n := stream.ArchivePartsOf(t, s.Ledger, 2); n != 0 {
		t.Errorf("%d parts of a removed volume are left", n)
	}
	// The removal is found in an archive too.
	record(t, s, true)
	sealProven(t, s)
	mustArchive(t, s, 3)
	mustArchive(t, s, 4)
	s = storetest.Open(t, server, jetstream.Options{})
	check(s)
	if d := s.Removed(); d.Volume != 2 {
		t.Errorf("removed %+v", d)
	}
}

// A part of an archive that is missing is damage, for every lookup that needs it.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	ids := fill(t, s, 2)
	mustArchive(t, s, 1)
	for _, part := range []string{"filter.*", "index.*", "frame.*", "manifest"} {
		stream.PurgeParts(t, s.Ledger, 1, part)
		var found atomic.Bool
		again := storetest.Open(t, server, jetstream.Options{OnDamage: func(error) { found.Store(true) }})
		_, err := again.Execution(t.Context(), tenant, ids[0])
		if !errors.Is(err, events.ErrDamaged) && part != "manifest" || !found.Load() {
			t.Errorf("%s: %v, reported %v", part, err, found.Load())
		}
	}
}

// incompressible returns text of n bytes that hardly gets shorter.
func incompressible(n int) string {
	raw := make([]byte, n/2)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}

// A reader that meets the removal of archived volumes, by this process or another one, gets the
// kept events. It does not report the purged archives as damage.
func TestRemovalOfArchivesDuringReads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		isAnother bool
		read      func(t *testing.T, s *jetstream.Store, remove func()) []uint64
	}{
		{"by subject", false, readVolumeEvents},
		{"by subject, in another process", true, readVolumeEvents},
		{"in order, in another process", true, func(t *testing.T, s *jetstream.Store, remove func()) []uint64 {
			remove()
			list, err := s.Read(t.Context(), 0, 1000)
			if err != nil {
				t.Error(err)
			}
			return positions(list)[:min(3, len(list))]
		}},
		{"an append, in another process", true, func(t *testing.T, s *jetstream.Store, remove func()) []uint64 {
			remove()
			seq, err := s.Append(t.Context(), requested(newID()), 0)
			if err != nil || seq == 0 {
				t.Error(err)
			}
			if _, err := s.Last(t.Context(), events.ExecSubject(tenant, newID())); !errors.Is(err, events.ErrNotFound) {
				t.Error(err)
			}
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t, t.TempDir())
			s := storetest.Open(t, server, jetstream.Options{})
			fill(t, s, 3)
			one, two := mustArchive(t, s, 1), mustArchive(t, s, 2)
			opts := jetstream.Options{OnDamage: func(err error) { t.Error(err) }}
			reader := storetest.Open(t, server, opts)
			remover := reader
			if test.isAnother {
				remover = s
			}
			keep := []uint64{one.First, one.Last, two.Last}
			got := test.read(t, reader, func() {
				mustRemove(t, remover, removal(1, one.First, one.Last))
				mustRemove(t, remover, removal(2, keep...))
			})
			if got != nil && !slices.Equal(got, keep) {
				t.Errorf("positions %v, want %v", got, keep)
			}
		})
	}
}

// readVolumeEvents removes volumes 1 and 2 at the first event that volumes record about themselves. It
// returns position 1 and those of the next two events that volumes have at their ends.
func readVolumeEvents(t *testing.T, s *jetstream.Store, remove func()) []uint64 {
	list := []uint64{1}
	err := s.EachMatching(t.Context(), events.VolumeSubject(events.LedgerTenant), func(e events.Event) error {
		if len(list) == 1 {
			remove()
		}
		if e.Type == events.TypeLedgerVolumeSealed {
			list = append(list, e.Seq)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return list[:min(3, len(list))]
}
