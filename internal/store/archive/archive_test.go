package archive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/archive"
)

// memory holds parts in memory.
type memory map[string][]byte

func (m memory) Put(_ context.Context, name string, part []byte) error {
	if m[name] != nil {
		return fmt.Errorf("part %s exists", name)
	}
	m[name] = slices.Clone(part)
	return nil
}

func (m memory) Get(_ context.Context, name string) ([]byte, error) {
	if m[name] == nil {
		return nil, events.ErrNotFound
	}
	return m[name], nil
}

func stored(seq uint64, subject string, body []byte) events.Stored {
	return events.Stored{Seq: seq, Subject: "ledger.0007." + subject, Header: map[string][]string{"ce-id": {fmt.Sprint(seq)}, "two": {"a", "b"}, "empty": {""}}, Body: body}
}

func neverLost(uint64, uint64) bool { return false }

// write writes an archive of volume 7.
func write(t testing.TB, list []events.Stored) (memory, archive.Manifest) {
	t.Helper()
	parts := memory{}
	w := archive.NewWriter(parts, archive.Info{Volume: 7, First: list[0].Seq, Last: list[len(list)-1].Seq, Began: time.Unix(1, 2), Ended: time.Unix(3, 4)})
	defer w.Close()
	for _, m := range list {
		if err := w.Add(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Commit(t.Context(), parts, m); err != nil {
		t.Fatal(err)
	}
	return parts, m
}

func open(t testing.TB, parts memory) *archive.Reader {
	t.Helper()
	r, err := archive.Open(t.Context(), parts, 7, archive.NewCache(1<<20), neverLost)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// history returns random events of n executions and of all other kinds.
func history(n int) []events.Stored {
	var list []events.Stored
	seq := uint64(1000)
	random := rand.New(rand.NewPCG(1, 2))
	add := func(subject string) {
		body := make([]byte, random.IntN(1500))
		for i := range body {
			body[i] = byte(random.IntN(30) + 'a')
		}
		list = append(list, stored(seq, subject, body))
		seq++
	}
	for i := range n {
		id := fmt.Sprintf("id-%d", i)
		add("t.run." + []string{"default", "other"}[i%2] + "." + id)
		add(events.ExecSubject("t", id))
		add(events.OutSubject("t", id))
		if i%7 == 0 {
			add(events.SessionSubject("u", fmt.Sprint("s", i%70)))
		}
		if i%100 == 0 {
			add(events.WebhookSubject("u", fmt.Sprint("w", i)))
		}
		add(events.ExecSubject("t", id))
	}
	return list
}

// Every lookup in an archive has the answer of a search of all events.
func TestLookups(t *testing.T) {
	t.Parallel()
	all := history(3000)
	parts, _ := write(t, all)
	r := open(t, parts)
	patterns := []string{
		"ledger.0007.t.run.*.id-17", "ledger.0007.t.run.default.id-18", "ledger.0007.t.run.other.id-18", "ledger.0007.t.exec.id-2999", "t.exec.id-2999", "ledger.0001.t.exec.id-0",
		"ledger.0007.u.exec.id-0", "ledger.0007." + events.OutSubject("t", "id-5"), "ledger.0007.u.session.s7", "ledger.0007.*.webhook.*", "ledger.0007.*.shred.*", "ledger.0007.*.run.default.*", "ledger.0007.nothing",
	}
	for _, pattern := range patterns {
		var want []events.Stored
		_, rest, _ := strings.Cut(strings.TrimPrefix(pattern, "ledger."), ".")
		if !strings.HasPrefix(pattern, "ledger.") {
			rest = pattern
		}
		for _, m := range all {
			subject, _ := events.WithoutVolume(m.Subject)
			a, b := strings.Split(rest, "."), strings.Split(subject, ".")
			if slices.EqualFunc(a, b, func(w, h string) bool { return w == "*" || w == h }) {
				want = append(want, m)
			}
		}
		var got []events.Stored
		for from := uint64(0); ; {
			list, more, err := r.Next(t.Context(), pattern, from, 7, 4000)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, list...)
			if !more {
				break
			}
			from = list[len(list)-1].Seq + 1
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: %d events, want %d", pattern, len(got), len(want))
		}
		last, err := r.Last(t.Context(), pattern)
		switch {
		case len(want) == 0 && !errors.Is(err, events.ErrNotFound):
			t.Errorf("%s: %v, want not found", pattern, err)
		case len(want) > 0 && (err != nil || last.Seq != want[len(want)-1].Seq):
			t.Errorf("%s: the last is %d, error %v; want %d", pattern, last.Seq, err, want[len(want)-1].Seq)
		}
		ends := map[string]uint64{}
		for _, m := range want {
			ends[m.Subject] = m.Seq
		}
		each, err := r.LastOfEach(t.Context(), pattern)
		if err != nil || len(each) != len(ends) {
			t.Errorf("%s: %d last events, error %v; want %d", pattern, len(each), err, len(ends))
		}
		for _, m := range each {
			if ends[m.Subject] != m.Seq {
				t.Errorf("%s: the last on %s is %d, want %d", pattern, m.Subject, m.Seq, ends[m.Subject])
			}
		}
	}
	var got []events.Stored
	for from := uint64(1); ; {
		list, err := r.Read(t.Context(), from, 100, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		got, from = append(got, list...), list[len(list)-1].Seq+1
	}
	if !reflect.DeepEqual(all, got) {
		t.Errorf("%d events, want %d", len(got), len(all))
	}
}

// The largest event, and one that cannot be compressed, are stored in a part that every NATS server
// takes.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	body := make([]byte, events.MaxEventBytes)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	list := []events.Stored{stored(1, "t.exec.a", body[:250<<10]), stored(2, "t.exec.b", body), stored(3, "t.exec.c", body[:10]), stored(4, "t.exec.d", body)}
	parts, _ := write(t, list)
	for name, part := range parts {
		if len(part) > 1<<20 {
			t.Errorf("part %s has %d bytes", name, len(part))
		}
	}
	got, err := open(t, parts).Read(t.Context(), 1, 10, 0)
	if err != nil || !reflect.DeepEqual(list, got) {
		t.Errorf("%d events, error %v", len(got), err)
	}
}

// What the start of a server needs is in the manifest: a removal, and the opening that records a loss.
func TestManifestOfLedgerEvents(t *testing.T) {
	t.Parallel()
	message := func(seq uint64, d events.Data) events.Stored {
		m, err := events.Encode(events.New(events.LedgerTenant, time.Now(), d))
		if err != nil {
			t.Fatal(err)
		}
		return events.Stored{Seq: seq, Subject: "ledger.0007." + m.Subject, Header: m.Header, Body: m.Body}
	}
	opened := message(50, &events.LedgerVolumeOpened{Volume: 7, First: 50, Reason: events.VolumeDamaged, Actor: events.Actor{Principal: "p", Transport: "t"}})
	removed := message(51, &events.LedgerVolumeRemoved{Volume: 2, First: 1, Last: 9, Actor: events.Actor{Principal: "p", Transport: "t"}})
	parts, want := write(t, []events.Stored{opened, removed, stored(52, "t.exec.a", []byte("{}"))})
	got := open(t, parts).Manifest()
	if !got.OpensLoss || got.RemovalAt != 51 || got.RemovedVolume != 2 || got.RemovedLast != 9 || got.First != 50 || got.Last != 52 || !got.Began.Equal(want.Began) {
		t.Errorf("%+v", got)
	}
	list, err := archive.DecodeFrame(parts[archive.Opening])
	if err != nil || !reflect.DeepEqual([]events.Stored{opened}, list) {
		t.Errorf("%v, error %v", list, err)
	}
	for _, name := range got.Parts() {
		if parts[name] == nil {
			t.Errorf("part %s is missing", name)
		}
		delete(parts, name)
	}
	if len(parts) != 1 {
		t.Errorf("%d parts are not in the manifest", len(parts)-1)
	}
}

// A part that is missing, cut off, of another archive or changed is damage, or a missing frame of
// positions that are recorded as lost. No answer lacks an event in silence.
func TestDamagedParts(t *testing.T) {
	t.Parallel()
	all := history(600)
	whole, m := write(t, all)
	other, _ := write(t, all[100:200])
	for _, name := range append(m.Parts(), archive.ManifestPart) {
		for _, how := range []string{"missing", "cut", "other", "empty", "changed"} {
			parts := memory{}
			for n, part := range whole {
				parts[n] = part
			}
			switch how {
			case "missing":
				delete(parts, name)
			case "cut":
				parts[name] = parts[name][:len(parts[name])/2]
			case "other":
				parts[name] = []byte("something else")
				for n, part := range other {
					if strings.HasPrefix(name, "frame.") == strings.HasPrefix(n, "frame.") && n != name {
						parts[name] = part
					}
				}
			case "empty":
				parts[name] = []byte{}
			case "changed":
				parts[name] = slices.Clone(parts[name])
				parts[name][len(parts[name])/2] ^= 0x80
			}
			r, err := archive.Open(t.Context(), parts, 7, archive.NewCache(1<<20), neverLost)
			found := err != nil
			if err == nil {
				list, rerr := r.Read(t.Context(), 1, len(all)+1, 0)
				found = rerr != nil
				if rerr == nil && len(list) != len(all) {
					t.Errorf("%s %s: %d events and no error", name, how, len(list))
				}
				for _, id := range []string{"id-0", "id-299", "id-599"} {
					list, _, err := r.Next(t.Context(), "ledger.0007.t.exec."+id, 0, 10, 0)
					found = found || err != nil
					if err == nil && len(list) != 2 {
						t.Errorf("%s %s: %d events of %s and no error", name, how, len(list), id)
					}
				}
			}
			if !found && !strings.HasPrefix(name, "index.") {
				t.Errorf("%s %s: no error", name, how)
			}
		}
	}
	lost := memory{}
	for n, part := range whole {
		lost[n] = part
	}
	frame := m.Parts()[1]
	first, last, ok := archive.FrameExtent(frame)
	if !ok {
		t.Fatalf("%s is no frame", frame)
	}
	delete(lost, frame)
	r, err := archive.Open(t.Context(), lost, 7, archive.NewCache(1<<20), func(f, l uint64) bool { return f == first && l == last })
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Read(t.Context(), 1, len(all)+1, 0)
	if err != nil || len(list) != len(all)-int(last-first+1) {
		t.Errorf("%d events, error %v", len(list), err)
	}
}

// A changed byte of any part is damage, or changes no answer.
func TestEachByteChanged(t *testing.T) {
	t.Parallel()
	var all []events.Stored
	opened, err := events.Encode(events.New(events.LedgerTenant, time.Now(), &events.LedgerVolumeOpened{Volume: 7, First: 9, Reason: events.VolumeDamaged, Actor: events.Actor{Principal: "p", Transport: "t"}}))
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, events.Stored{Seq: 9, Subject: "ledger.0007." + opened.Subject, Header: opened.Header, Body: opened.Body})
	for i := range 20 {
		all = append(all, stored(uint64(10+i), events.ExecSubject("t", fmt.Sprint("id-", i%10)), []byte(`{"a":1}`)))
	}
	whole, m := write(t, all)
	answers := func(parts memory) (got []any, err error) {
		r, err := archive.Open(t.Context(), parts, 7, archive.NewCache(1<<20), neverLost)
		if err != nil {
			return nil, err
		}
		if err := r.CheckIndex(t.Context()); err != nil {
			return nil, err
		}
		list, err := r.Read(t.Context(), 1, len(all)+1, 0)
		got = append(got, r.Manifest(), list)
		for i := range 12 { // two are unknown
			some, _, nerr := r.Next(t.Context(), "ledger.0007."+events.ExecSubject("t", fmt.Sprint("id-", i)), 0, 10, 0)
			got, err = append(got, some), errors.Join(err, nerr)
		}
		opening, oerr := archive.DecodeFrame(parts[archive.Opening])
		return append(got, opening), errors.Join(err, oerr)
	}
	want, err := answers(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(m.Parts(), archive.ManifestPart) {
		for i := range whole[name] {
			for _, bits := range []byte{1, 0x80, 0xff} {
				parts := maps.Clone(whole)
				parts[name] = slices.Clone(whole[name])
				parts[name][i] ^= bits
				got, err := answers(parts)
				switch {
				case err == nil && !reflect.DeepEqual(want, got):
					t.Errorf("%s, byte %d: other answers and no error", name, i)
				case err != nil && !errors.Is(err, archive.ErrDamaged):
					t.Errorf("%s, byte %d: %v", name, i, err)
				case err != nil && archive.CheckPart(7, name, parts[name]) == nil:
					t.Errorf("%s, byte %d: the check of the part finds nothing", name, i)
				}
			}
		}
	}
}

// The index that is written again over the frames is that of the archive, without the frames that
// are missing.
func TestIndexAgain(t *testing.T) {
	t.Parallel()
	all := history(600)
	whole, m := write(t, all)
	parts := memory{}
	w := archive.NewWriter(parts, m.Info)
	defer w.Close()
	left := 0
	for i, name := range m.Parts() {
		if _, _, ok := archive.FrameExtent(name); !ok || i == 1 {
			continue
		}
		parts[name] = whole[name]
		if err := w.AddFrame(t.Context(), whole[name]); err != nil {
			t.Fatal(err)
		}
		list, err := archive.DecodeFrame(whole[name])
		if err != nil {
			t.Fatal(err)
		}
		left += len(list)
	}
	again, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Commit(t.Context(), parts, again); err != nil {
		t.Fatal(err)
	}
	list, err := open(t, parts).Read(t.Context(), 1, len(all), 0)
	if err != nil || len(list) != left || left == len(all) {
		t.Errorf("%d of %d events, error %v", len(list), left, err)
	}
}

// An archive takes little memory for each execution, and less space than its events.
func TestSize(t *testing.T) {
	const executions = 20_000
	var list []events.Stored
	seq := uint64(1)
	raw := 0
	body := func(d events.Data) []byte {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		raw += len(b)
		return b
	}
	for range executions {
		id := events.NewID(time.Now())
		for _, m := range []struct {
			subject string
			d       events.Data
		}{
			{events.RunSubject("default", "default", id), &events.ExecutionRequested{ExecutionID: id, Pool: "default"}},
			{events.ExecSubject("default", id), &events.ExecutionStarted{ExecutionID: id, Attempt: 1}},
			{events.ExecSubject("default", id), &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id, Attempt: 1}}},
		} {
			list = append(list, stored(seq, m.subject, body(m.d)))
			seq++
		}
	}
	parts, m := write(t, list)
	index := 0
	for name, part := range parts {
		if !strings.HasPrefix(name, "frame.") {
			index += len(part)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := open(t, parts)
	for range 10 {
		if _, _, err := r.Next(t.Context(), "ledger.0007.default.exec.unknown", 0, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / executions
	t.Logf("%d events: %.2f bytes of memory for each execution, %.1f bytes of index, %.1f of frames, %d parts", m.Last, kept, float64(index)/executions, (float64(m.Bytes)-float64(index))/executions, len(parts))
	if kept > 8 {
		t.Errorf("an archive takes %.1f bytes of memory for each execution", kept)
	}
	runtime.KeepAlive(r)
}

// counted counts the reads of parts.
type counted struct {
	memory
	reads int
}

func (c *counted) Get(ctx context.Context, name string) ([]byte, error) {
	c.reads++
	return c.memory.Get(ctx, name)
}

// A cache that was cleared holds nothing, and what it held is read again. The filter stays.
func TestClearCache(t *testing.T) {
	t.Parallel()
	whole, _ := write(t, history(600))
	parts := &counted{memory: whole}
	cache := archive.NewCache(1 << 20)
	r, err := archive.Open(t.Context(), parts, 7, cache, neverLost)
	if err != nil {
		t.Fatal(err)
	}
	var first []events.Stored
	// First the filter, a page and a frame are read, then nothing, because all are cached.
	for i, want := range []int{3, 0, 2, 0, 2, 0, 2} {
		switch i {
		case 2:
			cache.Clear()
		case 3:
			cache.Expire(time.Hour) // they were just read
		case 4:
			cache.Expire(0)
		case 6: // reading in order keeps no frame
			if list, err := r.Read(t.Context(), 1, 1<<20, 0); err != nil || len(list) == 0 {
				t.Fatalf("%d events, error %v", len(list), err)
			}
			want = 1
		}
		before := parts.reads
		got, _, err := r.Next(t.Context(), "ledger.0007."+events.ExecSubject("t", "id-5"), 0, 10, 0)
		if err != nil || len(got) != 2 {
			t.Fatalf("%d events, error %v", len(got), err)
		}
		if i == 0 {
			first = got
		} else if !reflect.DeepEqual(first, got) {
			t.Errorf("lookup %d found other events", i)
		}
		if n := parts.reads - before; n != want {
			t.Errorf("lookup %d read %d parts, want %d", i, n, want)
		}
	}
}
