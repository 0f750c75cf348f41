package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// script is a host with fixed answers, which do not depend on a clock.
type script struct {
	answer func(number int, server, tool, arguments string) (ok bool, text string)
	// at returns the time of the n-th answer after the start, from 1 on. Nil means one
	// answer per millisecond.
	at func(n int) time.Duration
	// last selects that the newest call is answered first.
	last bool

	mu      sync.Mutex
	made    []string
	pending []runner.HostAnswer
	given   int
	most    int // maximum number of calls in flight
}

func (s *script) Call(_ context.Context, number int, server, tool string, arguments []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = append(s.made, fmt.Sprintf("%d %s.%s %s", number, server, tool, arguments))
	ok, text := s.answer(number, server, tool, string(arguments))
	s.pending = append(s.pending, runner.HostAnswer{Number: number, OK: ok, Text: []byte(text)})
	s.most = max(s.most, len(s.pending))
	return nil
}

func (s *script) Next(_ context.Context, due time.Time) (runner.HostAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Duration(s.given+1) * time.Millisecond
	if s.at != nil {
		at = s.at(s.given + 1)
	}
	when := begin.Add(at)
	if !due.IsZero() && !due.After(when) {
		return runner.HostAnswer{}, nil
	}
	i := 0
	if s.last {
		i = len(s.pending) - 1
	}
	a := s.pending[i]
	s.pending = append(s.pending[:i:i], s.pending[i+1:]...)
	a.At = when
	s.given++
	return a, nil
}

var begin = time.Unix(1_700_000_000, 0).UTC()

// value returns the result of a run, or "<none>".
func value(o runner.Outcome) string {
	if o.Result == nil {
		return "<none>"
	}
	return *o.Result
}

func echo(number int, server, tool, arguments string) (bool, string) { return true, arguments }

// calling returns a task with two tool servers.
func calling(code string, host runner.Host) runner.Task {
	t := patient(code)
	t.Start = begin
	t.Host = host
	t.Servers = map[string][]string{
		"files": {"read", "write", "odd name", "then", "constructor", "__proto__"},
		"empty": {},
	}
	return t
}

func TestHostCalls(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, test := range []struct{ name, code, want string }{
		{"a value", `(await mcp.files.read({ path: "a" })).path`, "a"},
		{"no arguments", `JSON.stringify(await mcp.files.read())`, "{}"},
		{"odd name", `(await mcp.files["odd name"]({ x: 1 })).x`, "1"},
		{"call form", `(await mcp("files", "then", { x: 2 })).x`, "2"},
		{"awaiting the objects", `(await mcp) === mcp && (await mcp.files) === mcp.files`, "true"},
		{"names of the language", `(await mcp.files.constructor({ x: 3 })).x + (await mcp.files.__proto__({ x: 4 })).x`, "7"},
		{"names of servers and tools", `Object.keys(mcp).sort() + ";" + Object.keys(mcp.files)`, "empty,files;read,write,odd name,constructor,__proto__"},
		{"frozen", `[Object.isFrozen(mcp), Object.isFrozen(mcp.files), Object.isFrozen(mcp.files.read), Reflect.set(mcp, "x", 1), Reflect.defineProperty(mcp.files, "x", { value: 1 })].join()`, "true,true,true,false,false"},
		{"assignment", `try { mcp = 1 } catch (e) { e.name + typeof mcp }`, "TypeErrorfunction"},
		{"unknown server", `await mcp.fils.read().catch(e => e.message)`, `fils.read: this run has no MCP server "fils"; it has empty, files`},
		{"unknown tool", `await mcp.files.reed().catch(e => e.message)`, `files.reed: MCP server "files" has no tool "reed"; it has read, write, odd name, then, constructor, __proto__`},
		{"no tools", `await mcp.empty.x().catch(e => e.message)`, `empty.x: MCP server "empty" has no tools now`},
		{"bad arguments", `const why = []; for (const a of [1, "x", null, [1], { toJSON() { return 1 } }]) await mcp.files.read(a).catch(e => why.push(e.name)); why.join()`, "McpError,McpError,McpError,McpError,McpError"},
		{"cyclic arguments", `const a = {}; a.a = a; await mcp.files.read(a).catch(e => e.name)`, "TypeError"},
		{"arguments too long", `await mcp.files.read({ x: "x".repeat(1 << 20) }).catch(e => e.message)`, "files.read: arguments are longer than 1 MiB as JSON"},
		{"arguments too long in bytes", `await mcp.files.read({ x: "\u20ac".repeat(349523) }).catch(e => e.message)`, "files.read: arguments are longer than 1 MiB as JSON"},
		{"arguments just short enough", `(await mcp.files.read({ x: "\u20ac".repeat(349522) })).x.length`, "349522"},
		{"all at once", `(await Promise.all(Array.from({ length: 100 }, (_, i) => mcp.files.read({ i })))).reduce((s, x) => s + x.i, 0)`, "4950"},
		{"the most", `let n = 0; for (let i = 0; i < 1000; i++) { await mcp.files.read(); n++ } await mcp.files.read().catch(e => n + e.message)`, "1000files.read: a run makes at most 1000 calls"},
		{"not awaited", `let got; mcp.files.read({ v: 5 }).then(r => got = r.v); setTimeout(() => {}, 0); undefined`, "<none>"},
		{"patched builtins", `Map.prototype.get = JSON.parse = JSON.stringify = () => { throw 1 }; Promise.prototype.then = 1; Array.prototype[Symbol.iterator] = 1; mcp.files.read({ a: 6 }); 6`, "6"},
		{"lone surrogates", `(await mcp.files.read({ x: "\ud800" })).x === "\ud800"`, "true"},
	} {
		for _, stateful := range []bool{true, false} {
			host := &script{answer: echo}
			task := calling(test.code, host)
			task.Stateful = stateful
			o, err := pool.Run(t.Context(), task, discard)
			got := value(o)
			if err != nil || o.Status != events.StatusCompleted || got != test.want {
				t.Errorf("%s (stateful %t): %q, want %q (%s %s, %v)", test.name, stateful, got, test.want, o.Status, o.Error, err)
			}
			if host.most > 16 {
				t.Errorf("%s: %d calls at a time", test.name, host.most)
			}
		}
	}
}

