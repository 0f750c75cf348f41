package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/web/access"
)

// An anomaly is reported to the tenant of its event. Only operators see the anomalies
// of all tenants.
func TestAnomalies(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option)
	if a := s.do("GET", "/api/ledger/anomalies", "", bearer(k.token("acme", "ada", access.Read))...); string(a.body) != `{"rule_broken":0,"unknown_type":0,"newest":[]}`+"\n" {
		t.Errorf("without anomalies: %s %s", a.Status, a.body)
	}
	now := time.Now()
	appendEvent := func(tenant string, d events.Data) (last uint64) {
		t.Helper()
		last, err := s.store.Append(t.Context(), events.New(tenant, now, d), 0)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	handedBack := func() events.Data {
		return &events.ExecutionHandedBack{ExecutionID: events.NewID(now), Attempt: 1}
	}
	paused := func(tenant string) events.Data {
		d := handedBack()
		return &events.Unknown{Type: "daybook.execution.paused.v1", StoredSubject: "ledger.0001." + events.Event{Tenant: tenant, Data: d}.Subject(), Concerns: "x", Body: []byte("{}")}
	}
	ofDefault, ofAcme := appendEvent(events.DefaultTenant, handedBack()), appendEvent("acme", handedBack())
	unknown := appendEvent("acme", paused("acme"))
	if err := s.q.Wait(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		who             string
		token           string
		broken, unknown int64
		positions       []uint64
		advice          bool
	}{
		{"acme", k.token("acme", "ada", access.Read), 1, 1, []uint64{unknown, ofAcme}, true},
		{"an administrator of acme", k.token("acme", "ada", access.Read, access.Admin), 1, 1, []uint64{unknown, ofAcme}, true},
		{"other", k.token("other", "bob", access.Read, access.Admin), 0, 0, nil, false},
		{"a reader of default", k.token(events.DefaultTenant, "eve", access.Read), 1, 0, []uint64{ofDefault}, true},
		{"an operator", k.token(events.DefaultTenant, "ops", access.Read, access.Admin), 2, 1, []uint64{unknown, ofAcme, ofDefault}, true},
	} {
		var report httpapi.AnomalyReport
		a := s.do("GET", "/api/ledger/anomalies", "", bearer(tc.token)...)
		if err := json.Unmarshal(a.body, &report); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s: %v", tc.who, a.Status, a.body, err)
		}
		var positions []uint64
		for _, n := range report.Newest {
			positions = append(positions, n.Sequence)
		}
		if report.RuleBroken != tc.broken || report.UnknownType != tc.unknown || !slices.Equal(positions, tc.positions) || (report.Advice != "") != tc.advice {
			t.Errorf("%s is answered %s", tc.who, a.body)
		}
		if len(report.Newest) > 0 {
			n := report.Newest[0]
			if isUnknown := n.Kind == "unknown_type"; isUnknown != (n.Detail == "") || isUnknown != (n.Type == "daybook.execution.paused.v1") || n.Time.UnixMilli() != now.UnixMilli() {
				t.Errorf("%s is answered %+v", tc.who, n)
			}
		}
	}
	if a := s.do("GET", "/api/ledger/anomalies", "", bearer(k.token(events.DefaultTenant, "ops", access.Admin))...); a.StatusCode != http.StatusForbidden {
		t.Errorf("a token without the scope read: %s", a.Status)
	}
}
