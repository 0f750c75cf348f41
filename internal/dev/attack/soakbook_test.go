package attack_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
)

// book is an honest tenant and the runs that the server acknowledged to it.
type book struct {
	k             *soak
	tenant, token string
	random        *rand.Rand
	kills         atomic.Int64 // of the server

	// The next fields are used by work and, after it has ended, by the test.
	entries []*entry
	unknown int // submissions without an answer, each of which may have been accepted
	checked int
	number  int
	heap    string // of the newest run of the chain; "" at its start
	chain   int    // length of the chain
	session string
	turns   []int // numbers of the turns of the session
	passed  int   // turns of the session that were queued, but whose run was not requested
	slack   int   // number of further such turns that repeated submissions may have left
	sent    int   // requests

	mu        sync.Mutex     // guards the fields below, which follow sets
	requested map[string]int // events of executions
	ended     map[string]int
	queued    map[string][]string // runs by session, in the order of turns
	events    int
}

// entry is an acknowledged run with the outcome that it must have.
type entry struct {
	id, kind       string
	asked          time.Time // when it was submitted
	result, output string
	session        string
	turn           int
	tags           map[string]string
	heap           string // set when the run was read
	seen           bool   // the run was read after its end
}

func newBook(k *soak, tenant, token string, random *rand.Rand) *book {
	return &book{k: k, tenant: tenant, token: token, random: random, requested: map[string]int{}, ended: map[string]int{}, queued: map[string][]string{}}
}