// The time of the host's answer determines whether a call or a timer comes first, and the time of
// the script's clock.
func TestOrderOfAnswersAndTimers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const begin = `const log = [], at = what => log.push(what + "@" + (Date.now() - 1700000000000)); `
	for _, test := range []struct {
		name, code, want string
		host             *script
	}{
		{"the clock moves to the answer", `await mcp.files.read(); at("a"); await mcp.files.read(); at("b"); log.join()`, "a@7,b@14",
			&script{at: func(n int) time.Duration { return time.Duration(7*n) * time.Millisecond }}},
		{"a timer first", `setTimeout(() => at("t"), 5); await mcp.files.read(); at("a"); log.join()`, "t@5,a@7",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"an answer first", `setTimeout(() => at("t"), 9); await mcp.files.read(); at("a"); await new Promise(r => setTimeout(r, 3)); log.join()`, "a@7,t@9",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"a tie is the timer's", `setTimeout(() => at("t"), 7); await mcp.files.read(); at("a"); log.join()`, "t@7,a@7",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"a race against the clock", `await Promise.race([mcp.files.read().then(() => "answer"), new Promise(r => setTimeout(r, 3, "late"))])`, "late",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"timers that keep nothing alive fire beside a call", `setTimeout(() => at("t"), 2).unref(); await mcp.files.read(); at("a"); log.join()`, "t@2,a@7",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"immediates", `setImmediate(() => { at("i"); setImmediate(() => at("j")) }); await mcp.files.read(); at("a"); log.join()`, "i@0,j@0,a@7",
			&script{at: func(int) time.Duration { return 7 * time.Millisecond }}},
		{"the last call's answer first", `await Promise.all([1, 2, 3].map(n => mcp.files.read({ n }).then(r => at(r.n)))); log.join()`, "3@1,2@2,1@3",
			&script{last: true}},
		{"microtasks between answers", `mcp.files.read().then(() => { at("a"); queueMicrotask(() => at("m")) }); await mcp.files.read(); at("b"); log.join()`, "a@1,m@1,b@2", &script{}},
	} {
		test.host.answer = echo
		o, err := pool.Run(t.Context(), calling(begin+test.code, test.host), discard)
		if err != nil || o.Result == nil || *o.Result != test.want {
			t.Errorf("%s: %s %q, %v; want %s", test.name, o.Error, value(o), err, test.want)
		}
	}
}

