package contextstore_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/dev/tier"
	"daybook/projections"
)

// crowd records n contexts with content, and returns their keys.
func crowd(t testing.TB, b *testLedger, n int) []contextstore.Key {
	t.Helper()
	keys := make([]contextstore.Key, n)
	var last uint64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for part := range 32 {
		wg.Go(func() {
			for i := part; i < n; i += 32 {
				keys[i] = named(i)
				ref := events.ContextRef{Key: keys[i].String(), SessionID: events.NewSessionID(), Kind: events.ContextSession}
				seq, err := b.log.Append(t.Context(), events.New(events.DefaultTenant, b.clock.Now(), &events.ContextUpdated{
					ContextRef: ref, Actor: client, Content: events.Plain(events.ContextContent{
						Custom: map[string]json.RawMessage{"n": json.RawMessage(fmt.Sprint(i)), "text": json.RawMessage(`"` + fmt.Sprintf("%0900d", i) + `"`)},
					}),
				}), 0)
				if err != nil {
					t.Errorf("context %d: %v", i, err)
					return
				}
				mu.Lock()
				last = max(last, seq)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	b.wait(last)
	return keys
}

// With ten thousand concurrent sessions, the memory stays within its limit, and evicted
// contexts are read again unchanged.
func TestTenThousandSessions(t *testing.T) {
	t.Parallel()
	sessions, bound := 10_000, int64(8<<20)
	if testing.Short() || !tier.Nightly() { // as under the race detector
		sessions, bound = sessions/10, bound/10
	}
	b := openTestLedger(t)
	keys := crowd(t, b, sessions)
	// The expected contexts, from a store that holds all of them.
	whole := b.store(func(o *contextstore.Options) { o.MaxBytes = 1 << 40 })
	want := make([]projections.Context, sessions)
	for i, k := range keys {
		want[i] = get(t, whole, k)
		if string(want[i].Custom["n"]) != fmt.Sprint(i) {
			t.Fatalf("context %d has %s", i, want[i].Custom["n"])
		}
	}
	if st := whole.Stats(); st.Sessions != sessions || st.Evictions[contextstore.EvictedLRU] != 0 {
		t.Fatalf("%+v", st)
	}
	s := b.store(func(o *contextstore.Options) { o.MaxBytes = bound })
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for round, step := range []int{1, 16} { // all contexts, then a part of them again
				for i := part; i < sessions; i += 8 * step {
					got, err := s.Get(t.Context(), keys[i], "get_context")
					if err != nil {
						t.Error(err)
						return
					}
					if diff := cmp.Diff(want[i], got); diff != "" {
						t.Errorf("round %d: context %d has changed:\n%s", round, i, diff)
						return
					}
					// The contexts in use are not evicted, and eight are in use.
					if st := s.Stats(); st.Bytes > bound+8*(8<<10) {
						t.Errorf("%d bytes are in memory, the limit is %d", st.Bytes, bound)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	st := s.Stats()
	if st.Bytes > bound || st.Sessions >= sessions || st.Evictions[contextstore.EvictedLRU] < int64(sessions)/2 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkGet reads contexts from memory, and from the projections.
func BenchmarkGet(b *testing.B) {
	const sessions = 10_000
	l := openTestLedger(b)
	keys := crowd(b, l, sessions)
	for name, most := range map[string]int{"held": sessions, "evicted": 1} {
		b.Run(name, func(b *testing.B) {
			s := l.store(func(o *contextstore.Options) { o.MaxSessions = most })
			before := heapInUse()
			for _, k := range keys {
				get(b, s, k)
			}
			each := float64(heapInUse()-before) / float64(min(most, sessions))
			i := 0
			for b.Loop() {
				get(b, s, keys[i%sessions])
				i++
			}
			b.ReportMetric(each, "B/context")
			runtime.KeepAlive(s)
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkNote notes calls of many concurrent sessions and records them as Run does.
func BenchmarkNote(b *testing.B) {
	l := openTestLedger(b)
	s := l.store()
	n := 0
	for b.Loop() {
		note(b, s, named(n%100), began, n)
		n++
		if n%100 == 0 {
			s.Flush(b.Context())
		}
	}
}
