package httpapi_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/webhook"
)

// withWebhooks serves a stack with webhooks, whose deliveries have two attempts.
func withWebhooks(t *testing.T) *stack {
	t.Helper()
	s := start(t)
	service, err := webhook.Open(t.Context(), webhook.Options{
		Journal: s.store, Feed: s.store, Dir: filepath.Join(t.TempDir(), "webhooks"), AllowPrivate: true, Attempts: 2, BackoffFirst: time.Millisecond,
		SessionOf: func(context.Context, string, uint64, string) ([]string, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.serve(func(o *httpapi.Options) { o.Webhooks = service })
	return s
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer receiver.Close()
	s := withWebhooks(t)
	const asJSON = "application/json"
	var added struct {
		webhook.Hook
		Secret string
	}
	a := s.do("POST", "/api/webhooks", `{"url":"`+receiver.URL+`","types":["daybook.execution.requested.v1"],"session":null,"after":0}`, "Content-Type", asJSON)
	a.into(t, http.StatusCreated, &added)
	if !strings.HasPrefix(added.Secret, "whsec_") || added.State != webhook.StateActive || a.Header.Get("Daybook-Sequence") != strconv.FormatUint(s.lastSeq(), 10) {
		t.Errorf("%+v, %v", added, a.Header)
	}
	run := s.submit(`{"code":"1"}`)
	var letters struct {
		DeadLetters []webhook.DeadLetter `json:"dead_letters"`
	}
	for late := time.After(patience); len(letters.DeadLetters) == 0; {
		s.do("GET", "/api/webhooks/"+added.ID+"/dead-letters", "").into(t, 200, &letters)
		select {
		case <-time.After(5 * time.Millisecond): // polls as a client does
		case <-late:
			t.Fatal("no dead letter")
		}
	}
	l := letters.DeadLetters[0]
	if l.Attempts != 2 || l.Status != 500 || l.Type != events.TypeExecutionRequested {
		t.Errorf("%+v", l)
	}
	var again struct{ Retrying int }
	a = s.do("POST", "/api/webhooks/"+added.ID+"/retry", `{"sequences":["`+l.Sequence+`"]}`, "Content-Type", asJSON)
	a.into(t, http.StatusAccepted, &again)
	if again.Retrying != 1 || a.Header.Get("Daybook-Sequence") == "" {
		t.Errorf("%+v, %v", again, a.Header)
	}
	var list struct{ Webhooks []webhook.Hook }
	a = s.do("GET", "/api/webhooks", "")
	a.into(t, 200, &list)
	if len(list.Webhooks) != 1 || list.Webhooks[0].ID != added.ID || strings.Contains(string(a.body), "whsec_") {
		t.Errorf("%s", a.body)
	}
	if all, _ := s.ndjson("?execution=" + run); len(all) != 1 {
		t.Errorf("events about webhooks pass for the run's: %q", typesOf(all))
	}
	s.do("DELETE", "/api/webhooks/"+added.ID, "").into(t, 200, nil)
	for _, request := range []string{"DELETE /api/webhooks/" + added.ID, "GET /api/webhooks/" + added.ID + "/dead-letters", "POST /api/webhooks/" + added.ID + "/retry", "DELETE /api/webhooks/x"} {
		method, path, _ := strings.Cut(request, " ")
		if a := s.do(method, path, ""); a.StatusCode != http.StatusNotFound || !strings.Contains(string(a.body), "Webhook '") {
			t.Errorf("%s: %d %s", request, a.StatusCode, a.body)
		}
	}
}

func TestInvalidWebhooks(t *testing.T) {
	t.Parallel()
	s := withWebhooks(t)
	for body, want := range map[string]struct {
		status int
		field  string
	}{
		``:             {400, ""},
		`[]`:           {422, ""},
		`{}`:           {422, "url"},
		`{"url":null}`: {422, "url"},
		`{"url":7}`:    {422, "url"},
		`{"url":"https://example.com","colour":1}`:                               {422, "colour"},
		`{"url":"https://example.com","url":"https://example.org"}`:              {400, "url"},
		`{"url":"ftp://example.com"}`:                                            {400, "url"},
		`{"url":"https://example.com","types":"daybook.execution.completed.v1"}`: {422, "types"},
		`{"url":"https://example.com","types":[null]}`:                           {422, "types"},
		`{"url":"https://example.com","types":["x"]}`:                            {400, "types"},
		`{"url":"https://example.com","after":-1}`:                               {400, "after"},
		`{"url":"https://example.com","after":1.5}`:                              {422, "after"},
		`{"url":"https://example.com","after":99}`:                               {400, "after"},
		`{"url":"https://example.com","after":18446744073709551616}`:             {400, "after"},
	} {
		var p httpapi.Problem
		s.do("POST", "/api/webhooks", body, "Content-Type", "application/json").into(t, want.status, &p)
		if p.Field != want.field || p.Error == "" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	// A position may need more than 32 bits.
	if a := s.do("POST", "/api/webhooks", `{"url":"https://example.com","after":3000000000}`, "Content-Type", "application/json"); a.StatusCode != 400 || !strings.Contains(string(a.body), "after is 3000000000, but the ledger ends at") {
		t.Errorf("a position beyond 32 bits: %d %s", a.StatusCode, a.body)
	}
	if a := s.do("POST", "/api/webhooks", "url=https://example.com", "Content-Type", "application/x-www-form-urlencoded"); a.StatusCode != 415 {
		t.Errorf("a form: %d %s", a.StatusCode, a.body)
	}
	if s.lastSeq() != 0 {
		t.Errorf("%d events recorded", s.lastSeq())
	}
	without := start(t)
	if a := without.do("GET", "/api/webhooks", ""); a.StatusCode != 503 {
		t.Errorf("without webhooks: %d %s", a.StatusCode, a.body)
	}
}

// Positions are whole numbers, as text or as numbers: 5.0 is 5. Positions above 2^53
// are exact.
func TestPositionsAreWholeNumbers(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]uint64{`5`: 5, `5.0`: 5, `50e-1`: 5, `"5"`: 5, `9223372036854775807`: math.MaxInt64} {
		reg, _, _ := httpapi.DecodeWebhook([]byte(`{"url":"https://example.com","after":` + raw + `}`))
		_, seqs, _ := httpapi.DecodeWebhook([]byte(`{"sequences":[` + raw + `]}`))
		if reg.After == nil || *reg.After != want || !slices.Equal(seqs, []uint64{want}) {
			t.Errorf("%s is %v and %d", raw, reg.After, seqs)
		}
	}
	for _, raw := range []string{`5.5`, `-1.0`, `"5.0"`, `1e300`, `true`} {
		reg, _, _ := httpapi.DecodeWebhook([]byte(`{"url":"https://example.com","after":` + raw + `}`))
		_, seqs, refusals := httpapi.DecodeWebhook([]byte(`{"sequences":[` + raw + `]}`))
		if reg.After != nil || len(seqs) != 0 || len(refusals) != 2 {
			t.Errorf("%s is %v and %d", raw, reg.After, seqs)
		}
	}
}

func FuzzDecodeWebhook(f *testing.F) {
	for _, seed := range []string{`{"url":"https://example.com","types":["a"],"session":"s","execution_id":null,"after":5}`, `{"sequences":["1",2]}`, `{"url":"\ud800"}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		reg, seqs, refusals := httpapi.DecodeWebhook(raw)
		if len(refusals) == 0 {
			t.Errorf("%q passes for both a registration and a retry: %+v, %d", raw, reg, seqs)
		}
	})
}
