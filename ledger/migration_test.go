package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"daybook/events"
	"daybook/ledger"
)

func migrated(heap, engine, made string) *events.HeapMigrated {
	return &events.HeapMigrated{Heap: heap, Engine: events.Engine{ID: engine}, Verdict: events.MigrationDone, NewHeap: made, Size: 1, Actor: alice}
}

func (b *testLedger) recordMigrations(list ...*events.HeapMigrated) {
	b.t.Helper()
	for _, d := range list {
		if _, err := b.RecordMigration(b.t.Context(), tenant, nil, d, nil); err != nil {
			b.t.Fatal(err)
		}
	}
}

// The verdict about a heap is read with one request for one event, however many heaps have one.
func TestMigrationReadsDoNotGrow(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(b *testLedger){
		"new": func(*testLedger) {},
		"other heaps": func(b *testLedger) {
			for i := range 300 {
				b.recordMigrations(migrated(bucketHeap(i), "new", heapB))
			}
		},
		"again": func(b *testLedger) {
			for range 50 {
				b.recordMigrations(migrated(heapA, "new", heapB))
			}
		},
		"older version": func(b *testLedger) {
			for i := range 300 {
				b.onBucket(migrated(bucketHeap(i), "new", heapB))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openTestLedger(t, ledger.Options{})
			fill(b)
			b.recordMigrations(migrated(heapA, "new", heapB))
			requests, read := 0, 0
			l := ledger.New(countedReads{b.store, &requests, &read}, ledger.Options{})
			if m, err := l.Migration(t.Context(), tenant, heapA, "new"); err != nil || m.Seq != b.lastSeq() {
				t.Errorf("the verdict at %d of %d, %v", m.Seq, b.lastSeq(), err)
			}
			if requests != 1 || read != 1 {
				t.Errorf("%d requests read %d events", requests, read)
			}
			requests, read = 0, 0
			if m, err := l.Migration(t.Context(), tenant, bucketHeap(1000), "new"); !errors.Is(err, events.ErrNotFound) {
				t.Errorf("a heap without a verdict: %+v, %v", m, err)
			}
			if name != "older version" && requests != 1 {
				t.Errorf("%d requests for a heap without a verdict", requests)
			}
		})
	}
}

// The newest verdict for each engine counts, also if an earlier version recorded it on a subject
// that heaps shared, before or after those on the subject of the heap.
func TestNewestMigration(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	expect := func(engine, want string) {
		t.Helper()
		m, err := b.Migration(t.Context(), tenant, heapA, engine)
		if want == "" && errors.Is(err, events.ErrNotFound) {
			return
		}
		if err != nil || m.NewHeap != want {
			t.Errorf("engine %s: %+v, %v, want %s", engine, m, err, want)
		}
	}
	made := func(n int) string { return fmt.Sprintf("%064x", n) }
	b.onBucket(migrated(heapA, "one", made(1)), migrated(heapA, "two", made(2)), migrated(bucketHeap(1), "one", made(3)))
	expect("one", made(1))
	b.recordMigrations(migrated(heapA, "two", made(4)))
	expect("one", made(1))
	expect("two", made(4))
	b.recordMigrations(migrated(heapA, "one", made(5)), migrated(heapA, "three", made(6)))
	expect("one", made(5))
	expect("two", made(4))
	b.onBucket(migrated(heapA, "two", made(7)), migrated(bucketHeap(1), "one", made(8)))
	expect("one", made(5))
	expect("two", made(7))
	expect("three", made(6))
	expect("four", "")
}
