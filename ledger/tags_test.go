package ledger_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestTagEdits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := openTestLedger(t, ledger.Options{})
	set := func(tags map[string]string) func() (uint64, error) {
		return func() (uint64, error) { return b.SetTags(ctx, tenant, heapA, tags, alice) }
	}
	del := func(keys []string) func() (uint64, error) {
		return func() (uint64, error) { return b.DeleteTags(ctx, tenant, heapA, keys, alice) }
	}
	type tags = map[string]string
	// Each step follows the one before. Nil tags mean that nothing is recorded.
	steps := []struct {
		name string
		do   func() (uint64, error)
		edit events.TagEdit
		want tags
	}{
		{"delete all of none", del(nil), "", nil},
		{"set", set(tags{"a": "1", "b": "2", "c d": "3"}), events.EditSet, tags{"a": "1", "b": "2", "c d": "3"}},
		{"delete no key", del([]string{}), "", nil},
		{"delete empty keys", del([]string{"", "  "}), "", nil},
		{"delete an unknown key", del([]string{"z"}), "", nil},
		{"delete trims", del([]string{" a", "c d ", "z"}), events.EditDelete, tags{"b": "2"}},
		{"set replaces", set(tags{"x": ""}), events.EditSet, tags{"x": ""}},
		{"the same again is recorded", set(tags{"x": ""}), events.EditSet, tags{"x": ""}},
		{"delete all", del(nil), events.EditDelete, tags{}},
		{"set nil clears", set(nil), events.EditSet, tags{}},
	}
	for _, s := range steps {
		before := b.lastSeq()
		edits := b.edits(heapA)
		seq, err := s.do()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		after := b.edits(heapA)
		if s.want == nil {
			if len(after) != len(edits) || seq != before {
				t.Errorf("%s: recorded %d edits, position %d after %d", s.name, len(after)-len(edits), seq, before)
			}
			continue
		}
		if seq != before+1 || len(after) != len(edits)+1 {
			t.Fatalf("%s: position %d after %d, %d edits", s.name, seq, before, len(after)-len(edits))
		}
		want := &events.HeapTagged{Heap: heapA, Content: events.Plain(events.TagContent{Tags: s.want}), Edit: s.edit, Actor: alice}
		if diff := cmp.Diff(want, after[len(after)-1]); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
	if n := len(b.edits(heapB)); n != 0 {
		t.Errorf("%d edits of a heap that shares the subject", n)
	}
}

func TestTagsRefuse(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	for name, err := range map[string]error{
		"heap":               second(b.SetTags(t.Context(), tenant, "xyz", nil, alice)),
		"lower":              second(b.DeleteTags(t.Context(), tenant, strings.ToUpper(heapA), nil, alice)),
		"tenant":             second(b.SetTags(t.Context(), "A", heapA, nil, alice)),
		"comma":              second(b.SetTags(t.Context(), tenant, heapA, map[string]string{"a,b": ""}, alice)),
		"control characters": second(b.SetTags(t.Context(), tenant, heapA, map[string]string{"a\x00b": ""}, alice)),
		"64":                 second(b.SetTags(t.Context(), tenant, heapA, manyTags(65), alice)),
	} {
		wantCode(t, err, ledger.CodeInvalid, name)
	}
	if b.lastSeq() != 0 {
		t.Error("a refused edit was recorded")
	}
}

func second(_ uint64, err error) error { return err }

// An edit that is recorded between the end of a run and its tags is newer than these tags.
func TestTagsOfARunHoldFromItsEnd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	b := openTestLedger(t, ledger.Options{})
	run := b.start(b.submit(ledger.Submission{Tags: map[string]string{"by": "run", "old": "1"}}), false)
	end, err := b.Finish(ctx, run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetTags(ctx, tenant, heapA, map[string]string{"by": "user", "new": "1"}, alice); err != nil {
		t.Fatal(err)
	}
	if err := b.Finalize(ctx, run.Plan.Request, end); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteTags(ctx, tenant, heapA, []string{"new", "old"}, alice); err != nil {
		t.Fatal(err)
	}
	edits := b.edits(heapA)
	if len(edits) != 3 || edits[1].AppliesAt != end.Seq {
		t.Fatalf("edits %+v", edits)
	}
	if got, want := edits[2].Content.Value().Tags, (map[string]string{"by": "user"}); !cmp.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
}

// Two processes delete one key per call. A lost edit would leave a key.
func TestConcurrentTagEditsLoseNothing(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	b := ledgers[0]
	for _, heap := range []string{heapA, heapB} {
		if _, err := b.SetTags(t.Context(), tenant, heap, manyTags(20), alice); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		for j, heap := range []string{heapA, heapB} {
			wg.Go(func() {
				if _, err := ledgers[(i+j)%2].DeleteTags(t.Context(), tenant, heap, []string{fmt.Sprintf("key-%d", i)}, alice); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, heap := range []string{heapA, heapB} {
		edits := b.edits(heap)
		if len(edits) != 21 {
			t.Errorf("%d edits", len(edits))
		}
		for i, e := range edits {
			if n := len(e.Content.Value().Tags); n != 20-i {
				t.Errorf("edit %d leaves %d tags", i, n)
			}
		}
	}
}
