package runner_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/runner"
)

// servers is a scripted Servers.
type servers struct {
	call func(ctx context.Context, tool, arguments string) runner.ServerResult

	mu   sync.Mutex
	made []string
}

func (s *servers) Servers(context.Context, ledger.Request) map[string][]string {
	return map[string][]string{"shop": {"price", "buy"}, "down": {}}
}

func (s *servers) Call(ctx context.Context, _ ledger.Request, c ledger.HostCall) runner.ServerResult {
	s.mu.Lock()
	s.made = append(s.made, fmt.Sprintf("%s.%s%s", c.Server, c.Tool, c.Arguments))
	s.mu.Unlock()
	return s.call(ctx, c.Tool, string(c.Arguments))
}

func (s *servers) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.made)
}

// answers returns the arguments of a call, or an error for the tool buy.
func answers(_ context.Context, tool, arguments string) runner.ServerResult {
	if tool == "buy" {
		return runner.ServerResult{Outcome: events.HostError, Text: []byte("sold out")}
	}
	return runner.ServerResult{Outcome: events.HostOK, Text: []byte(arguments)}
}

// hostEvents returns the events about host calls in short form.
func hostEvents(list []events.Event) []string {
	var out []string
	for _, e := range list {
		switch d := e.Data.(type) {
		case *events.HostCalled:
			out = append(out, fmt.Sprintf("%d called %d %s.%s%s", d.Attempt, d.Number, d.Server, d.Tool, bodyText(d.Content.Value().Arguments)))
		case *events.HostReturned:
			out = append(out, fmt.Sprintf("%d %s %d %s", d.Attempt, d.Outcome, d.Number, bodyText(d.Content.Value().Result)))
		}
	}
	return out
}

func bodyText(b *events.Body) string {
	switch {
	case b == nil:
		return "<hash>"
	case b.Blob != nil:
		return fmt.Sprintf("<blob of %d>", b.Blob.Size)
	default:
		return b.Text
	}
}

const shopping = `
	const seen = [];
	setTimeout(() => seen.push("timer"), 2);
	seen.push((await mcp.shop.price({ of: "tea" })).of);
	seen.push(await mcp.shop.buy({ of: "tea" }).catch(e => e.message));
	const kept = [Date.now(), Math.random()];
	console.log(JSON.stringify(seen));
	seen.includes("tea") && seen.includes("shop.buy: sold out")`

// Host calls are recorded, each call before its answer. A replay of the recorded calls
// produces the same output and the same heap.
func TestHostCallsAndReplay(t *testing.T) {
	b := newTestLedger(t)
	pool := newProcesses(t)
	s := &servers{call: answers}
	opts := b.options(pool)
	opts.Servers = s
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Code = shopping })
	status, end := b.waitForEnd(id)
	if status != events.StatusCompleted || end.Content.Value().Result.Text != "true" {
		t.Fatalf("%s %s", status, errorText(end))
	}
	list := b.history(id)
	want := []string{`1 called 1 shop.price{"of":"tea"}`, `1 ok 1 {"of":"tea"}`, `1 called 2 shop.buy{"of":"tea"}`, `1 error 2 sold out`}
	if got := hostEvents(list); !slices.Equal(got, want) {
		t.Fatalf("recorded:\n%q, want\n%q", got, want)
	}
	var started *events.ExecutionStarted
	for _, e := range list {
		if d, ok := e.Data.(*events.ExecutionStarted); ok {
			started = d
		}
	}
	if bodyText(started.Callable) != `{"down":[],"shop":["price","buy"]}` {
		t.Errorf("callable: %s", bodyText(started.Callable))
	}

	calls, err := b.ledger.HostCalls(t.Context(), events.DefaultTenant, id)
	if err != nil {
		t.Fatal(err)
	}
	var callable map[string][]string
	if err := json.Unmarshal([]byte(started.Callable.Text), &callable); err != nil {
		t.Fatal(err)
	}
	var said []string
	out, err := pool.Run(t.Context(), replayTask(t, started, shopping, callable, runner.NewReplayHost(calls)), func(_ context.Context, lines []events.Line) error {
		for _, l := range lines {
			said = append(said, l.Text)
		}
		return nil
	})
	if err != nil || out.Status != "completed" {
		t.Fatalf("replay: %s %s, %v", out.Status, out.Error, err)
	}
	if got := events.Hash(out.Heap); got != end.Heap.SHA256 {
		t.Errorf("the replay left heap %s, the run %s", got, end.Heap.SHA256)
	}
	if got := strings.Join(said, "\n") + "\n"; got != text(list) {
		t.Errorf("the replay printed %q, the run %q", got, text(list))
	}
	if len(s.calls()) != 2 {
		t.Errorf("the replay called: %q", s.calls())
	}
	// Another script does not get the answers of this one.
	other := replayTask(t, started, strings.ReplaceAll(shopping, "tea", "milk"), callable, runner.NewReplayHost(calls))
	if _, err := pool.Run(t.Context(), other, func(context.Context, []events.Line) error { return nil }); err == nil || !strings.Contains(err.Error(), "differ from the recorded calls") {
		t.Errorf("another script: %v", err)
	}
}

