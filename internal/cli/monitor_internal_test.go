package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/embed"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

// Each end of the monitor sends an alert: after a round without an end, after answers that the server cannot
// answer now, and after an error of any other kind.
func TestMonitorEnds(t *testing.T) {
	t.Parallel()
	alerts := make(chan alert, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		var got alert
		if err := json.NewDecoder(in.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		alerts <- got
	}))
	defer hook.Close()
	_, vkey, err := note.GenerateKey(rand.Reader, "daybook/x")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{vkey}
	answer := func(status int) func(context.Context) error {
		return func(context.Context) error {
			return remoteError{&client.Error{Status: status, Code: "x", Message: "x"}}
		}
	}
	for name, test := range map[string]struct {
		get     func(context.Context) error
		verdict string
		status  int
		keys    []string
	}{
		"silent":  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "no_answer", exitUnavailable, keys},
		"503":     {answer(http.StatusServiceUnavailable), "no_answer", exitUnavailable, keys},
		"429":     {answer(http.StatusTooManyRequests), "no_answer", exitUnavailable, keys},
		"401":     {answer(http.StatusUnauthorized), "error", exitUsage, keys},
		"no key":  {answer(http.StatusOK), "error", exitUsage, nil},
		"unknown": {func(context.Context) error { return errors.New("x") }, "error", exitFailed, keys},
	} {
		var out bytes.Buffer
		c := monitorCmd{Server: "http://x", Webhook: hook.URL, Once: true, Every: time.Hour}
		opts := embed.VerifyOptions{ServerURL: c.Server, Keys: test.keys, Server: func(ctx context.Context, _ string, _ ...string) (*http.Response, error) {
			return nil, test.get(ctx)
		}}
		limit := time.Hour
		if name == "silent" {
			limit = 10 * time.Millisecond
		}
		err := c.watch(t.Context(), &streams{err: terminal.New(&out)}, opts, limit)
		if status := exitStatus(err, &out); status != test.status {
			t.Errorf("%s: status %d, want %d: %v", name, status, test.status, err)
		}
		select {
		case got := <-alerts:
			if got.Verdict != test.verdict || got.Source != c.Server || got.Error == "" {
				t.Errorf("%s: the alert is %+v, want %s", name, got, test.verdict)
			}
		default:
			t.Errorf("%s: no alert", name)
		}
	}
}
