package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/ledger"
)

// countedReads counts the requests and the events that a ledger reads by subject.
type countedReads struct {
	*jetstream.Store
	requests, read *int
}

func (c countedReads) LastWithOther(ctx context.Context, subject, other string) (events.Event, uint64, error) {
	*c.requests++
	*c.read++
	return c.Store.LastWithOther(ctx, subject, other)
}

func (c countedReads) Each(ctx context.Context, subject string, after uint64, fn func(events.Event) error) (uint64, error) {
	*c.requests++
	return c.Store.Each(ctx, subject, after, c.counting(fn))
}

func (c countedReads) EachAbout(ctx context.Context, subject, about string, after uint64, fn func(events.Event) error) (uint64, error) {
	*c.requests++
	return c.Store.EachAbout(ctx, subject, about, after, c.counting(fn))
}

func (c countedReads) counting(fn func(events.Event) error) func(events.Event) error {
	return func(e events.Event) error {
		*c.read++
		return fn(e)
	}
}

// bucketHeap returns a heap whose events earlier versions recorded on the subject of heapA.
func bucketHeap(n int) string { return heapA[:2] + fmt.Sprintf("%062x", n) }

// onBucket stores events about heaps on the subjects of earlier versions.
func (b *testLedger) onBucket(list ...events.Data) {
	b.t.Helper()
	for _, d := range list {
		e := events.New(tenant, time.Now(), d)
		m, err := events.Encode(e)
		if err != nil {
			b.t.Fatal(err)
		}
		subject := events.HeapBucketSubject(tenant, e.About())
		if e.Type == events.TypeHeapMigrated {
			subject = events.MigrationBucketSubject(tenant, e.About())
		}
		// Its payload is unknown only to Append, which takes the subject from it.
		e.Data = &events.Unknown{Type: e.Type, StoredSubject: "ledger.0001." + subject, Concerns: e.About(), Body: m.Body}
		if _, err := b.store.Append(b.t.Context(), e, ledger.AnyPosition); err != nil {
			b.t.Fatal(err)
		}
	}
}

func tagged(heap string, tags map[string]string) *events.HeapTagged {
	return &events.HeapTagged{Heap: heap, Content: events.Plain(events.TagContent{Tags: tags}), Edit: events.EditSet, Actor: alice}
}

// Each operation on the tags of a heap reads as much in a ledger with a thousand tag edits of
// other heaps, and with many edits of the heap, as in a new one. It reads them in a new
// process, so that nothing is cached.
func TestTagReadsDoNotGrow(t *testing.T) {
	t.Parallel()
	cost := func(b *testLedger, do func(l *ledger.Ledger) error) (requests, read int) {
		t.Helper()
		l := ledger.New(countedReads{b.store, &requests, &read}, ledger.Options{})
		if err := do(l); err != nil {
			t.Fatal(err)
		}
		return requests, read
	}
	for name, fill := range map[string]func(b *testLedger){
		"new":           func(*testLedger) {},
		"edits of it":   func(b *testLedger) { b.setOften(heapA, 50) },
		"other heaps":   func(b *testLedger) { b.setHeaps(500) },
		"older version": func(b *testLedger) { b.onBucket(manyTagged(500)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openTestLedger(t, ledger.Options{})
			fill(b)
			for _, op := range []struct {
				name string
				do   func(l *ledger.Ledger) error
			}{
				{"set", func(l *ledger.Ledger) error {
					return second(l.SetTags(t.Context(), tenant, heapA, map[string]string{"a": "b"}, alice))
				}},
				{"delete", func(l *ledger.Ledger) error {
					return second(l.DeleteTags(t.Context(), tenant, heapA, []string{"a"}, alice))
				}},
				{"run", func(l *ledger.Ledger) error {
					run := b.start(b.submit(ledger.Submission{Tags: map[string]string{"by": "run"}}), false)
					_, err := l.Complete(t.Context(), run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}})
					return err
				}},
				{"collect", func(l *ledger.Ledger) error {
					return l.CollectHeaps(t.Context(), tenant, []events.HeapCollected{{Heap: heapA, Decided: b.lastSeq()}}, func(string, uint64) {})
				}},
				{"explain", func(l *ledger.Ledger) error {
					if err := l.ExplainRemoval(t.Context(), tenant, heapA); ledger.CodeOf(err) != ledger.CodeGone {
						return fmt.Errorf("not gone: %w", err)
					}
					return nil
				}},
			} {
				requests, read := cost(b, op.do)
				if requests > 2 || read > 2 {
					t.Errorf("%s takes %d requests and reads %d events", op.name, requests, read)
				}
			}
		})
	}
}

func manyTagged(n int) []events.Data {
	list := make([]events.Data, n)
	for i := range list {
		list[i] = tagged(bucketHeap(i), map[string]string{"n": fmt.Sprint(i)})
	}
	return list
}

