package projections_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/projections"
)

// TestOverARealLedger checks that events appended through JetStream can be read at
// once, by a follower that started before, by one that starts later, and after a
// rebuild.
func TestOverARealLedger(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	opts := projections.Options{Path: filepath.Join(t.TempDir(), "live.db"), Texts: store}
	live := open(t, opts)
	stop := follow(t, live, store)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var last uint64
	record := func(data ...events.Data) {
		t.Helper()
		for _, d := range data {
			seq, err := store.Append(ctx, events.New(tenant, began, d), ledger.AnyPosition)
			if err != nil {
				t.Fatal(err)
			}
			if err := live.Wait(ctx, seq); err != nil {
				t.Fatal(err)
			}
			last = seq
		}
	}
	result, err := store.PutText(ctx, tenant, []byte("a large result"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 30; n++ {
		record(
			requested(n, inSession("s"), withTags(tags{"n": "1"})), started(n, 1, fresh, ""), output(n, 1, fresh, pieces("héllo\nwörld\n")...),
			ended(n, events.StatusCompleted, leaving(heap(n), ""), func(e *events.Ending) {
				e.Content = events.Plain(events.EndingContent{Result: &events.Body{Blob: &events.BlobRef{SHA256: result}}})
				e.Output = &events.OutputTotals{Lines: 2, Bytes: 14}
			}),
			entry(n, "s", int64(n-1), events.StatusCompleted, "", heap(n)),
		)
		d, err := live.Execution(ctx, tenant, id(n))
		if err != nil || d.Status != events.StatusCompleted || *d.Result != "a large result" || d.TotalLines != 2 {
			t.Fatalf("execution %d: %+v, error %v", n, d.Execution, err)
		}
	}
	noAnomalies(t, live)
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}

	late := projections.Options{Path: filepath.Join(t.TempDir(), "late.db"), Texts: store}
	after := open(t, late)
	follow(t, after, store)
	if err := after.Wait(ctx, last); err != nil {
		t.Fatal(err)
	}
	rebuiltOpts := projections.Options{Path: filepath.Join(t.TempDir(), "rebuilt.db"), Texts: store}
	if _, err := projections.Rebuild(ctx, rebuiltOpts, store, last); err != nil {
		t.Fatal(err)
	}
	want := dump(t, opts.Path)
	for _, path := range []string{late.Path, rebuiltOpts.Path} {
		if diff := cmp.Diff(want, dump(t, path)); diff != "" {
			t.Error(diff)
		}
	}
	if len(want["executions"]) != 30 || len(want["entries"]) != 30 || len(want["heap_tags"]) != 30 {
		t.Errorf("%d executions, %d entries, %d tags", len(want["executions"]), len(want["entries"]), len(want["heap_tags"]))
	}

	// The file is ahead of the ledger, so it belongs to another ledger.
	other := storetest.Start(t)
	if err := after.Run(ctx, other); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("a ledger that ends before what was applied: %v", err)
	}
}