// Equal answers at equal times make equal heaps, byte for byte.
func TestCallsAreDeterministic(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const code = `const seen = []; setInterval(function () { seen.push(Date.now()); if (seen.length > 9) this.close() }, 3);
		for (const n of [1, 2, 3]) seen.push((await mcp.files.read({ n })).n, Math.random(), Date.now());
		const kept = mcp.files.read, whole = mcp; seen.length`
	var heap []byte
	for range 3 {
		o, err := pool.Run(t.Context(), calling(code, &script{answer: echo, at: func(n int) time.Duration { return time.Duration(n) * 4 * time.Millisecond }}), discard)
		if err != nil || o.Status != events.StatusCompleted {
			t.Fatalf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
		}
		if heap == nil {
			heap = o.Heap
		}
		if string(o.Heap) != string(heap) {
			t.Fatal("the same run left another heap")
		}
	}
	// The heap kept functions for other tool servers.
	task := calling(`[await kept({ x: 1 }).catch(e => e.message), (await whole.mail.send({ x: 2 })).x, Object.keys(mcp)].join("; ")`, &script{answer: echo})
	task.Servers = map[string][]string{"mail": {"send"}}
	task.Heap = heap
	o, err := pool.Run(t.Context(), task, discard)
	if want := `files.read: this run has no MCP server "files"; it has mail; 2; mail`; err != nil || o.Result == nil || *o.Result != want {
		t.Errorf("resumed: %s %q, %v; want %s", o.Error, value(o), err, want)
	}
	task = calling(`await kept({ x: 1 }).catch(e => e.message)`, nil)
	task.Servers, task.Heap = nil, heap
	if o, err = pool.Run(t.Context(), task, discard); err != nil || o.Result == nil || !strings.Contains(*o.Result, `no MCP server "files", and no other`) {
		t.Errorf("resumed without servers: %s %q, %v", o.Error, value(o), err)
	}
}

// The error of a tool server has the position of the call.
func TestFailedCall(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	host := &script{answer: func(int, string, string, string) (bool, string) { return false, "no such file" }}
	o, err := pool.Run(t.Context(), calling("async function f() {\n  await mcp.files.read()\n}\nawait f()", host), discard)
	if err != nil || o.Reason != runner.ReasonException || !strings.HasPrefix(o.Error, "McpError: files.read: no such file\n") || !strings.Contains(o.Error, "cell.ts:2:") {
		t.Errorf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
	}
	// A malformed answer fails its call only.
	host = &script{answer: func(int, string, string, string) (bool, string) { return true, "{" }}
	if o, err = pool.Run(t.Context(), calling("await mcp.files.read().catch(e => e.message)", host), discard); err != nil || o.Result == nil || *o.Result != "files.read: the answer is not JSON" {
		t.Errorf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
	}
}

// An error ends a run even if calls are pending, and nothing is pending in the saved heap.
func TestFailureWithCallsPending(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, err := pool.Run(t.Context(), calling(`let answered = 0; const p = mcp.files.read().then(() => answered++); throw new Error("stop")`, &script{answer: echo}), discard)
	if err != nil || o.Reason != runner.ReasonException || len(o.Heap) == 0 {
		t.Fatalf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
	}
	task := calling(`(await mcp.files.read({ v: 8 })).v + answered`, &script{answer: echo})
	task.Heap = o.Heap
	if o, err = pool.Run(t.Context(), task, discard); err != nil || o.Result == nil || *o.Result != "8" {
		t.Errorf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
	}
}

// silent is a host that never answers. The first wait closes started.
type silent struct{ started chan struct{} }

func (s *silent) Call(context.Context, int, string, string, []byte) error { return nil }

func (s *silent) Next(ctx context.Context, _ time.Time) (runner.HostAnswer, error) {
	close(s.started)
	<-ctx.Done()
	return runner.HostAnswer{}, context.Cause(ctx)
}

// A pending call does not prevent a run from ending at its time limit or when its context is done.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	task := calling("await mcp.files.read()", &silent{make(chan struct{})})
	task.Timeout = time.Second
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Status != events.StatusTimedOut {
		t.Errorf("%s %s %s, %v", o.Status, o.Reason, o.Error, err)
	}
	host := &silent{make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() {
		<-host.started
		cancel(enough)
	}()
	if _, err := pool.Run(ctx, calling("await mcp.files.read()", host), discard); !errors.Is(err, enough) {
		t.Errorf("the run ended with %v", err)
	}
}

// A host that fails ends the run with its error.
type broken struct{ script }

func (b *broken) Next(context.Context, time.Time) (runner.HostAnswer, error) {
	return runner.HostAnswer{}, errors.New("the ledger is closed")
}

func TestHostThatFails(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	_, err := pool.Run(t.Context(), calling("await mcp.files.read()", &broken{script{answer: echo}}), discard)
	if err == nil || !strings.Contains(err.Error(), "the ledger is closed") {
		t.Errorf("the run ended with %v", err)
	}
	bad := &script{answer: echo, at: func(int) time.Duration { return -1e18 }}
	if _, err := pool.Run(t.Context(), calling("await mcp.files.read()", bad), discard); err != nil {
		t.Errorf("an answer from before the start only leaves the clock alone: %v", err)
	}
}
