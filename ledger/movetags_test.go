package ledger_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// tags returns the tags that a heap has.
func (b *testLedger) tags(heap string) map[string]string {
	b.t.Helper()
	edits := b.edits(heap)
	if len(edits) == 0 {
		return nil
	}
	return edits[len(edits)-1].Content.Value().Tags
}

func TestMoveTags(t *testing.T) {
	t.Parallel()
	type tags = map[string]string
	// The tags of the heap from are set first.
	for name, test := range map[string]struct {
		from, to, want tags
		moved          int
	}{
		"no tags":                {nil, nil, nil, 0},
		"tags of the other only": {nil, tags{"a": "1"}, tags{"a": "1"}, 0},
		"all":                    {tags{"a": "1", "b": ""}, nil, tags{"a": "1", "b": ""}, 2},
		"merged":                 {tags{"a": "1", "b": "2"}, tags{"b": "new", "c": "3"}, tags{"a": "1", "b": "new", "c": "3"}, 2},
		"equal":                  {tags{"a": "1"}, tags{"a": "1"}, tags{"a": "1"}, 1},
	} {
		// Both on one subject, and on two.
		for _, to := range []string{heapB, "bb" + heapA[2:]} {
			t.Run(name+"/"+to[:2], func(t *testing.T) {
				t.Parallel()
				b := openTestLedger(t, ledger.Options{})
				for _, edit := range []struct {
					heap string
					tags tags
				}{{heapA, test.from}, {to, test.to}} {
					if edit.tags == nil {
						continue
					}
					if _, err := b.SetTags(t.Context(), tenant, edit.heap, edit.tags, alice); err != nil {
						t.Fatal(err)
					}
				}
				before := b.lastSeq()
				got, err := b.MoveTags(t.Context(), tenant, heapA, to, alice)
				if err != nil || got.Tags != test.moved {
					t.Fatalf("moved %+v, %v", got, err)
				}
				if after := b.lastSeq(); after != before && got.Seq != after || after == before && got.Seq != 0 {
					t.Errorf("position %d, the last is %d after %d", got.Seq, after, before)
				}
				if diff := gocmp.Diff(test.want, b.tags(to)); diff != "" {
					t.Error(diff)
				}
				if left := b.tags(heapA); len(left) > 0 {
					t.Errorf("tags left: %v", left)
				}
				for _, d := range append(b.edits(heapA), b.edits(to)...) {
					if d.Actor != alice {
						t.Errorf("actor %+v", d.Actor)
					}
				}
			})
		}
	}
}

func TestMoveTagsRefuses(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	moved := func(from, to string) error {
		_, err := b.MoveTags(t.Context(), tenant, from, to, alice)
		return err
	}
	wantCode(t, moved(heapA, heapA), ledger.CodeInvalid, "same heap")
	wantCode(t, moved("xyz", heapA), ledger.CodeInvalid, "heap")
	wantCode(t, moved(heapA, "xyz"), ledger.CodeInvalid, "heap")
	for heap, n := range map[string]int{heapA: 40, heapB: 64} {
		tags := map[string]string{}
		for i := range n {
			tags[fmt.Sprintf("%s-%d", heap[2:3], i)] = ""
		}
		if _, err := b.SetTags(t.Context(), tenant, heap, tags, alice); err != nil {
			t.Fatal(err)
		}
	}
	before := b.lastSeq()
	wantCode(t, moved(heapA, heapB), ledger.CodeInvalid, "at most 64, not 104")
	if b.lastSeq() != before {
		t.Error("a refused move was recorded in part")
	}
}

