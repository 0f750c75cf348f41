package projections_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/projections"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go leaves this goroutine if a connection is closed right after its first
		// publish.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

const tenant = events.DefaultTenant

// began is the time of the first event of a memoryLedger. Each event is one second after the
// one before.
var began = time.Date(2026, 11, 21, 9, 30, 0, 125_000_000, time.UTC)

// memoryLedger is a ledger in memory. It is a Feed with positions from 1.
type memoryLedger struct {
	mu    sync.Mutex
	list  []events.Event
	more  chan struct{} // closed and replaced when list grows
	batch int           // largest batch; 0: 1000
}

func newMemoryLedger() *memoryLedger { return &memoryLedger{more: make(chan struct{})} }

// add records payloads for the default tenant and returns the last position.
func (b *memoryLedger) add(data ...events.Data) uint64 { return b.addFor(tenant, data...) }

func (b *memoryLedger) addFor(tenant string, data ...events.Data) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range data {
		seq := uint64(len(b.list) + 1)
		b.list = append(b.list, events.Event{
			Seq: seq, ID: fmt.Sprintf("event-%d", seq), Type: events.TypeOf(d), Tenant: tenant,
			Time: began.Add(time.Duration(seq-1) * time.Second), Data: d,
		})
	}
	close(b.more)
	b.more = make(chan struct{})
	return uint64(len(b.list))
}

func (b *memoryLedger) all() []events.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// Follow implements projections.Feed.
func (b *memoryLedger) Follow(ctx context.Context, after uint64, fn func([]events.Event, uint64) error) error {
	size := b.batch
	if size == 0 {
		size = 1000
	}
	for {
		b.mu.Lock()
		list, more := b.list, b.more
		b.mu.Unlock()
		for after < uint64(len(list)) {
			batch := list[after:min(int(after)+size, len(list))]
			if err := fn(batch, uint64(len(list))); err != nil {
				return err
			}
			after += uint64(len(batch))
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// texts replaces the blob store.
type texts map[string]string

func (m texts) Text(_ context.Context, tenant, hash string) ([]byte, error) {
	text, ok := m[tenant+"/"+hash]
	if !ok {
		return nil, fmt.Errorf("text %s: %w", hash, events.ErrNotFound)
	}
	return []byte(text), nil
}

// open opens a store in a directory of the test.
func open(t testing.TB, opts projections.Options) *projections.Store {
	t.Helper()
	if opts.Path == "" {
		opts.Path = filepath.Join(t.TempDir(), "projections.db")
	}
	s, err := projections.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// apply applies the events of a memoryLedger that are not applied yet.
func apply(t testing.TB, s *projections.Store, b *memoryLedger) {
	t.Helper()
	for {
		list := b.all()[s.Applied():]
		if len(list) == 0 {
			return
		}
		if err := s.Apply(t.Context(), list[:min(len(list), 1000)]); err != nil {
			t.Fatal(err)
		}
	}
}

// follow runs a store on a feed until stop is called. stop returns the error of Run.
func follow(t testing.TB, s *projections.Store, feed projections.Feed) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, feed) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, events.ErrDamaged) {
			t.Errorf("Run: %v", err)
		}
	})
	return stop
}

// id and heap return identifiers that are easy to distinguish.
func id(n int) string   { return fmt.Sprintf("00000000-0000-7000-8000-%012d", n) }
func heap(n int) string { return fmt.Sprintf("%064x", n) }

var client = events.Actor{Principal: "anonymous", Transport: "http", Client: "curl/8"}

// requested returns the first event of execution n, changed by edit.
func requested(n int, edit ...func(*events.ExecutionRequested)) *events.ExecutionRequested {
	d := &events.ExecutionRequested{
		ExecutionID: id(n), Pool: events.DefaultPool, FileName: "main.ts", Stateful: true, Actor: client,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: fmt.Sprintf("run(%d)", n)}}),
		Limits:  events.Limits{HeapMemoryMaxMB: 64, ExecutionTimeoutSecs: 30},
	}
	for _, f := range edit {
		f(d)
	}
	return d
}