func (b *testLedger) setOften(heap string, n int) {
	b.t.Helper()
	for i := range n {
		if _, err := b.SetTags(b.t.Context(), tenant, heap, map[string]string{"n": fmt.Sprint(i)}, alice); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *testLedger) setHeaps(n int) {
	b.t.Helper()
	for i := range n {
		if _, err := b.SetTags(b.t.Context(), tenant, bucketHeap(i), map[string]string{"n": fmt.Sprint(i)}, alice); err != nil {
			b.t.Fatal(err)
		}
	}
}

// The tags that an earlier version recorded, on a subject that heaps shared, count like those
// on the subject of the heap, also if a process of the earlier version still records some.
func TestTagsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	type tags = map[string]string
	after := func(want tags) {
		t.Helper()
		if got := b.tags(heapA); !maps.Equal(got, want) {
			t.Errorf("the tags are %v, want %v", got, want)
		}
	}
	remove := func(key string) {
		t.Helper()
		if _, err := b.DeleteTags(t.Context(), tenant, heapA, []string{key}, alice); err != nil {
			t.Fatal(err)
		}
	}
	b.onBucket(tagged(heapB, tags{"x": "y"}), tagged(heapA, tags{"a": "1", "b": "2", "c": "3"}), tagged(heapB, tags{"x": "z"}))
	remove("a")
	after(tags{"b": "2", "c": "3"})
	b.onBucket(tagged(heapA, tags{"b": "2", "c": "3", "d": "4"}), tagged(heapB, tags{}))
	remove("b")
	after(tags{"c": "3", "d": "4"})
	if _, err := b.SetTags(t.Context(), tenant, heapA, tags{"e": "5"}, alice); err != nil {
		t.Fatal(err)
	}
	remove("none")
	after(tags{"e": "5"})
}

// The tags of a run that an earlier version recorded are not recorded again, and an edit of
// that version is newer than the tags of a run that ended before it.
func TestRunTagsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	run := b.start(b.submit(ledger.Submission{Tags: map[string]string{"by": "run"}}), false)
	end, err := b.Finish(t.Context(), run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}})
	if err != nil {
		t.Fatal(err)
	}
	recorded := tagged(heapA, map[string]string{"by": "run"})
	recorded.Edit, recorded.ExecutionID, recorded.AppliesAt = events.EditRun, run.Plan.Request.ExecutionID, end.Seq
	b.onBucket(recorded)
	before := b.lastSeq()
	if err := b.Finalize(t.Context(), run.Plan.Request, end); err != nil {
		t.Fatal(err)
	}
	if b.lastSeq() != before {
		t.Error("the tags of the run are recorded a second time")
	}

	run = b.start(b.submit(ledger.Submission{Tags: map[string]string{"by": "second", "old": "1"}}), false)
	if end, err = b.Finish(t.Context(), run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}}); err != nil {
		t.Fatal(err)
	}
	b.onBucket(tagged(heapA, map[string]string{"by": "user", "new": "1"}))
	if err := b.Finalize(t.Context(), run.Plan.Request, end); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteTags(t.Context(), tenant, heapA, []string{"new", "old"}, alice); err != nil {
		t.Fatal(err)
	}
	if got, want := b.tags(heapA), (map[string]string{"by": "user"}); !maps.Equal(got, want) {
		t.Errorf("the tags are %v, want %v", got, want)
	}
}

// A collection that an earlier version recorded is found, and an edit of that version that the
// decision did not see prevents a collection.
func TestCollectionsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	b.onBucket(&events.HeapCollected{Heap: heapA}, tagged(heapB, nil))
	if err := b.ExplainRemoval(t.Context(), tenant, heapA); ledger.CodeOf(err) != ledger.CodeGone || !strings.Contains(err.Error(), "collected") {
		t.Errorf("%v", err)
	}
	decided := b.lastSeq()
	b.onBucket(tagged(heapB, map[string]string{"keep": "me"}))
	var collected []string
	list := []events.HeapCollected{{Heap: heapA, Decided: decided}, {Heap: heapB, Decided: decided}}
	if err := b.CollectHeaps(t.Context(), tenant, list, func(heap string, _ uint64) { collected = append(collected, heap) }); err != nil {
		t.Fatal(err)
	}
	if len(collected) != 1 || collected[0] != heapA {
		t.Errorf("collected %v", collected)
	}
}

// Edits of a heap in sealed volumes are the base of the next edit, those of earlier versions
// too.
func TestTagsOverVolumes(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	rotate := func() {
		t.Helper()
		if _, err := b.store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked}); err != nil {
			t.Fatal(err)
		}
	}
	b.onBucket(tagged(heapA, map[string]string{"a": "1", "b": "2", "c": "3"}), tagged(heapB, map[string]string{"x": "1", "y": "2"}))
	rotate()
	for _, key := range []string{"a", "b"} {
		if _, err := b.DeleteTags(t.Context(), tenant, heapA, []string{key}, alice); err != nil {
			t.Fatal(err)
		}
		rotate()
	}
	if _, err := b.DeleteTags(t.Context(), tenant, heapB, []string{"x"}, alice); err != nil {
		t.Fatal(err)
	}
	if got, want := b.tags(heapA), (map[string]string{"c": "3"}); !maps.Equal(got, want) {
		t.Errorf("the tags are %v, want %v", got, want)
	}
	if got, want := b.tags(heapB), (map[string]string{"y": "2"}); !maps.Equal(got, want) {
		t.Errorf("the tags are %v, want %v", got, want)
	}
}
