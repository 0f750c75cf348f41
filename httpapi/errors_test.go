package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/ledger"
)

// failing is a write side that returns the same error for every submission.
type failing struct {
	noCommands
	err error
}

func (f failing) Submit(context.Context, ledger.Submission) (ledger.Receipt, error) {
	return ledger.Receipt{}, f.err
}

// Each class of error has its status. Temporary errors have a Retry-After. Only
// internal errors are logged, and clients do not see their text.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	code := func(c ledger.Code) error {
		return fmt.Errorf("submit: %w", &ledger.Error{Code: c, Field: "code", Message: "visible to the client", Err: errors.New("secret")})
	}
	for _, tc := range []struct {
		name   string
		err    error
		status int
		code   string
		retry  bool
		logged bool
	}{
		{"invalid", code(ledger.CodeInvalid), 400, "invalid", false, false},
		{"too large", code(ledger.CodeTooLarge), 413, "too_large", false, false},
		{"not found", code(ledger.CodeNotFound), 404, "not_found", false, false},
		{"conflict", code(ledger.CodeConflict), 409, "conflict", false, false},
		{"gone", code(ledger.CodeGone), 410, "gone", false, false},
		{"exhausted", code(ledger.CodeExhausted), 429, "exhausted", true, false},
		{"exhausted for a time", &ledger.Error{Code: ledger.CodeExhausted, Message: "full", RetryAfter: 7 * time.Second}, 429, "exhausted", true, false},
		{"unavailable", code(ledger.CodeUnavailable), 503, "unavailable", true, false},
		{"internal", code(ledger.CodeInternal), 500, "internal", false, true},
		{"unknown code", code("of_tomorrow"), 500, "of_tomorrow", false, false},
		{"plain", errors.New("secret"), 500, "internal", false, true},
		{"damaged", fmt.Errorf("secret: %w", events.ErrDamaged), 500, "internal", false, true},
		{"given up", context.DeadlineExceeded, 503, "unavailable", true, false},
	} {
		var log logged
		h := newBareHandler(t, func(o *httpapi.Options) {
			o.Commands = failing{err: tc.err}
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		r := httptest.NewRequest(http.MethodPost, "/api/exec", strings.NewReader(`{"code":"1"}`))
		r.Host = "localhost"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var p httpapi.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %d %s", tc.name, w.Code, w.Body)
		}
		if w.Code != tc.status || p.Status != tc.status || p.Code != tc.code {
			t.Errorf("%s: %d, %+v, want %d %s", tc.name, w.Code, p, tc.status, tc.code)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: the cause is shown: %s", tc.name, w.Body)
		}
		if got := w.Header().Get("Retry-After") != ""; got != tc.retry {
			t.Errorf("%s: Retry-After is %q", tc.name, w.Header().Get("Retry-After"))
		}
		if le, ok := errors.AsType[*ledger.Error](tc.err); ok && le.RetryAfter > 0 && w.Header().Get("Retry-After") != "7" {
			t.Errorf("%s: Retry-After is %q", tc.name, w.Header().Get("Retry-After"))
		}
		if got := strings.Count(log.String(), "secret"); (got > 0) != tc.logged || strings.Count(log.String(), "level=") > 1 {
			t.Errorf("%s: logged %q", tc.name, log.String())
		}
	}
}
