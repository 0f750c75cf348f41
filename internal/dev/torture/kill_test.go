package torture_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/web/client"
)

var (
	kills = flag.Int("kills", tier.Choose(3, 12), "how often to kill the server")
	round = flag.Duration("round", 900*time.Millisecond, "longest time between the first acknowledgement of a round and the kill")
	seed  = flag.Uint64("seed", 0, "seed of the random times; 0 picks one")
)

// setSeed picks the seed of the random times unless a flag sets it.
var setSeed = sync.OnceFunc(func() {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
})

// runInParallel runs a test of normal size in parallel with others, because they wait for
// processes most of the time. The long versions run alone.
func runInParallel(t *testing.T) {
	if *kills <= 12 && *consumerKills <= 10 {
		t.Parallel()
	}
}

// promises are the acknowledgements that clients have received.
type promises struct {
	mu        sync.Mutex
	accepted  map[string]string // execution id -> description of the request
	cancelled map[string]bool   // cancel answered ok
	ended     map[string]string // execution id -> terminal status seen
	edits     map[uint64]string // position of a tag edit -> heap
	heaps     []string
	// The shutdown of the disk took place between began and done; both are zero before it.
	// A machine without power could not have sent an acknowledgement after began, so a
	// later acknowledgement does not count. A request that starts after done must not be
	// acknowledged; late lists the requests for which that happened.
	began, done time.Time
	late        []string
}

// note records an acknowledgement of a request that started at a time. The caller must hold p.mu.
func (p *promises) note(asked time.Time, what string, record func()) {
	switch {
	case p.began.IsZero():
		record()
	case !p.done.IsZero() && asked.After(p.done):
		p.late = append(p.late, what)
	}
}

func newPromises() *promises {
	return &promises{accepted: map[string]string{}, cancelled: map[string]bool{}, ended: map[string]string{}, edits: map[uint64]string{}}
}

// TestKill kills a loaded server with SIGKILL at random times, and then checks that no
// acknowledged event is missing and every execution has exactly one terminal event. "make
// torture" runs the long version.
func TestKill(t *testing.T) {
	runInParallel(t)
	setSeed()
	t.Logf("%d kills, -seed=%d", *kills, *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	s := newServer(t)
	s.flags = append(s.flags, "--seal-executions", "20") // starts seal volumes, and archive them under the load
	p := newPromises()
	var starting time.Duration
	for n := range *kills {
		began := time.Now()
		s.start()
		starting += time.Since(began)
		if n == 0 {
			p.makeHeaps(t, s)
		}
		p.round(s, random, s.kill)
		if n%50 == 49 {
			t.Logf("%d kills, %d executions, %d cancels, %d tag edits acknowledged", n+1, len(p.accepted), len(p.cancelled), len(p.edits))
		}
	}
	s.start()
	p.settle(t, s)
	p.check(t, s)
	volumes, archives := s.volumes()
	t.Logf("%d volumes, %d of them archives", volumes, archives)
	t.Logf("%d kills: %d executions, %d cancels and %d tag edits were acknowledged; mean start %v", *kills, len(p.accepted), len(p.cancelled), len(p.edits), (starting / time.Duration(*kills)).Round(time.Millisecond))
}

// round loads a ready server with six clients, waits for an acknowledgement and then for a
// random time, and ends the server.
func (p *promises) round(s *server, random *rand.Rand, end func()) {
	// Without an acknowledgement the round would test nothing.
	before := p.count()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for c := range 6 {
		clientSeed := random.Uint64()
		clients.Go(func() { p.load(ctx, s, c, rand.New(rand.NewPCG(clientSeed, uint64(c)))) })
	}
	for p.count() == before {
		time.Sleep(time.Millisecond) // until the first acknowledgement of the round
	}
	time.Sleep(time.Duration(random.Int64N(int64(*round)))) // a random time is the purpose of the test
	end()
	stop()
	clients.Wait()
}

func (p *promises) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.accepted)
}