// A call of an encrypted run is compared by its keyed hash. Without the key it cannot be
// compared, which does not mean that it differs.
func TestReplayOfEncryptedCalls(t *testing.T) {
	keys, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := openTestLedger(t, jetstream.Options{Keys: keys}, ledger.Options{Keys: keys, EncryptContent: true})
	opts := b.options(newProcesses(t))
	opts.Servers = &servers{call: answers}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Code, s.Session = `await mcp.shop.price({ of: "tea" })`, "s" })
	if status, end := b.waitForEnd(id); status != events.StatusCompleted {
		t.Fatalf("%s %s", status, errorText(end))
	}
	replay := func(l *ledger.Ledger, arguments string) error {
		calls, err := l.HostCalls(t.Context(), events.DefaultTenant, id)
		if err != nil || len(calls) != 1 {
			t.Fatalf("%d calls, %v", len(calls), err)
		}
		return runner.NewReplayHost(calls).Call(t.Context(), 1, "shop", "price", []byte(arguments))
	}
	if err := replay(b.ledger, `{"of":"tea"}`); err != nil {
		t.Error(err)
	}
	milk := `{"of":"milk"}`
	if err := replay(b.ledger, milk); err == nil || !strings.Contains(err.Error(), "differ from the recorded calls") || strings.Contains(err.Error(), events.Hash([]byte(milk))[:12]) {
		t.Errorf("other arguments: %v", err)
	}
	var answer *ledger.Error
	if err := replay(ledger.New(b.store, ledger.Options{}), `{"of":"tea"}`); !errors.As(err, &answer) || answer.Code != ledger.CodeUnavailable {
		t.Errorf("without keys: %v", err)
	}
}

// replayTask returns the task of a recorded run.
func replayTask(t *testing.T, s *events.ExecutionStarted, code string, callable map[string][]string, h runner.Host) runner.Task {
	t.Helper()
	task := runner.Task{
		Tenant: events.DefaultTenant, Code: []byte(code), FileName: "main.ts", Stateful: true, Timeout: patience, Start: s.StartTime.Time, Servers: callable, Host: h,
		HeapLimitBytes: int64(s.Limits.HeapMemoryMaxMB) << 20, ArrayBufferLimitBytes: int64(s.Limits.HeapMemoryMaxMB) << 20,
	}
	seed, err := hex.DecodeString(s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	copy(task.Seed[:], seed)
	return task
}

// Large arguments and results are stored as blobs. With HostCallHashes, only hashes are
// stored.
func TestHostCallBodies(t *testing.T) {
	pool := newProcesses(t)
	const code = `(await mcp.shop.price({ of: "x".repeat(100000) })).of.length`
	for _, hashes := range []bool{false, true} {
		b := openTestLedger(t, jetstream.Options{}, ledger.Options{HostCallHashes: hashes})
		opts := b.options(pool)
		opts.Servers = &servers{call: answers}
		b.startRunner(opts)
		id := b.submit(func(s *ledger.Submission) { s.Code = code })
		if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Content.Value().Result.Text != "100000" {
			t.Fatalf("%s %s", status, errorText(end))
		}
		want := []string{"1 called 1 shop.price<blob of 100009>", "1 ok 1 <blob of 100009>"}
		if hashes {
			want = []string{"1 called 1 shop.price<hash>", "1 ok 1 <hash>"}
		}
		if got := hostEvents(b.history(id)); !slices.Equal(got, want) {
			t.Errorf("recorded: %q, want %q", got, want)
		}
		calls, err := b.ledger.HostCalls(t.Context(), events.DefaultTenant, id)
		if err != nil || len(calls) != 1 || calls[0].Answer.HasText() == hashes {
			t.Errorf("%d calls, %v", len(calls), err)
		}
	}
}

// A run that is cancelled or times out while a call is pending ends, and the ledger
// records that the result of the call is unknown.
func TestRunEndsDuringACall(t *testing.T) {
	b := newTestLedger(t)
	began := make(chan struct{}, 5)
	s := &servers{call: func(ctx context.Context, _, _ string) runner.ServerResult {
		began <- struct{}{}
		<-ctx.Done()
		return runner.ServerResult{Outcome: events.HostCancelled}
	}}
	opts := b.options(newProcesses(t))
	opts.Servers = s
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Code = "await mcp.shop.buy()" })
	receive(t, "the call", began)
	if err := cancelRun(t, b, id); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.waitForEnd(id); status != events.StatusCancelled {
		t.Errorf("cancelled: %s", status)
	}
	var late string
	for limit := 1; limit <= 8; limit *= 2 {
		late = b.submit(func(s *ledger.Submission) { s.Code, s.ExecutionTimeoutSecs = "await mcp.shop.buy()", &limit })
		if status, _ := b.waitForEnd(late); status != events.StatusTimedOut {
			t.Errorf("late: %s", status)
		}
		if len(hostEvents(b.history(late))) > 0 {
			break // on a loaded machine the time limit may pass before the call
		}
	}
	for _, id := range []string{id, late} {
		if got := hostEvents(b.history(id)); len(got) != 2 || !strings.HasPrefix(got[1], "1 cancelled 1 ") {
			t.Errorf("recorded: %q", got)
		}
	}
}

