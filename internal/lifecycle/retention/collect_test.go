package retention_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/ledger"
)

var conversation = &events.ContextRef{Key: events.Hash(nil), SessionID: events.Hash(nil), Kind: events.ContextTransport}

var rule = retention.Rule{OlderThan: month, KeepEntries: 2}

// Each case has one heap, which the rule keeps or collects.
func TestRule(t *testing.T) {
	t.Parallel()
	const old, young = month + time.Hour, month - time.Hour
	type request = events.ExecutionRequested
	tag := func(heap string, tags map[string]string) *events.HeapTagged {
		return &events.HeapTagged{Heap: heap, Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: tags}), Actor: actor}
	}
	for _, c := range []struct {
		name string
		make func(h *house) string
		kept bool
	}{
		{"old", func(h *house) string { return h.ran(tenant, old, request{}, "x") }, false},
		{"young", func(h *house) string { return h.ran(tenant, young, request{}, "x") }, true},
		{"produced again recently", func(h *house) string {
			h.ran(tenant, old, request{}, "x")
			return h.ran(tenant, young, request{}, "x")
		}, true},
		{"restored recently", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.ran(tenant, young, request{Heap: x}, "")
			return x
		}, true},
		{"tagged", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, tag(x, map[string]string{"a": "1"}))
			return x
		}, true},
		{"untagged again", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, tag(x, map[string]string{"a": "1"}))
			h.append(tenant, old, tag(x, nil))
			return x
		}, false},
		{"untagged recently", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, young, tag(x, nil))
			return x
		}, true},
		{"tags that may be encrypted", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			d := tag(x, nil)
			d.Content = events.Content[events.TagContent]{Sealed: &events.EncryptedContent{KeyID: "k"}}
			h.append(tenant, old, d)
			return x
		}, true},
		{"a run's tags that a later edit removed", func(h *house) string {
			id := h.id()
			x := h.ran(tenant, old, request{ExecutionID: id}, "x")
			h.append(tenant, old, tag(x, nil))
			d := tag(x, map[string]string{"a": "1"})
			d.Edit, d.ExecutionID, d.AppliesAt = events.EditRun, id, 2
			h.append(tenant, old, d)
			return x
		}, false},
		{"input of a waiting run", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, &request{ExecutionID: h.id(), Pool: events.DefaultPool, Heap: x})
			return x
		}, true},
		{"restored by a run that has not ended", func(h *house) string {
			x, id := h.ran(tenant, old, request{}, "x"), h.id()
			h.append(tenant, old, &request{ExecutionID: id, Pool: events.DefaultPool})
			h.append(tenant, old, &events.ExecutionStarted{ExecutionID: id, Attempt: 1, InputHeap: x})
			return x
		}, true},
		{"input of a run that has ended", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.ran(tenant, old, request{Heap: x}, "")
			return x
		}, false},
		{"output without a recorded session entry", func(h *house) string {
			id := h.id()
			h.append(tenant, old, &request{ExecutionID: id, Pool: events.DefaultPool, Session: "s", SessionID: events.SessionID(tenant, "s")})
			return h.ended(tenant, old, request{ExecutionID: id}, "x")
		}, true},
		{"output of the last entry but one", func(h *house) string {
			x := h.ran(tenant, old, request{Session: "s"}, "x")
			h.ran(tenant, old, request{Session: "s"}, "y")
			h.ran(tenant, old, request{Session: "other"}, "z")
			return x
		}, true},
		{"output of the entry before", func(h *house) string {
			x := h.ran(tenant, old, request{Session: "s"}, "x")
			h.ran(tenant, old, request{Session: "s"}, "y")
			h.ran(tenant, old, request{Session: "s"}, "z")
			return x
		}, false},
		{"input of the last entry but one", func(h *house) string {
			x := h.ran(tenant, old, request{Session: "s"}, "x")
			h.ran(tenant, old, request{Session: "s", Heap: x}, "y")
			h.ran(tenant, old, request{Session: "s"}, "z")
			return x
		}, true},
		{"head of a logical session", func(h *house) string {
			x := h.ran(tenant, old, request{Turn: &events.Turn{SessionID: "l", Number: 1}}, "x")
			h.ran(tenant, old, request{Turn: &events.Turn{SessionID: "l", Number: 2}}, "")
			return x
		}, true},
		{"head of a logical session before its last turn", func(h *house) string {
			x := h.ran(tenant, old, request{Turn: &events.Turn{SessionID: "l", Number: 1}}, "x")
			h.ran(tenant, old, request{Turn: &events.Turn{SessionID: "l", Number: 2}}, "y")
			return x
		}, false},
		{"initial heap of a logical session", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, &events.SessionOpened{SessionID: "l", Head: x, Actor: actor})
			return x
		}, true},
		{"output in a conversation context", func(h *house) string {
			return h.ran(tenant, old, request{Context: conversation}, "x")
		}, true},
		{"input in a conversation context", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.ran(tenant, old, request{Context: conversation, Heap: x}, "")
			return x
		}, true},
		{"output in a context that was cleared", func(h *house) string {
			x := h.ran(tenant, old, request{Context: conversation}, "x")
			h.append(tenant, old, &events.ContextCleared{ContextRef: *conversation, Actor: actor})
			h.ran(tenant, old, request{Context: conversation}, "y")
			return x
		}, false},
		{"output in a context that has expired", func(h *house) string {
			x := h.ran(tenant, old, request{Context: conversation}, "x")
			h.append(tenant, old, &events.ContextExpired{ContextRef: *conversation})
			return x
		}, false},
		{"output in a context with 200 later executions", func(h *house) string {
			x := h.ran(tenant, old, request{Context: conversation}, "x")
			for range 200 {
				h.ran(tenant, old, request{Context: conversation}, "y")
			}
			return x
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			heap := c.make(h)
			dry, err := h.service.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor, DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if !h.kept(tenant, heap) || len(h.collections()) != 0 {
				t.Error("a dry run did something")
			}
			r := h.collect(rule)
			if got := h.kept(tenant, heap); got != c.kept {
				t.Errorf("kept %t, want %t: %+v", got, c.kept, r)
			}
			if r.Collected != dry.Collected || r.Bytes != dry.Bytes || r.Collected != len(h.collections()) {
				t.Errorf("%+v, and the dry run said %+v; %d events", r, dry, len(h.collections()))
			}
			if again := h.collect(rule); again.Collected+again.Finished+again.Orphans != 0 {
				t.Errorf("a second pass did %+v", again)
			}
		})
	}
}