// load is one client. It submits, cancels, tags and reads until the server has ended, and
// records only acknowledgements.
func (p *promises) load(ctx context.Context, s *server, number int, random *rand.Rand) {
	// At most 8 runs for each client: after a thousand rounds all of them must still be run.
	for n := 0; n < 8 && ctx.Err() == nil; n++ {
		var run client.Run
		kind := random.IntN(6)
		if kind == 3 && number > 0 {
			kind = 0 // loops occupy the slots: those of one client are enough
		}
		switch kind {
		case 0:
			run = client.Run{Code: "1 + 1"}
		case 1:
			run = client.Run{Code: "for (let i = 0; i < 300; i++) console.log('line', i); 'done'", Session: fmt.Sprintf("s%d", random.IntN(3))}
		case 2:
			run = client.Run{Code: "globalThis.n = (globalThis.n ?? 0) + 1", Tags: map[string]string{"kind": "counter"}, Session: "tagged", Heap: p.anyHeap(random)}
		case 3:
			run = client.Run{Code: "while (true) {}", ExecutionTimeoutSecs: new(1)}
		case 4:
			run = client.Run{Code: "await new Promise(r => setTimeout(r, 150)); console.log('late'); throw new Error('on purpose')"}
		case 5:
			run = client.Run{Code: "console.log('x'.repeat(100000)); [1,2,3]"}
		}
		asked := time.Now()
		answer, err := s.api().Submit(ctx, run)
		if isRefusal(err) {
			continue
		}
		if err != nil {
			return
		}
		id := answer.Body.ExecutionID
		p.mu.Lock()
		p.note(asked, "execution "+id, func() { p.accepted[id] = run.Code })
		p.mu.Unlock()
		// The heap is usually of an earlier round: runs of this one may wait in a long queue.
		if heap := p.anyHeap(random); heap != "" && random.IntN(3) == 0 && !p.tag(ctx, s, heap, n) {
			return
		}
		switch {
		case kind == 3 && random.IntN(8) > 0:
			_, err := s.api().Cancel(ctx, id)
			if err != nil && !isRefusal(err) {
				return
			}
			if err == nil {
				p.mu.Lock()
				if p.began.IsZero() {
					p.cancelled[id] = true
				}
				p.mu.Unlock()
			}
		case random.IntN(3) == 0:
			answer, err := s.api().Await(ctx, id, time.Second)
			if err != nil && !isRefusal(err) {
				return
			}
			if e := answer.Body; err == nil && e.Status.Terminal() {
				p.mu.Lock()
				if p.began.IsZero() {
					p.ended[id] = string(e.Status)
				}
				if e.Heap != nil && p.began.IsZero() {
					p.heaps = append(p.heaps, *e.Heap)
				}
				p.mu.Unlock()
				if e.Heap != nil && !p.tag(ctx, s, *e.Heap, n) {
					return
				}
			}
		}
	}
}

// makeHeaps runs a few scripts to their end, so that the first round has heaps to tag.
func (p *promises) makeHeaps(t *testing.T, s *server) {
	t.Helper()
	for n := range 5 {
		code := fmt.Sprintf("globalThis.n = %d", n)
		answer, err := s.api().Submit(t.Context(), client.Run{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		id := answer.Body.ExecutionID
		ended, err := s.api().Await(t.Context(), id, 30*time.Second)
		if err != nil || ended.Body.Heap == nil {
			t.Fatalf("a first run: %s, %v", ended.JSON, err)
		}
		p.accepted[id], p.ended[id] = code, "completed"
		p.heaps = append(p.heaps, *ended.Body.Heap)
	}
}

func (p *promises) anyHeap(random *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.heaps) == 0 {
		return ""
	}
	return p.heaps[random.IntN(len(p.heaps))]
}

func (p *promises) tag(ctx context.Context, s *server, heap string, n int) bool {
	asked := time.Now()
	answer, err := s.api().SetTags(ctx, heap, map[string]string{"n": fmt.Sprint(n)})
	if err != nil {
		return isRefusal(err)
	}
	p.mu.Lock()
	p.note(asked, fmt.Sprintf("tag edit %d", answer.Sequence), func() { p.edits[answer.Sequence] = heap })
	p.mu.Unlock()
	return true
}

// settle waits until no accepted execution is running. It fails once none has ended for five minutes.
func (p *promises) settle(t *testing.T, s *server) {
	t.Helper()
	var deadline time.Time
	ended := ""
	for {
		if now := s.endedRuns(); now != ended || deadline.IsZero() {
			ended, deadline = now, time.Now().Add(5*time.Minute)
		}
		answer, err := s.api().Executions(context.Background(), client.ExecutionFilter{Status: "running", Limit: 1})
		if err != nil {
			t.Fatalf("list running executions: %v", err)
		}
		running := answer.Body.Executions
		if len(running) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running after the deadline: %v\n%s", running, tail(s.log.String()))
		}
		time.Sleep(100 * time.Millisecond) // polling another process
	}
}

