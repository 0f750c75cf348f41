package projections_test

import (
	"errors"
	"testing"

	"daybook/events"
	"daybook/projections"
)

// Host calls are returned with their answers. An event that does not match a call is an
// anomaly.
func TestCalls(t *testing.T) {
	b := newMemoryLedger()
	s := open(t, projections.Options{})
	const id, quiet = "019ab3c4-6a3e-7c51-8f0e-000000000001", "019ab3c4-6a3e-7c51-8f0e-000000000002"
	called := func(n int) *events.HostCalled {
		return &events.HostCalled{
			ExecutionID: id, Attempt: 1, Number: n, Server: "geo", Tool: "locate", ArgumentsSHA256: events.Hash([]byte("{}")),
			Content: events.Plain(events.HostCalledContent{Arguments: &events.Body{Text: "{}"}}),
		}
	}
	returned := func(n int, o events.HostOutcome) *events.HostReturned {
		return &events.HostReturned{
			ExecutionID: id, Attempt: 1, Number: n, Outcome: o, DurationMillis: 7, ResultSHA256: events.Hash([]byte("5")),
			Content: events.Plain(events.HostReturnedContent{Result: &events.Body{Text: "5"}}),
		}
	}
	b.add(
		&events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool}, &events.ExecutionRequested{ExecutionID: quiet, Pool: events.DefaultPool},
		&events.ExecutionStarted{ExecutionID: id, Attempt: 1, FirstLine: 1},
		called(1), called(2), returned(2, events.HostError), returned(1, events.HostOK), called(3),
		called(3), called(5), returned(1, events.HostOK), returned(9, events.HostOK),
	)
	apply(t, s, b)
	calls, err := s.Calls(t.Context(), tenant, id)
	if err != nil || len(calls) != 3 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	for i, want := range []string{"ok", "error", ""} {
		c := calls[i]
		if c.Number != i+1 || c.Server != "geo" || c.Tool != "locate" || c.Arguments.Text != "{}" {
			t.Errorf("call %d: %+v", i+1, c)
		}
		switch {
		case want == "":
			if c.Outcome != nil || c.Result != nil || c.ReturnedAt != nil {
				t.Errorf("call %d is not pending: %+v", i+1, c)
			}
		case c.Outcome == nil || *c.Outcome != want || *c.DurationMS != 7 || c.Result.Text != "5":
			t.Errorf("call %d: %+v", i+1, c)
		}
	}
	if calls, err := s.Calls(t.Context(), tenant, quiet); err != nil || len(calls) != 0 || calls == nil {
		t.Errorf("a run without calls: %v, %v", calls, err)
	}
	if _, err := s.Calls(t.Context(), "other", id); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	if list := broken(t, s); len(list) != 4 {
		t.Errorf("%d anomalies, want 4: %v", len(list), list)
	}
}