func cancelRun(t *testing.T, b *testLedger, id string) error {
	t.Helper()
	_, err := b.ledger.Cancel(t.Context(), events.DefaultTenant, id, events.Actor{Principal: "anonymous", Transport: "embed"})
	return err
}

// crashingLog simulates a runner that dies at a chosen event about calls: the event is not
// recorded, and the run is delivered again.
type crashingLog struct {
	runner.Ledger
	at   func(event string, number int) bool
	once sync.Once
}

var errCrash = fmt.Errorf("the runner died here")

func (c *crashingLog) diesAt(event string, number int) (dies bool) {
	if c.at(event, number) {
		c.once.Do(func() { dies = true })
	}
	return dies
}

func (c *crashingLog) RecordCall(ctx context.Context, r *ledger.StartedAttempt, call ledger.HostCall) error {
	if c.diesAt("before call", call.Number) {
		return errCrash
	}
	return c.Ledger.RecordCall(ctx, r, call)
}

func (c *crashingLog) RecordReturn(ctx context.Context, r *ledger.StartedAttempt, a ledger.HostReturn) error {
	if c.diesAt("before return", a.Number) {
		return errCrash
	}
	err := c.Ledger.RecordReturn(ctx, r, a)
	if err == nil && c.diesAt("after return", a.Number) {
		return errCrash
	}
	return err
}

// A run whose runner died continues with the recorded answers and repeats no call. It
// fails if the effect of a call is unknown.
func TestInterruptedAfterCalls(t *testing.T) {
	pool := newProcesses(t)
	const code = `
		const first = await mcp.shop.price({ n: 1 });
		const [a, b] = await Promise.all([mcp.shop.price({ n: 2 }), new Promise(r => setTimeout(r, 1, "tick"))]);
		await mcp.shop.price({ n: 3 });
		console.log(first.n + a.n, b); "done"`
	for _, test := range []struct {
		name, event string
		number      int
		hashes      bool
		status      events.Status
		calls       int
		reason      string
	}{
		{"before the second call is recorded", "before call", 2, false, events.StatusCompleted, 3, ""},
		{"after the first answer", "after return", 1, false, events.StatusCompleted, 3, ""},
		{"after the last answer", "after return", 3, false, events.StatusCompleted, 3, ""},
		{"before an answer is recorded", "before return", 2, false, events.StatusFailed, 2, "whether call 2 (shop.price) was carried out is not known"},
		{"with only hashes recorded", "after return", 1, true, events.StatusFailed, 1, "the answer to call 1 (shop.price) is not recorded, only its hash"},
	} {
		b := openTestLedger(t, jetstream.Options{}, ledger.Options{HostCallHashes: test.hashes})
		s := &servers{call: answers}
		opts := b.options(pool)
		opts.Servers = s
		opts.Ledger = &crashingLog{Ledger: b.ledger, at: func(event string, number int) bool { return event == test.event && number == test.number }}
		b.startRunner(opts)
		id := b.submit(func(s *ledger.Submission) { s.Code = code })
		status, end := b.waitForEnd(id)
		if status != test.status || len(s.calls()) != test.calls {
			t.Errorf("%s: %s %q after the calls %q", test.name, status, errorText(end), s.calls())
		}
		if test.reason != "" && (end.Reason != ledger.ReasonInterrupted || !strings.Contains(errorText(end), test.reason)) {
			t.Errorf("%s: %s %q", test.name, end.Reason, errorText(end))
		}
		if test.status == events.StatusCompleted && !strings.HasSuffix(text(b.history(id)), "3 tick\n") {
			t.Errorf("%s: printed %q", test.name, text(b.history(id)))
		}
		for i, c := range must(b.ledger.HostCalls(t.Context(), events.DefaultTenant, id)) {
			if c.Number != i+1 {
				t.Errorf("%s: call %d has number %d", test.name, i+1, c.Number)
			}
		}
	}
}