// A client edits the tags between the two edits of a move. The other heap gets the edited
// tags, and what another client set there later stays.
func TestMoveTagsMovesWhatIsEditedMeanwhile(t *testing.T) {
	t.Parallel()
	type tags = map[string]string
	type edit func(b *testLedger, to string) error
	set := func(heap string, tags tags) edit {
		return func(b *testLedger, to string) error {
			_, err := b.SetTags(context.Background(), tenant, cmp.Or(heap, to), tags, alice)
			return err
		}
	}
	del := func(keys ...string) edit {
		return func(b *testLedger, _ string) error {
			_, err := b.DeleteTags(context.Background(), tenant, heapA, keys, alice)
			return err
		}
	}
	before := tags{"a": "1", "b": "2"}
	for name, test := range map[string]struct {
		during []edit
		want   tags
	}{
		"a tag more":        {[]edit{set(heapA, tags{"a": "1", "b": "2", "c": "3"})}, tags{"a": "1", "b": "2", "c": "3"}},
		"another value":     {[]edit{set(heapA, tags{"a": "new", "b": "2"})}, tags{"a": "new", "b": "2"}},
		"other tags":        {[]edit{set(heapA, tags{"c": "3"})}, tags{"a": "1", "b": "2", "c": "3"}},
		"deleted":           {[]edit{del("b")}, before}, // as if deleted after the move
		"all deleted":       {[]edit{del()}, before},
		"there, then here":  {[]edit{set("", tags{"a": "kept"}), set(heapA, tags{"a": "new", "c": "3"})}, tags{"a": "new", "c": "3"}},
		"here, then there":  {[]edit{set(heapA, tags{"a": "new", "c": "3"}), set("", tags{"a": "kept", "d": "4"})}, tags{"a": "kept", "c": "3", "d": "4"}},
		"back to its value": {[]edit{set("", tags{"a": "kept"}), set(heapA, tags{"a": "1"})}, tags{"a": "kept"}},
	} {
		for _, to := range []string{heapB, "bb" + heapA[2:]} {
			t.Run(name+"/"+to[:2], func(t *testing.T) {
				t.Parallel()
				other := openTestLedger(t, ledger.Options{})
				if _, err := other.SetTags(t.Context(), tenant, heapA, before, alice); err != nil {
					t.Fatal(err)
				}
				edited := false
				b := ledger.New(&interposed{other.store, func(_ context.Context, e events.Event) error {
					if d := e.Data.(*events.HeapTagged); d.Heap != heapA || edited {
						return nil
					}
					edited = true
					for _, edit := range test.during {
						if err := edit(other, to); err != nil {
							return err
						}
					}
					return nil
				}}, ledger.Options{})
				if _, err := b.MoveTags(t.Context(), tenant, heapA, to, alice); err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(test.want, other.tags(to)); diff != "" {
					t.Error(diff)
				}
				if left := other.tags(heapA); len(left) > 0 {
					t.Errorf("tags left: %v", left)
				}
			})
		}
	}
}

// A move that was interrupted between its edits is repeated after further edits.
func TestMoveTagsContinues(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	set := func(heap string, tags map[string]string) {
		t.Helper()
		if _, err := b.SetTags(t.Context(), tenant, heap, tags, alice); err != nil {
			t.Fatal(err)
		}
	}
	set(heapA, map[string]string{"a": "1", "b": "2", "c": "3"})
	interrupted := ledger.New(&interposed{b.store, func(_ context.Context, e events.Event) error {
		if e.Data.(*events.HeapTagged).Heap == heapA {
			return errDisk
		}
		return nil
	}}, ledger.Options{})
	_, err := interrupted.MoveTags(t.Context(), tenant, heapA, heapB, alice)
	wantCode(t, err, ledger.CodeUnavailable)
	set(heapA, map[string]string{"a": "newer", "b": "2", "c": "3"})
	set(heapB, map[string]string{"a": "1", "b": "newer", "c": "3"})
	if _, err := b.MoveTags(t.Context(), tenant, heapA, heapB, alice); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(map[string]string{"a": "newer", "b": "newer", "c": "3"}, b.tags(heapB)); diff != "" {
		t.Error(diff)
	}
}

// Two processes move tags while a client sets some. No tag is lost.
func TestMoveTagsLosesNothing(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	const writes = 20
	var wg sync.WaitGroup
	set := make(chan struct{})
	move := func(b *testLedger) {
		if _, err := b.MoveTags(t.Context(), tenant, heapA, heapB, alice); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() {
		defer close(set)
		for i := range writes {
			if _, err := ledgers[0].SetTags(t.Context(), tenant, heapA, map[string]string{fmt.Sprintf("tag-%d", i): ""}, alice); err != nil {
				t.Error(err)
			}
			move(ledgers[0])
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-set:
				return
			default:
				move(ledgers[1])
			}
		}
	})
	wg.Wait()
	if got := ledgers[0].tags(heapB); len(got) != writes {
		t.Errorf("%d tags moved, want %d: %v", len(got), writes, got)
	}
}

// A shred of the session whose tags moved reaches them, also where a user tagged the other
// heap before.
func TestMovedTagsKeepTheKeyOfTheirSession(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string][2]string{"from the heap of the session": {heapA, heapB}, "to the heap of the session": {heapB, heapA}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := openEncryptedTestLedger(t, ledger.Options{})
			run := b.start(b.submit(ledger.Submission{Code: "1", Session: "s", Tags: map[string]string{"by": "run"}}), false)
			end, err := b.Finish(t.Context(), run, events.StatusCompleted, ledger.Result{Heap: &events.HeapRecord{SHA256: heapA}})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Finalize(t.Context(), run.Plan.Request, end); err != nil {
				t.Fatal(err)
			}
			if _, err := b.SetTags(t.Context(), tenant, heapB, map[string]string{"note": "1"}, alice); err != nil {
				t.Fatal(err)
			}
			if _, err := b.MoveTags(t.Context(), tenant, moved[0], moved[1], alice); err != nil {
				t.Fatal(err)
			}
			edits, want := b.edits(moved[1]), run.Plan.Request.ContentKeyID()
			if got := events.ContentKeyID(edits[len(edits)-1]); got != want || want == "" {
				t.Errorf("tags under key %q, want that of the session, %q", got, want)
			}
			if diff := gocmp.Diff(map[string]string{"by": "run", "note": "1"}, b.tags(moved[1])); diff != "" {
				t.Error(diff)
			}
		})
	}
}
