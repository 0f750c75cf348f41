package retention_test

import (
	"testing"
	"time"

	"daybook/events"
)

// A migrated heap is kept as long as the heap of which it was made would be, and of several
// only the newest.
func TestRuleOfMigratedHeaps(t *testing.T) {
	t.Parallel()
	const old, young = month + time.Hour, month - time.Hour
	type request = events.ExecutionRequested
	for _, c := range []struct {
		name string
		make func(h *house) (heap string)
		kept bool
	}{
		{"of an unused heap", func(h *house) string {
			return h.migrated(old, h.ran(tenant, old, request{}, "x"), "new")
		}, false},
		{"migrated recently", func(h *house) string {
			return h.migrated(young, h.ran(tenant, old, request{}, "x"), "new")
		}, true},
		{"of a tagged heap", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, &events.HeapTagged{Heap: x, Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{"a": "1"}}), Actor: actor})
			return h.migrated(old, x, "new")
		}, true},
		{"of a heap that a session continues from", func(h *house) string {
			x := h.ran(tenant, old, request{Session: "s"}, "x")
			return h.migrated(old, x, "new")
		}, true},
		{"of a heap that was restored recently", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			n := h.migrated(old, x, "new")
			h.ran(tenant, young, request{Heap: x}, "")
			return n
		}, true},
		{"of a migrated heap of a tagged one", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, &events.HeapTagged{Heap: x, Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{"a": "1"}}), Actor: actor})
			return h.migrated(old, h.migrated(old, x, "new"), "newer")
		}, true},
		{"an earlier one of a tagged heap", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, old, &events.HeapTagged{Heap: x, Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{"a": "1"}}), Actor: actor})
			n := h.migrated(old, x, "new")
			h.migrated(old, x, "newer")
			return n
		}, false},
		{"two that were made of each other", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			n := h.migrated(old, x, "new")
			h.migrated(old, n, "x")
			return n
		}, false},
		{"of a refused migration", func(h *house) string {
			x := h.ran(tenant, old, request{}, "x")
			h.append(tenant, young, &events.HeapMigrated{Heap: x, Verdict: events.MigrationDifferent, Actor: actor})
			return x
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			heap := c.make(h)
			h.collect(rule)
			if kept := h.kept(tenant, heap); kept != c.kept {
				t.Errorf("kept is %t", kept)
			}
		})
	}
}

// migrated records the migration of a heap, and returns the new heap.
func (h *house) migrated(age time.Duration, heap, content string) string {
	h.t.Helper()
	made := h.put(tenant, content)
	h.append(tenant, age, &events.HeapMigrated{Heap: heap, Verdict: events.MigrationDone, NewHeap: made, Size: int64(len(content)), Actor: actor})
	return made
}