// lostTexts fails a number of reads of texts.
type lostTexts struct {
	*jetstream.Store
	left atomic.Int64
	err  error
}

func (l *lostTexts) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	if l.left.Add(-1) >= 0 {
		return nil, l.err
	}
	return l.Store.Text(ctx, tenant, hash)
}

// An interrupted run waits while the recorded answers cannot be read, which costs no
// attempt. It fails if an answer is lost.
func TestInterruptedWithUnreadableAnswers(t *testing.T) {
	pool := newProcesses(t)
	for _, test := range []struct {
		err    error
		times  int64
		status events.Status
		reason string
	}{
		{errors.New("no store"), ledger.MaxAttempts + 2, events.StatusCompleted, ""},
		{events.ErrNotFound, 1000, events.StatusFailed, "the answer to call 1 is damaged or no longer in the blob store"},
		{events.ErrDamaged, 1000, events.StatusFailed, "the answer to call 1 is damaged or no longer in the blob store"},
		{events.ErrShredded, 1000, events.StatusFailed, "the content of call 1 is shredded"},
	} {
		b := newTestLedger(t)
		store := &lostTexts{Store: b.store, err: test.err}
		store.left.Store(test.times)
		s := &servers{call: answers}
		opts := b.options(pool)
		opts.Servers = s
		opts.Ledger = &crashingLog{Ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), at: func(event string, number int) bool { return event == "before call" && number == 2 }}
		b.startRunner(opts)
		id := b.submit(func(s *ledger.Submission) {
			s.Code = `const a = await mcp.shop.price({ of: "x".repeat(100000) }); await mcp.shop.price({}); a.of.length`
		})
		status, end := b.waitForEnd(id)
		if status != test.status || !strings.Contains(errorText(end), test.reason) || test.reason != "" && end.Reason != ledger.ReasonInterrupted {
			t.Errorf("%v: %s %s %q", test.err, status, end.Reason, errorText(end))
			continue
		}
		if test.reason == "" && (end.Content.Value().Result.Text != "100000" || len(s.calls()) != 2) {
			t.Errorf("%v: %s after %d calls", test.err, end.Content.Value().Result.Text, len(s.calls()))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Concurrent calls are recorded in the order of their numbers, and their answers in the
// order in which the script received them.
func TestConcurrentCalls(t *testing.T) {
	b := newTestLedger(t)
	opts := b.options(newProcesses(t))
	opts.Servers = &servers{call: answers}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) {
		s.Code = `const order = []; await Promise.all(Array.from({ length: 100 }, (_, n) => mcp.shop.price({ n }).then(r => order.push(r.n + 1)))); order.join()`
	})
	status, end := b.waitForEnd(id)
	if status != events.StatusCompleted {
		t.Fatalf("%s %s", status, errorText(end))
	}
	made := 0
	var order []string
	for _, e := range b.history(id) {
		switch d := e.Data.(type) {
		case *events.HostCalled:
			if made++; d.Number != made {
				t.Errorf("call %d is recorded as number %d", made, d.Number)
			}
		case *events.HostReturned:
			order = append(order, fmt.Sprint(d.Number))
		}
	}
	if got := end.Content.Value().Result.Text; made != 100 || got != strings.Join(order, ",") {
		t.Errorf("%d calls; the script got %s, recorded is %s", made, got, strings.Join(order, ","))
	}
}

// A timer of a script fires in time while a call never ends.
func TestTimersDuringCalls(t *testing.T) {
	b := newTestLedger(t)
	opts := b.options(newProcesses(t))
	opts.Servers = &servers{call: func(ctx context.Context, _, _ string) runner.ServerResult {
		<-ctx.Done()
		return runner.ServerResult{Outcome: events.HostCancelled}
	}}
	b.startRunner(opts)
	began := time.Now()
	id := b.submit(func(s *ledger.Submission) {
		s.Code = `const r = await Promise.race([mcp.shop.price(), new Promise(r => setTimeout(r, 200, Date.now()))]); const took = Date.now() - r; if (took !== 200) throw new Error(took); throw new Error("over")`
	})
	if _, end := b.waitForEnd(id); !strings.HasPrefix(errorText(end), "Error: over") {
		t.Errorf("ended with %q", errorText(end))
	}
	if time.Since(began) < 200*time.Millisecond {
		t.Error("the timer did not wait")
	}
}
