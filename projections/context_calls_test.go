package projections_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/projections"
)

// hostCalled and hostReturned return call number of run n, and its answer.
func hostCalled(n, number int, arguments string) *events.HostCalled {
	return &events.HostCalled{
		ExecutionID: id(n), Attempt: 1, Number: number, Server: "geo", Tool: "locate", ArgumentsSHA256: events.Hash([]byte(arguments)),
		Content: events.Plain(events.HostCalledContent{Arguments: &events.Body{Text: arguments}}),
	}
}

func hostReturned(n, number int, outcome events.HostOutcome, result string) *events.HostReturned {
	return &events.HostReturned{
		ExecutionID: id(n), Attempt: 1, Number: number, Outcome: outcome, ResultSHA256: events.Hash([]byte(result)),
		Content: events.Plain(events.HostReturnedContent{Result: &events.Body{Text: result}}),
	}
}

// listedHostCalls returns the host calls in a conversation context: tool, arguments, outcome and
// count.
func listedHostCalls(t *testing.T, c projections.ContextState) (list []string) {
	t.Helper()
	for _, call := range c.Context.RecentToolCalls {
		args, err := json.Marshal(call.Args)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s %s x%d", call.Tool, args, call.ResultSummary, max(call.Times, 1)))
	}
	return list
}

// The host calls of a run are in its conversation context, without secrets. The run can
// then no longer be reused for an equal request.
func TestHostCallsInContext(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	sha := func(d *events.ExecutionRequested) { d.RequestSHA256 = heap(1) }
	b.add(requested(1, inContext(ref), sha), &events.ExecutionStarted{ExecutionID: id(1), Attempt: 1, FirstLine: 1})
	apply(t, s, b)
	if c := contextNow(t, s, ref); !c.PriorCalls[0].Reusable {
		t.Fatalf("before the first call: %+v", c.PriorCalls)
	}
	stored := hostCalled(1, 5, "")
	stored.Content = events.Plain(events.HostCalledContent{Arguments: &events.Body{Blob: &events.BlobRef{SHA256: heap(3), Size: 9000, Preview: `{"token":"s3cret"`}}})
	hashOnly := hostCalled(1, 6, "{}")
	hashOnly.Content = events.Plain(events.HostCalledContent{})
	for _, step := range []struct {
		add  []events.Data
		want []string // without the run itself
	}{
		{[]events.Data{hostCalled(1, 1, `{"city":"Oslo","auth":{"apiKey":"s3cret"}}`)}, []string{`mcp.geo.locate {"auth":{"apiKey":"[redacted]"},"city":"Oslo"} pending x1`}},
		{[]events.Data{hostReturned(1, 1, events.HostOK, "{\"lat\":\n 60}")}, []string{`mcp.geo.locate {"auth":{"apiKey":"[redacted]"},"city":"Oslo"} ok: {"lat": 60} x1`}},
		// Equal calls in a row are merged. Of many calls the last five are kept.
		{[]events.Data{hostCalled(1, 2, `{"n":2}`), hostCalled(1, 3, `{"n":2}`), hostReturned(1, 2, events.HostError, "first"), hostReturned(1, 3, events.HostError, "second")}, []string{
			`mcp.geo.locate {"auth":{"apiKey":"[redacted]"},"city":"Oslo"} ok: {"lat": 60} x1`, `mcp.geo.locate {"n":2} error: second x2`,
		}},
		{[]events.Data{hostCalled(1, 4, `[1]`), stored, hashOnly, hostCalled(1, 7, `{"n":12345678901234567890}`), hostReturned(1, 6, events.HostTimeout, strings.Repeat("ä", 500))}, []string{
			`mcp.geo.locate {"n":2} error: second x2`, `mcp.geo.locate {"arguments":"… (3 bytes)"} pending x1`, `mcp.geo.locate {"arguments":"… (9000 bytes)"} pending x1`,
			`mcp.geo.locate {} timeout: ` + strings.Repeat("ä", 270) + `… x1`, `mcp.geo.locate {"n":12345678901234567890} pending x1`,
		}},
	} {
		b.add(step.add...)
		apply(t, s, b)
		c := contextNow(t, s, ref)
		if diff := cmp.Diff(step.want, listedHostCalls(t, c)[1:]); diff != "" {
			t.Fatal(diff)
		}
		if len(c.PriorCalls) != 1 || c.PriorCalls[0].Reusable {
			t.Errorf("tried: %+v", c.PriorCalls)
		}
	}
	b.add(ended(1, events.StatusCompleted))
	apply(t, s, b)
	c := contextNow(t, s, ref)
	if got := listedHostCalls(t, c); !strings.Contains(got[0], "completed") || !strings.HasSuffix(got[5], "no answer on record x1") || !strings.Contains(got[4], "timeout") {
		t.Errorf("ended: %q", got)
	}
	if c.PriorCalls[0].Reusable || c.PriorCalls[0].Status != events.StatusCompleted {
		t.Errorf("ended: %+v", c.PriorCalls)
	}
	noAnomalies(t, s)
}