// The event has the heap and the rule. Afterwards reads report the collection, and a
// run that leaves the same heap makes it exist again.
func TestCollectedHeap(t *testing.T) {
	t.Parallel()
	h := open(t)
	heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "state")
	r := h.collect(rule)
	if r.Heaps != 1 || r.Collected != 1 || r.Bytes != 5 || r.Chunks != 1 || len(r.List) != 1 || r.List[0].Heap != heap {
		t.Errorf("%+v", r)
	}
	e := h.collections()[0]
	d := e.Data.(*events.HeapCollected)
	if d.Heap != heap || d.Size != 5 || d.MadeAt != 2 || d.Decided != 2 || d.Actor != actor ||
		d.Rule != (events.CollectionRule{OlderThanSecs: int64(month / time.Second), KeepEntries: 2}) || h.now.Sub(d.LastUse.Time) < 2*month {
		t.Errorf("%+v", d)
	}
	_, err := h.ledger.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", Heap: heap, Actor: actor})
	var removed *events.RemovedError
	if ledger.CodeOf(err) != ledger.CodeGone || !errors.As(err, &removed) || removed.Seq != e.Seq {
		t.Errorf("submitted with it: %v", err)
	}
	if _, err := h.ledger.SetTags(t.Context(), tenant, heap, map[string]string{"a": "1"}, actor); err != nil {
		t.Errorf("tagging it: %v", err)
	}
	if _, err := h.ledger.DeleteTags(t.Context(), tenant, heap, nil, actor); err != nil {
		t.Errorf("untagging it: %v", err)
	}
	h.ran(tenant, 0, events.ExecutionRequested{}, "state")
	if _, err := h.ledger.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", Heap: heap, Actor: actor}); err != nil {
		t.Errorf("made again: %v", err)
	}
	if r := h.collect(rule); r.Collected != 0 || !h.kept(tenant, heap) {
		t.Errorf("it exists again: %+v", r)
	}
}

// A heap belongs to a tenant: collecting it for one tenant keeps that of another.
func TestTenantsKeepTheirOwn(t *testing.T) {
	t.Parallel()
	h := open(t)
	heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "same")
	h.ran("other", time.Hour, events.ExecutionRequested{ExecutionID: events.DerivedID("other", "1")}, "same")
	if r := h.collect(rule); r.Collected != 1 || h.kept(tenant, heap) || !h.kept("other", heap) {
		t.Errorf("%+v", r)
	}
	if blob, _, err := h.store.Heap(t.Context(), "other", heap); err != nil || string(blob) != "same" {
		t.Errorf("the other's: %q, %v", blob, err)
	}
	h.ran("third", 2*month, events.ExecutionRequested{ExecutionID: events.DerivedID("third", "1")}, "x")
	r, err := h.service.Collect(t.Context(), retention.Pass{Rule: rule, Tenant: "other", Actor: actor})
	if err != nil || r.Heaps != 1 || r.Collected+r.Orphans != 0 {
		t.Errorf("a pass over one tenant: %+v, %v", r, err)
	}
}