// ask sends a request until the server answers it. It returns false if the connection
// failed because the server was killed, and after a failure of the test.
func (b *book) ask(ctx context.Context, method, path, key string, body any) (int, map[string]any, bool) {
	for began := time.Now(); ctx.Err() == nil; {
		asked := time.Now()
		req, err := b.k.s.request(ctx, b.token, method, path, body)
		if err != nil {
			b.k.failf("%s: %v", b.tenant, err)
			return 0, nil, false
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		b.sent++
		resp, err := http.DefaultClient.Do(req)
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		switch {
		case ctx.Err() != nil:
			return 0, nil, false
		case err != nil:
			if !b.k.isExplained(asked) {
				b.k.failf("%s: %s %s: %v", b.tenant, method, path, err)
			}
			sleep(ctx, 50*time.Millisecond) // until the server is started again
			return 0, nil, false
		case b.k.refusal(ctx, resp):
			if time.Since(began) > 2*time.Minute {
				b.k.failf("%s: %s %s is refused for two minutes: %s: %.500s", b.tenant, method, path, resp.Status, raw)
				return 0, nil, false
			}
			continue
		}
		var answer map[string]any
		if err := json.Unmarshal(raw, &answer); err != nil || resp.StatusCode >= 500 {
			b.k.failf("%s: %s %s: %s: %.500s", b.tenant, method, path, resp.Status, raw)
			return resp.StatusCode, nil, false
		}
		return resp.StatusCode, answer, true
	}
	return 0, nil, false
}

// must repeats ask until it is answered. The request must be safe to repeat. must returns
// nil if ctx is done or the status is another one.
func (b *book) must(ctx context.Context, method, path, key string, body any, status int) map[string]any {
	for began := time.Now(); ctx.Err() == nil; {
		got, answer, ok := b.ask(ctx, method, path, key, body)
		if ok && got == status {
			return answer
		}
		if ok || time.Since(began) > 5*time.Minute {
			b.k.failf("%s: %s %s: %d, want %d: %v", b.tenant, method, path, got, status, answer)
			return nil
		}
	}
	return nil
}

// work submits runs until the context ends, and checks the book after each kill.
func (b *book) work(ctx context.Context) {
	for kills := b.kills.Load(); ctx.Err() == nil; {
		b.k.pause.RLock()
		if ctx.Err() != nil {
			b.k.pause.RUnlock()
			return
		}
		// Complete the step, also if ctx is done meanwhile.
		step, done := context.WithTimeout(b.k.t.Context(), 10*time.Minute)
		if now := b.kills.Load(); now != kills {
			kills = now
			b.check(step, false)
		} else {
			b.step(step)
		}
		done()
		b.k.pause.RUnlock()
		sleep(ctx, 100*time.Millisecond) // about the rate of a human user
	}
}

// step submits one run.
func (b *book) step(ctx context.Context) {
	b.number++
	mark := fmt.Sprintf("%s-%d", b.tenant, b.number)
	e := &entry{kind: "stateless", result: mark, output: mark + "\nline of it\n"}
	body := map[string]any{"code": fmt.Sprintf("console.log(%q); console.log('line of it'); %q", mark, mark)}
	key := ""
	switch b.random.IntN(5) {
	case 1:
		e.kind, e.result, e.output = "heap", strconv.Itoa(b.chain+1), fmt.Sprintf("n is %d\n", b.chain+1)
		body["code"] = "globalThis.n = (globalThis.n ?? 0) + 1; console.log('n is', n); n"
		if b.heap != "" {
			body["heap"] = b.heap
		}
	case 2:
		b.turn(ctx)
		return
	case 3:
		e.kind, e.tags = "tags", map[string]string{"tenant": b.tenant, "number": strconv.Itoa(b.number)}
		body["code"] = fmt.Sprintf("globalThis.tagged = %q; console.log(%q); console.log('line of it'); tagged", mark, mark)
		body["tags"] = e.tags
	case 4:
		e.kind, key = "idempotent", mark
	}
	if !b.submit(ctx, e, key, body) {
		return
	}
	if e.kind == "idempotent" {
		again := b.must(ctx, http.MethodPost, "/api/exec", key, body, http.StatusAccepted)
		if again != nil && again["execution_id"] != e.id {
			b.k.failf("%s: the key %s gave the runs %s and %v", b.tenant, key, e.id, again["execution_id"])
		}
		b.must(ctx, http.MethodPost, "/api/exec", key, map[string]any{"code": "another"}, http.StatusConflict)
	}
	if e.kind == "heap" || b.random.IntN(2) == 0 {
		b.read(ctx, e)
	}
	if e.kind == "heap" && e.heap != "" {
		b.heap, b.chain = e.heap, b.chain+1
	}
}

// turn submits a turn of the logical session, or of a new one after 50 turns.
func (b *book) turn(ctx context.Context) {
	if b.session == "" || len(b.turns) == 50 {
		answer := b.must(ctx, http.MethodPost, "/api/logical-sessions", "", map[string]any{"intent": fmt.Sprintf("%s-%d", b.tenant, b.number), "seeds": []string{"builtin"}}, http.StatusOK)
		b.session, b.turns, b.passed, b.slack = "", nil, 0, 0
		if answer == nil {
			return
		}
		b.session, _ = answer["session_id"].(string)
	}
	newest := append(slices.Clone(b.turns[max(0, len(b.turns)-2):]), b.number)
	e := &entry{kind: "turn", session: b.session, turn: len(b.turns) + b.passed + 1, result: strings.Trim(strings.ReplaceAll(fmt.Sprint(newest), " ", ","), "[]"), output: fmt.Sprintf("turn %d\n", b.number)}
	// Without an idempotency key an unanswered turn may have been accepted, and the
	// order of the other turns would be unknown.
	sent := b.sent
	if b.submit(ctx, e, fmt.Sprintf("%s-turn-%d", b.tenant, b.number), map[string]any{"logical_session": b.session,
		"code": fmt.Sprintf("globalThis.turns = [...(globalThis.turns ?? []).slice(-2), %d]; console.log('turn', %d); turns.join()", b.number, b.number)}) {
		b.turns = append(b.turns, b.number)
		if b.slack += b.sent - sent - 1; b.slack > 0 {
			b.passTurns(ctx, e)
		}
	} else {
		b.session = ""
	}
}

// passTurns counts the turns before the turn of an acknowledged run that were queued, but
// whose run was not requested. Each submission that is repeated after a kill or a refusal
// may leave one. checkEvents compares the runs that queued these turns with the book.
func (b *book) passTurns(ctx context.Context, e *entry) {
	run := b.must(ctx, http.MethodGet, "/api/executions/"+e.id, "", nil, http.StatusOK)
	turn, _ := run["turn"].(float64)
	if passed := int(turn) - e.turn; passed > 0 && passed <= b.slack {
		b.passed += passed
		b.slack -= passed
		e.turn += passed
	}
}

// submit enters a run into the book when it is acknowledged.
func (b *book) submit(ctx context.Context, e *entry, key string, body map[string]any) bool {
	var answer map[string]any
	e.asked = time.Now()
	if key != "" {
		answer = b.must(ctx, http.MethodPost, "/api/exec", key, body, http.StatusAccepted)
		if answer == nil {
			b.unknown++
		}
	} else {
		status, got, ok := b.ask(ctx, http.MethodPost, "/api/exec", "", body)
		switch {
		case !ok:
			b.unknown++
		case status != http.StatusAccepted:
			b.k.failf("%s: a %s run is answered %d: %v", b.tenant, e.kind, status, got)
		default:
			answer = got
		}
	}
	if answer == nil {
		return false
	}
	e.id, _ = answer["execution_id"].(string)
	b.entries = append(b.entries, e)
	return true
}

// read waits until a run has ended and compares it with the book.
func (b *book) read(ctx context.Context, e *entry) {
	var run map[string]any
	for began := time.Now(); run == nil || run["status"] == "running"; {
		if run = b.must(ctx, http.MethodGet, "/api/executions/"+e.id+"?wait=30", "", nil, http.StatusOK); run == nil {
			return
		}
		if run["status"] == "running" && time.Since(began) > 3*time.Minute {
			b.k.failf("%s: the %s run %s has not ended within three minutes: %v", b.tenant, e.kind, e.id, run)
			return
		}
	}
	if run["status"] != "completed" || run["result"] != e.result {
		b.k.failf("%s: the %s run %s is %v with the result %v, want completed with %q: error %v, reason %v, attempt %v", b.tenant, e.kind, e.id, run["status"], run["result"], e.result, run["error"], run["reason"], run["attempt"])
	}
	if e.session != "" && (run["logical_session"] != e.session || run["turn"] != float64(e.turn)) {
		b.k.failf("%s: the run %s is turn %v of %v, want %d of %s", b.tenant, e.id, run["turn"], run["logical_session"], e.turn, e.session)
	}
	if page := b.must(ctx, http.MethodGet, "/api/executions/"+e.id+"/output?byte_offset=0&byte_limit=65536", "", nil, http.StatusOK); page != nil {
		data, _ := page["data"].(string)
		attempts, _ := run["attempt"].(float64)
		kills := b.k.killsSince(e.asked)
		if !wrote(data, e.output, min(int(attempts), 1+kills)) {
			b.k.failf("%s: the %s run %s wrote %q in %v attempts with %d kills, want %q", b.tenant, e.kind, e.id, data, attempts, kills, e.output)
		}
	}
	heap, _ := run["heap"].(string)
	if e.seen && e.heap != heap {
		b.k.failf("%s: the run %s left the heap %s, before it was %s", b.tenant, e.id, heap, e.heap)
	}
	e.heap, e.seen = heap, true
	if e.tags != nil {
		answer := b.must(ctx, http.MethodGet, "/api/heaps/"+heap+"/tags", "", nil, http.StatusOK)
		if got := fmt.Sprint(answer["tags"]); answer != nil && got != fmt.Sprint(e.tags) {
			b.k.failf("%s: the heap of the run %s has the tags %v, want %v", b.tenant, e.id, answer, e.tags)
		}
	}
}

// wrote reports whether data is the output of a run with several attempts: the last attempt
// writes all lines, and each interrupted attempt leaves its first lines.
func wrote(data, output string, attempts int) bool {
	if data == output {
		return attempts > 0
	}
	if attempts <= 1 || len(data) < len(output) {
		return false
	}
	for end := 0; end < len(output); {
		end += strings.IndexByte(output[end:], '\n') + 1
		if rest, ok := strings.CutPrefix(data, output[:end]); ok && wrote(rest, output, attempts-1) {
			return true
		}
	}
	return false
}

// recheck is the number of runs that are read again after a kill.
const recheck = 100

// check compares the server with the book: all runs, or the runs that were not read before
// and some others.
func (b *book) check(ctx context.Context, all bool) {
	old := map[int]bool{}
	for range recheck {
		old[b.random.IntN(len(b.entries)+1)] = true
	}
	for i, e := range b.entries {
		if all || !e.seen || old[i] {
			b.read(ctx, e)
			b.checked++
		}
	}
	listed, total := map[string]int{}, 0
	for cursor, more := "", true; more; {
		page := b.must(ctx, http.MethodGet, "/api/executions?limit=1000"+cursor, "", nil, http.StatusOK)
		if page == nil {
			return
		}
		list, _ := page["executions"].([]any)
		for _, item := range list {
			id, _ := item.(map[string]any)["execution_id"].(string)
			listed[id]++
			total++
		}
		var next string
		next, more = page["next_cursor"].(string)
		cursor = "&cursor=" + next
	}
	for _, e := range b.entries {
		if listed[e.id] != 1 {
			b.k.failf("%s: the %s run %s is listed %d times", b.tenant, e.kind, e.id, listed[e.id])
		}
	}
	if total > len(b.entries)+b.unknown {
		b.k.failf("%s: %d runs are listed, %d were acknowledged and %d not answered", b.tenant, total, len(b.entries), b.unknown)
	}
}

// follow reads the events of the tenant and resumes after the newest one.
func (b *book) follow(ctx context.Context) {
	var last uint64
	for ctx.Err() == nil {
		asked := time.Now()
		resp, err := b.k.s.get(ctx, b.token, fmt.Sprintf("/api/events?follow=true&after=%d", last), "application/x-ndjson")
		if err == nil && resp.StatusCode != http.StatusOK {
			raw, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !b.k.refusal(ctx, resp) {
				b.k.failf("%s: follow events: %s: %.500s", b.tenant, resp.Status, raw)
				sleep(ctx, time.Second)
			}
			continue
		}
		if err == nil {
			last, err = b.readEvents(resp.Body, last)
			resp.Body.Close()
			asked = time.Now()
		}
		if ctx.Err() == nil && !b.k.isExplained(asked) {
			b.k.failf("%s: follow events: %v", b.tenant, err)
		}
		sleep(ctx, 50*time.Millisecond) // until the server is started again
	}
}

// readEvents stores events until the stream ends and returns the position of the newest.
func (b *book) readEvents(body io.Reader, last uint64) (uint64, error) {
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return last, err
		}
		var e struct {
			Type     string          `json:"type"`
			Subject  string          `json:"subject"`
			Sequence string          `json:"sequence"`
			Data     json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return last, fmt.Errorf("%w in %.200s", err, line)
		}
		if strings.HasPrefix(e.Type, "daybook.stream.") {
			continue
		}
		seq, err := strconv.ParseUint(e.Sequence, 10, 64)
		if err != nil || seq <= last {
			b.k.failf("%s: event %s follows event %d", b.tenant, e.Sequence, last)
			continue
		}
		last = seq
		b.mu.Lock()
		b.events++
		switch typ := events.Type(e.Type); {
		case typ == events.TypeExecutionRequested:
			b.requested[e.Subject]++
		case typ.Terminal():
			b.ended[e.Subject]++
		case typ == events.TypeSessionTurnQueued:
			var d events.SessionTurnQueued
			if err := json.Unmarshal(e.Data, &d); err != nil || int(d.Number) != len(b.queued[e.Subject])+1 {
				b.k.failf("%s: turn %d of session %s follows turn %d: %v", b.tenant, d.Number, e.Subject, len(b.queued[e.Subject]), err)
			}
			b.queued[e.Subject] = append(b.queued[e.Subject], d.ExecutionID)
		}
		b.mu.Unlock()
	}
}