func inSession(name string) func(*events.ExecutionRequested) {
	return func(d *events.ExecutionRequested) { d.Session, d.SessionID = name, events.SessionID(tenant, name) }
}

func withTags(tags map[string]string) func(*events.ExecutionRequested) {
	return func(d *events.ExecutionRequested) { d.Content.Plain.Tags = tags }
}

// started returns the start of an attempt whose output starts at x.
func started(n, attempt int, x events.Extent, input string) *events.ExecutionStarted {
	return &events.ExecutionStarted{
		ExecutionID: id(n), Attempt: attempt, Runner: "runner", Engine: events.Engine{ID: "engine"}, StartTime: events.Instant{Time: began},
		InputHeap: input, FirstLine: x.Line, FirstByte: x.Byte,
	}
}

// fresh is the extent at which the output of a first attempt starts.
var fresh = events.Extent{Line: 1}

func output(n, attempt int, x events.Extent, lines ...events.Line) *events.ExecutionOutput {
	return &events.ExecutionOutput{ExecutionID: id(n), Attempt: attempt, FirstLine: x.Line, FirstByte: x.Byte, Content: events.Plain(events.OutputContent{Lines: lines})}
}

// pieces cuts text into lines. Text after the last line end is continued.
func pieces(text string) []events.Line {
	var list []events.Line
	for i, part := range strings.SplitAfter(text, "\n") {
		if part == "" {
			continue
		}
		line, ended := strings.CutSuffix(part, "\n")
		list = append(list, events.Line{Text: line, TimeMillis: began.UnixMilli() + int64(i), Continued: !ended})
	}
	return list
}

// print records text as the output of a first attempt, in chunks of at most size bytes.
func (b *memoryLedger) print(n int, text string, size int) {
	x := events.Extent{Line: 1, Attempt: 1}
	for text != "" {
		cut := min(size, len(text))
		for cut > 0 && cut < len(text) && text[cut]&0xc0 == 0x80 {
			cut--
		}
		d := output(n, 1, x, pieces(text[:cut])...)
		x.Add(d)
		b.add(d)
		text = text[cut:]
	}
}

// ended returns a terminal event.
func ended(n int, status events.Status, edit ...func(*events.Ending)) events.Data {
	e := events.Ending{ExecutionID: id(n), Attempt: 1, Runner: "runner"}
	for _, f := range edit {
		f(&e)
	}
	return events.NewEnding(status, e)
}

func leaving(output, parent string) func(*events.Ending) {
	return func(e *events.Ending) {
		e.Heap = &events.HeapRecord{SHA256: output, Size: 1 << 20, EngineID: "engine", Parent: parent}
	}
}

// tagged returns a tag edit by a client.
func tagged(heap string, tags map[string]string, edit events.TagEdit, from uint64) *events.HeapTagged {
	return &events.HeapTagged{Heap: heap, Content: events.Plain(events.TagContent{Tags: tags}), Edit: edit, AppliesAt: from, Actor: client}
}

func ptr[T any](v T) *T { return &v }

// at returns the time of the event at a position, as results show it.
func at(seq uint64) string { return events.FormatTime(began.Add(time.Duration(seq-1) * time.Second)) }

func noAnomalies(t testing.TB, s *projections.Store) {
	t.Helper()
	for _, n := range broken(t, s) {
		t.Errorf("anomaly at %d: %s", n.Seq, n.What)
	}
}

// note is an event that broke a rule.
type note struct {
	Seq  uint64
	What string
}

// broken returns the events that broke a rule, the oldest first.
func broken(t testing.TB, s *projections.Store) (list []note) {
	t.Helper()
	a, err := s.Anomalies(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range slices.Backward(a.Newest) {
		if n.Kind == projections.AnomalyRuleBroken {
			list = append(list, note{n.Seq, n.What})
		}
	}
	return list
}