// Heaps are stored as deltas against the base heap, which is never collected.
func TestTheBaseStays(t *testing.T) {
	t.Parallel()
	h := open(t)
	if err := h.store.SetBase(t.Context(), "e", []byte("an empty heap, long enough to be of use")); err != nil {
		t.Fatal(err)
	}
	h.ran(tenant, 2*month, events.ExecutionRequested{}, "an empty heap, long enough to be of use: 1")
	kept := h.ran(tenant, 0, events.ExecutionRequested{}, "an empty heap, long enough to be of use: 2")
	if r := h.collect(rule); r.Collected != 1 || r.Orphans != 0 {
		t.Errorf("%+v", r)
	}
	fresh := openWithStore(t, h)
	if _, _, err := fresh.Heap(t.Context(), tenant, kept); err != nil {
		t.Error(err)
	}
}

// Blobs that no event names are deleted once they are older than an hour, including
// texts. Blobs that any event names by hash, in any member, stay.
func TestOrphans(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.append(tenant, 2*month, &events.ExecutionRequested{ExecutionID: h.id(), Pool: events.DefaultPool}) // the ledger is older than the blobs
	h.now = time.Now().Add(59 * time.Minute)
	h.append(tenant, 3*month, &events.ExecutionRequested{ExecutionID: h.id(), Pool: events.DefaultPool})
	heap := h.put(tenant, "left behind")
	text, err := h.store.PutText(t.Context(), tenant, []byte("left behind, too"))
	if err != nil {
		t.Fatal(err)
	}
	named, err := h.store.PutText(t.Context(), tenant, []byte("a long source"))
	if err != nil {
		t.Fatal(err)
	}
	h.append(tenant, 0, &events.ExecutionRequested{
		ExecutionID: h.id(), Pool: events.DefaultPool,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Blob: &events.BlobRef{SHA256: named}}}),
	})
	if r := h.collect(rule); r.Orphans != 0 {
		t.Errorf("swept too early: %+v", r)
	}
	h.now = time.Now().Add(61 * time.Minute)
	if r := h.collect(rule); r.Orphans != 2 || r.Collected != 0 || r.Chunks != 2 || len(h.collections()) != 0 {
		t.Errorf("%+v", r)
	}
	if h.kept(tenant, heap) {
		t.Error("the heap is there")
	}
	if _, err := h.store.Text(t.Context(), tenant, text); !errors.Is(err, events.ErrRemoved) {
		t.Errorf("the text: %v", err)
	}
	if _, err := h.store.Text(t.Context(), tenant, named); err != nil {
		t.Errorf("a text that an event names: %v", err)
	}
}

// interrupted is a blob store whose process dies before anything is deleted.
type interrupted struct{ retention.Blobs }

var errDied = errors.New("died")

func (interrupted) RemoveBlob(context.Context, events.BlobInfo) (bool, error) { return false, errDied }

// A blob whose collection is recorded and that is still stored is deleted by the next
// pass, without another event.
func TestTheNextPassFinishes(t *testing.T) {
	t.Parallel()
	h := open(t)
	heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
	if _, err := h.over(interrupted{h.store}, h.ledger).Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor}); !errors.Is(err, errDied) {
		t.Fatalf("%v", err)
	}
	if !h.kept(tenant, heap) || len(h.collections()) != 1 {
		t.Fatal("the event is to come before the removal")
	}
	h.now = h.now.Add(time.Hour)
	if r := h.collect(rule); r.Finished != 1 || r.Collected != 0 || h.kept(tenant, heap) || len(h.collections()) != 1 {
		t.Errorf("%+v", r)
	}
}

// meanwhile calls a function of a test between the decision of a pass and its record.
type meanwhile struct {
	*ledger.Ledger
	do func()
}

func (m meanwhile) CollectHeaps(ctx context.Context, of string, list []events.HeapCollected, recorded func(string, uint64)) error {
	m.do()
	return m.Ledger.CollectHeaps(ctx, of, list, recorded)
}

