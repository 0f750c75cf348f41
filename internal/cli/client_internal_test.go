package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A permanent refusal has the exit status of refused requests.
func TestExitStatusOfLimits(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"error":"too many requests","code":"exhausted"}`:                  exitUnavailable,
		`{"error":"too many sessions","code":"exhausted","permanent":true}`: exitUsage,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Daybook-Api", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		}))
		_, err := clientFlags{Server: server.URL}.api().Execution(t.Context(), "one")
		server.Close()
		if status := exitStatus(err, io.Discard); status != want {
			t.Errorf("%s: exit status %d, want %d", body, status, want)
		}
	}
}