// A loop of host calls does not displace the client's calls.
func TestHostCallsDisplaceNoOtherCalls(t *testing.T) {
	t.Parallel()
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	b.add(noted(ref, began, called("search", 1, began)), requested(1, inContext(ref)), &events.ExecutionStarted{ExecutionID: id(1), Attempt: 1, FirstLine: 1})
	for n := range 200 {
		b.add(hostCalled(1, n+1, fmt.Sprintf(`{"n":%d}`, n)), hostReturned(1, n+1, events.HostOK, "1"))
	}
	apply(t, s, b)
	c := contextNow(t, s, ref)
	got := listedHostCalls(t, c)
	if len(got) != 7 || !strings.HasPrefix(got[0], "search") || !strings.HasPrefix(got[1], "run_js") || !strings.Contains(got[2], `{"n":195}`) || !strings.Contains(got[6], `{"n":199}`) || c.Context.SummaryBeforeWindow != "" {
		t.Errorf("%q, %q", got, c.Context.SummaryBeforeWindow)
	}
}

// Host calls are not listed for encrypted runs and for runs from before the context was
// reset. A run without a context has none.
func TestHostCallsNotListed(t *testing.T) {
	t.Parallel()
	const key = "019ab3c4-6a3e-7c51-8f0e-0000000000aa"
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	for n := 1; n <= 3; n++ {
		edit := inContext(ref)
		if n == 2 {
			edit = func(*events.ExecutionRequested) {}
		}
		b.add(requested(n, edit, func(d *events.ExecutionRequested) { d.RequestSHA256 = heap(n) }), &events.ExecutionStarted{ExecutionID: id(n), Attempt: 1, FirstLine: 1})
		if n == 1 {
			c, r := hostCalled(1, 1, `{"of":"s3cret"}`), hostReturned(1, 1, events.HostOK, "s3cret")
			c.Content.Sealed, r.Content.Sealed = &events.EncryptedContent{KeyID: key}, &events.EncryptedContent{KeyID: key} // as after decryption
			b.add(c, r)
		}
	}
	b.add(hostCalled(2, 1, `{}`))
	apply(t, s, b)
	c := contextNow(t, s, ref)
	if got := listedHostCalls(t, c); len(got) != 2 || strings.Contains(fmt.Sprint(got), "mcp.") || c.PriorCalls[0].Reusable || !c.PriorCalls[1].Reusable {
		t.Errorf("%q, %+v", got, c.PriorCalls)
	}
	b.add(&events.ContextCleared{ContextRef: ref})
	b.add(hostCalled(3, 1, `{}`), hostReturned(3, 1, events.HostOK, "1"))
	apply(t, s, b)
	if c = contextNow(t, s, ref); !c.Empty || c.Running != 2 || c.Context.CreatedAt != c.Context.LastUpdatedAt {
		t.Errorf("cleared: %+v", c)
	}
	if !c.UsedAt.Equal(b.all()[len(b.all())-1].Time) {
		t.Errorf("used at %s: a run that makes calls is use", c.UsedAt)
	}
}

// The result is the same for batches of any size and after a restart at any event.
func TestHostCallsRebuildEqual(t *testing.T) {
	t.Parallel()
	const runs, total = 90, 600
	rnd := rand.New(rand.NewPCG(3, 14))
	b := newMemoryLedger()
	refs := []events.ContextRef{contextRef(events.ContextSession, "a"), contextRef(events.ContextTransport, "b")}
	calls := map[int]int{} // of runs in progress
	for len(b.all()) < total {
		n := rnd.IntN(runs)
		made, running := calls[n]
		switch kind := rnd.IntN(20); {
		case kind == 0 && rnd.IntN(8) == 0:
			b.add(&events.ContextCleared{ContextRef: refs[rnd.IntN(2)]})
		case !running && made == 0:
			b.add(requested(n, inContext(refs[n%2]), func(d *events.ExecutionRequested) { d.RequestSHA256 = heap(n % 7) }))
			calls[n] = 0
		case kind < 3 && running:
			b.add(ended(n, events.StatusCompleted))
			delete(calls, n)
		case kind < 12 && running:
			calls[n]++
			b.add(hostCalled(n, calls[n], fmt.Sprintf(`{"n":%d,"password":"%d"}`, rnd.IntN(3), n)))
		case running && made > 0:
			b.add(hostReturned(n, 1+rnd.IntN(made), events.HostOK, fmt.Sprint(n))) // sometimes repeated: an anomaly
		}
	}
	var want []projections.ContextState
	for _, batch := range []int{total, 1, 7, 64} {
		path := filepath.Join(t.TempDir(), "projections.db")
		var got []projections.ContextState
		for from := 0; from < total; from += 200 { // each part in a new process
			s, err := projections.Open(t.Context(), projections.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for at := from; at < from+200; at += batch {
				if err := s.Apply(t.Context(), b.all()[at:min(at+batch, from+200)]); err != nil {
					t.Fatal(err)
				}
			}
			if from == total-200 {
				for _, ref := range refs {
					c, err := s.Context(t.Context(), tenant, ref.Key)
					if err != nil && !errors.Is(err, events.ErrNotFound) {
						t.Fatal(err)
					}
					got = append(got, c)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if want == nil {
			want = got
			all := asText(t, got)
			if !strings.Contains(all, "mcp.geo.locate") || !strings.Contains(all, "[redacted]") {
				t.Fatalf("no call is listed: %s", all)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("in batches of %d:\n%s", batch, diff)
		}
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