// checkEvents waits until the follower has received the ends of all acknowledged runs, and
// compares the events with the book.
func (b *book) checkEvents() {
	wrong := func() (list []*entry) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.entries {
			if b.requested[e.id] != 1 || b.ended[e.id] != 1 {
				list = append(list, e)
			}
		}
		return list
	}
	for began := time.Now(); len(wrong()) > 0 && time.Since(began) < 30*time.Second; {
		time.Sleep(20 * time.Millisecond) // polls the follower
	}
	for _, e := range wrong() {
		b.mu.Lock()
		requested, ended := b.requested[e.id], b.ended[e.id]
		b.mu.Unlock()
		b.k.failf("%s: of the %s run %s %d requests and %d ends were followed", b.tenant, e.kind, e.id, requested, ended)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range wrongTurns(b.entries, b.queued) {
		b.k.failf("%s: %s", b.tenant, wrong)
	}
}

// wrongTurns compares the turns of acknowledged runs with the runs that queued each turn
// of a session. A turn between those of two runs must have been left by an earlier
// submission of one of the two.
func wrongTurns(entries []*entry, queued map[string][]string) (wrong []string) {
	before := map[string]*entry{}
	for _, e := range entries {
		if e.session == "" {
			continue
		}
		last := before[e.session]
		if last == nil {
			last = &entry{}
		}
		before[e.session] = e
		runs := queued[e.session]
		if e.turn > len(runs) || runs[e.turn-1] != e.id {
			wrong = append(wrong, fmt.Sprintf("the run %s did not queue its turn %d of session %s", e.id, e.turn, e.session))
			continue
		}
		for n := last.turn + 1; n < e.turn; n++ {
			if id := runs[n-1]; id != e.id && id != last.id {
				wrong = append(wrong, fmt.Sprintf("turn %d of session %s is of the run %s, which was not acknowledged", n, e.session, id))
			}
		}
	}
	return wrong
}

// TestBookOfTurns checks that the book accepts only the gaps that a repeated submission
// leaves.
func TestBookOfTurns(t *testing.T) {
	t.Parallel()
	runs := func(turns ...int) (list []*entry) {
		for i, turn := range turns {
			list = append(list, &entry{id: string(rune('a' + i)), session: "s", turn: turn})
		}
		return list
	}
	for _, test := range []struct {
		entries []*entry
		queued  string
		wrong   int
	}{
		{runs(1, 2, 3), "abc", 0},
		{runs(1, 3, 4), "abbc", 0}, // run b was repeated: its first turn has no request
		{runs(1, 2, 4), "abbc", 0}, // run b was repeated: its second turn has no request
		{runs(1, 3, 4), "axbc", 1}, // turn 2 is of a run that was not acknowledged
		{runs(1, 2, 3), "ab", 1},
		{runs(1, 1, 2), "ac", 1}, // two runs with one turn
	} {
		if wrong := wrongTurns(test.entries, map[string][]string{"s": strings.Split(test.queued, "")}); len(wrong) != test.wrong {
			t.Errorf("%s: %q, want %d", test.queued, wrong, test.wrong)
		}
	}
}
