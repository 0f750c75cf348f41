package retention_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant = events.DefaultTenant
	month  = 30 * 24 * time.Hour
)

var actor = events.Actor{Principal: "tester", Transport: "embed"}

// house is a ledger with heaps of chosen ages. Its clock is two months ahead of the
// disk's, so that each blob is old enough to be deleted.
type house struct {
	t       testing.TB
	server  *natsserver.Server
	store   *jetstream.Store
	ledger  *ledger.Ledger
	service *retention.Service
	now     time.Time
	n       int
}

func open(t testing.TB) *house { return openWith(t, jetstream.Options{BlobGracePeriod: -1}) }

func openWith(t testing.TB, opts jetstream.Options) *house {
	t.Helper()
	h := &house{t: t, server: storetest.StartServer(t, t.TempDir()), now: time.Now().Add(2 * month)}
	h.store = storetest.Open(t, h.server, opts)
	h.ledger = ledger.New(h.store, ledger.Options{Logger: storetest.Logger(t)})
	h.service = h.over(h.store, h.ledger)
	return h
}

func (h *house) over(blobs retention.Blobs, recorder retention.Recorder) *retention.Service {
	return retention.New(retention.Options{
		Feed: h.store, Recorder: recorder, Blobs: blobs, Now: func() time.Time { return h.now }, Logger: storetest.Logger(h.t),
	})
}

// append records an event with the given age.
func (h *house) append(of string, age time.Duration, d events.Data) uint64 {
	h.t.Helper()
	seq, err := h.store.Append(h.t.Context(), events.New(of, h.now.Add(-age), d), ledger.AnyPosition)
	if err != nil {
		h.t.Fatal(err)
	}
	return seq
}

// put stores a heap that no event names.
func (h *house) put(of, content string) string {
	h.t.Helper()
	hash, err := h.store.PutHeap(h.t.Context(), of, []byte(content), "e")
	if err != nil {
		h.t.Fatal(err)
	}
	return hash
}

// id returns a new execution id.
func (h *house) id() string {
	h.n++
	return events.DerivedID(tenant, fmt.Sprint(h.n))
}

// ran records a run of the given age and returns the heap that it left. Without content
// the run leaves no heap.
func (h *house) ran(of string, age time.Duration, req events.ExecutionRequested, content string) string {
	h.t.Helper()
	if req.ExecutionID == "" {
		req.ExecutionID = h.id()
	}
	req.Pool = events.DefaultPool
	if req.Session != "" {
		req.SessionID = events.SessionID(of, req.Session)
	}
	h.append(of, age, &req)
	return h.ended(of, age, req, content)
}

func (h *house) ended(of string, age time.Duration, req events.ExecutionRequested, content string) string {
	h.t.Helper()
	end := events.Ending{ExecutionID: req.ExecutionID}
	var heap string
	if content != "" {
		heap = h.put(of, content)
		end.Heap = &events.HeapRecord{SHA256: heap, Size: int64(len(content)), EngineID: "e"}
	}
	seq := h.append(of, age, events.NewEnding(events.StatusCompleted, end))
	if req.Session != "" {
		h.append(of, age, &events.SessionEntryRecorded{
			SessionID: req.SessionID, Session: req.Session, Index: int64(h.n), ExecutionID: req.ExecutionID, Status: events.StatusCompleted,
			InputHeap: req.Heap, OutputHeap: heap, TerminalSeq: seq,
		})
	}
	return heap
}

func (h *house) collect(rule retention.Rule) retention.Report {
	h.t.Helper()
	r, err := h.service.Collect(h.t.Context(), retention.Pass{Rule: rule, Actor: actor})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// kept reports whether a heap exists. The test fails if the heap neither exists nor was
// removed.
func (h *house) kept(of, heap string) bool {
	h.t.Helper()
	_, err := h.store.HeapInfo(h.t.Context(), of, heap)
	if err != nil && !errors.Is(err, events.ErrRemoved) {
		h.t.Fatalf("heap %s: %v", heap, err)
	}
	return err == nil
}

// collections returns the heap.collected events, in order.
func (h *house) collections() []events.Event {
	h.t.Helper()
	list, err := h.store.Read(h.t.Context(), 0, 1<<20)
	if err != nil {
		h.t.Fatal(err)
	}
	var found []events.Event
	for _, e := range list {
		if e.Type == events.TypeHeapCollected {
			found = append(found, e)
		}
	}
	return found
}

// openWithStore opens the same storage as another process would.
func openWithStore(t testing.TB, h *house) *jetstream.Store {
	t.Helper()
	return storetest.Open(t, h.server, jetstream.Options{BlobGracePeriod: -1})
}