// check compares the ledger with the acknowledgements.
func (p *promises) check(t *testing.T, s *server) {
	t.Helper()
	requested := map[string]int{}
	terminals := map[string][]string{}
	settled := map[string]bool{}
	named := map[string]bool{}
	entries := map[string][]int64{}
	bySeq := map[uint64]recorded{}
	var last uint64
	for _, e := range s.ledger() {
		if e.Seq != last+1 {
			t.Fatalf("position %d follows %d", e.Seq, last)
		}
		last = e.Seq
		bySeq[e.Seq] = e
		typ := events.Type(e.Type)
		switch {
		case typ == events.TypeExecutionRequested:
			requested[e.Subject]++
			if strings.Contains(string(e.Data), `"session":`) {
				named[e.Subject] = true
			}
		case typ.Terminal():
			st, _ := typ.Status()
			terminals[e.Subject] = append(terminals[e.Subject], string(st))
		case typ == events.TypeSessionEntryRecorded:
			var d events.SessionEntryRecorded
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Fatal(err)
			}
			entries[d.Session] = append(entries[d.Session], d.Index)
			if settled[d.ExecutionID] {
				t.Errorf("%s has two session entries", d.ExecutionID)
			}
			settled[d.ExecutionID] = true
		}
	}
	for _, what := range p.late {
		t.Errorf("%s was acknowledged although the disk was shut down before the request", what)
	}
	for id, asked := range p.accepted {
		if requested[id] != 1 {
			t.Errorf("%s (%s) was accepted but is recorded %d times", id, asked, requested[id])
		}
	}
	for id, n := range requested {
		if n != 1 {
			t.Errorf("%s was requested %d times", id, n)
		}
		if len(terminals[id]) != 1 {
			t.Errorf("%s has %d terminal events %v", id, len(terminals[id]), terminals[id])
		}
		if named[id] && !settled[id] {
			t.Errorf("%s ended but its session has no entry for it", id)
		}
	}
	for id := range p.cancelled {
		if got := terminals[id]; len(got) != 1 || got[0] != "cancelled" {
			t.Errorf("%s: the cancel was acknowledged, but %v is recorded", id, got)
		}
	}
	for id, status := range p.ended {
		if got := terminals[id]; len(got) != 1 || got[0] != status {
			t.Errorf("%s was read as %s, but %v is recorded", id, status, got)
		}
	}
	for seq, heap := range p.edits {
		if e := bySeq[seq]; e.Type != string(events.TypeHeapTagged) || e.Subject != heap {
			t.Errorf("position %d must be a tag edit of %s, but is %s of %s", seq, heap, e.Type, e.Subject)
		}
	}
	for session, indices := range entries {
		for i, index := range indices {
			if index != int64(i) {
				t.Fatalf("session %s: entry %d has index %d", session, i, index)
			}
		}
	}
	t.Logf("ledger: %d events, %d executions, %d sessions", last, len(requested), len(entries))
}

func tail(s string) string {
	if len(s) > 8000 {
		return "…" + s[len(s)-8000:]
	}
	return s
}