func TestRaces(t *testing.T) {
	t.Parallel()
	t.Run("a tag is set", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
		s := h.over(h.store, meanwhile{h.ledger, func() {
			if _, err := h.ledger.SetTags(t.Context(), tenant, heap, map[string]string{"keep": "me"}, actor); err != nil {
				t.Error(err)
			}
		}})
		r, err := s.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor})
		if err != nil || r.Collected != 0 || !h.kept(tenant, heap) || len(h.collections()) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("another heap on the subject is tagged", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
		s := h.over(h.store, meanwhile{h.ledger, func() {
			if _, err := h.ledger.SetTags(t.Context(), tenant, heap[:2]+events.Hash(nil)[2:], map[string]string{"keep": "me"}, actor); err != nil {
				t.Error(err)
			}
		}})
		r, err := s.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor})
		if err != nil || r.Collected != 1 || h.kept(tenant, heap) {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("the same heap is produced again", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
		s := h.over(h.store, meanwhile{h.ledger, func() { h.ran(tenant, 0, events.ExecutionRequested{}, "x") }})
		if _, err := s.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor}); err != nil {
			t.Fatal(err)
		}
		if !h.kept(tenant, heap) {
			t.Error("it was stored again, and was removed nevertheless")
		}
	})
	t.Run("two passes", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
		var s *retention.Service
		s = h.over(h.store, meanwhile{h.ledger, func() {
			if _, err := s.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor}); !errors.Is(err, retention.ErrBusy) {
				t.Errorf("a second pass: %v", err)
			}
		}})
		if r, err := s.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor}); err != nil || r.Collected != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A pass that reads an event of an unknown type deletes nothing.
func TestRefuses(t *testing.T) {
	t.Parallel()
	h := open(t)
	heap := h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
	for _, bad := range []retention.Rule{{OlderThan: time.Hour - 1}, {OlderThan: month, KeepEntries: -1}} {
		var wrong *retention.RuleError
		if _, err := h.service.Collect(t.Context(), retention.Pass{Rule: bad}); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	h.append(tenant, 0, &events.Unknown{Type: "daybook.heap.lent.v1", StoredSubject: "ledger.0001." + events.HeapSubject(tenant, heap), Concerns: heap, Body: []byte("{}")})
	if _, err := h.service.Collect(t.Context(), retention.Pass{Rule: rule, Actor: actor}); err == nil || !h.kept(tenant, heap) {
		t.Errorf("an event of a newer version: %v", err)
	}
}

// Run makes a pass at once, and returns when its context is done.
func TestRun(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.ran(tenant, 2*month, events.ExecutionRequested{}, "x")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.service.Run(ctx, rule) }()
	err := h.store.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if e.Type == events.TypeHeapCollected {
				stop()
			}
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := h.service.Run(t.Context(), retention.Rule{}); err == nil {
		t.Error("a rule without an age was accepted")
	}
}

// A pass that collects more heaps than it records at a time collects all of them, longest unused
// first, and reports them in that order.
func TestBatches(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.service.SetBatch(3)
	var want []string
	for i := range 8 {
		of := []string{tenant, "other"}[i%2]
		want = append(want, h.ran(of, 3*month-time.Duration(i)*time.Hour, events.ExecutionRequested{}, fmt.Sprint("heap ", i)))
	}
	kept := h.ran(tenant, month/2, events.ExecutionRequested{}, "a new heap")
	dry, err := h.service.Collect(t.Context(), retention.Pass{Rule: rule, DryRun: true, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	r := h.collect(rule)
	var got, planned, recorded []string
	for _, c := range r.List {
		got = append(got, c.Heap)
		if c.Seq == 0 {
			t.Errorf("the collection of %s has no position", c.Heap)
		}
	}
	for _, c := range dry.List {
		planned = append(planned, c.Heap)
	}
	if !slices.Equal(got, want) || !slices.Equal(planned, want) || r.Collected != len(want) || r.Bytes != dry.Bytes || r.Heaps != len(want)+1 {
		t.Errorf("collected %v, planned %v, want %v; %+v", got, planned, want, r)
	}
	for _, e := range h.collections() {
		heap := e.Data.(*events.HeapCollected).Heap
		recorded = append(recorded, heap)
		if h.kept(e.Tenant, heap) {
			t.Errorf("%s is still stored", heap)
		}
	}
	slices.Sort(want)
	if slices.Sort(recorded); !slices.Equal(recorded, want) || !h.kept(tenant, kept) {
		t.Errorf("recorded %v, want %v", recorded, want)
	}
}
