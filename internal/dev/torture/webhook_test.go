package torture_test

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/web/client"
	"daybook/internal/webhook"
)

// inbox is a receiver of webhooks that fails for some deliveries.
type inbox struct {
	t      *testing.T
	mu     sync.Mutex
	secret webhook.Secret
	random *rand.Rand
	got    []uint64 // positions accepted, in order of arrival
	came   chan struct{}
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server was killed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.secret.Verify(r.Header, body, time.Now()); err != nil {
		b.t.Errorf("delivery: %v", err)
	}
	if b.random.IntN(20) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var e struct {
		Sequence string `json:"sequence"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		b.t.Error(err)
	}
	seq, err := strconv.ParseUint(e.Sequence, 10, 64)
	if err != nil {
		b.t.Error(err)
	}
	b.got = append(b.got, seq)
	select {
	case b.came <- struct{}{}:
	default:
	}
}

func (b *inbox) received() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// TestKillWebhooks kills the server during deliveries, and then checks that a receiver got
// every event in order, and at most one event twice after each kill.
func TestKillWebhooks(t *testing.T) {
	runInParallel(t)
	setSeed()
	t.Logf("%d kills, -seed=%d", *consumerKills, *seed)
	random := rand.New(rand.NewPCG(*seed, 3))
	s := newServer(t)
	s.flags = []string{"--webhook-allow-private"}
	s.start()
	b := &inbox{t: t, random: rand.New(rand.NewPCG(*seed, 4)), came: make(chan struct{}, 1)}
	receiver := httptest.NewServer(b)
	defer receiver.Close()
	added, err := s.api().AddWebhook(t.Context(), client.NewWebhook{URL: receiver.URL})
	if err != nil {
		t.Fatal(err)
	}
	from := added.Sequence
	if b.secret, err = webhook.ParseSecret(added.Body.Secret); err != nil {
		t.Fatal(err)
	}
	for range *consumerKills {
		ctx, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for n := range 2 {
			load.Go(func() { submitRuns(ctx, s, n) })
		}
		select {
		case <-b.came: // something is delivered in every round
		case <-time.After(60 * time.Second):
			t.Fatalf("nothing is delivered:\n%s", tail(s.log.String()))
		}
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond)))) // a random time is the purpose of the test
		s.kill()
		stop()
		load.Wait()
		s.start()
	}
	(&promises{}).settle(t, s)
	var want []uint64
	for _, e := range s.ledger() {
		if e.Seq > from && !strings.HasPrefix(e.Type, "daybook.ledger.") {
			want = append(want, e.Seq)
		}
	}
	for late := time.Now().Add(2 * time.Minute); ; {
		got := b.received()
		if len(got) > 0 && got[len(got)-1] == want[len(want)-1] {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d deliveries, %d events", len(got), len(want))
		}
		time.Sleep(10 * time.Millisecond) // polling another process
	}
	got := b.received()
	if !slices.IsSorted(got) {
		t.Error("deliveries came out of order")
	}
	repeated := len(got)
	got = slices.Compact(got)
	repeated -= len(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d events were delivered, %d are recorded", len(got), len(want))
	}
	if repeated > *consumerKills {
		t.Errorf("%d repetitions after %d kills", repeated, *consumerKills)
	}
	t.Logf("%d kills, %d events, each delivered in order, %d of them twice", *consumerKills, len(want), repeated)
}
