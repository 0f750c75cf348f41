package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The list marks lost heaps with the event that records the loss.
func TestHeapListMarksLostHeaps(t *testing.T) {
	t.Parallel()
	const kept, lost = `{"heap":"a1","tags":{"k":"v"},"created_at":"2026-01-02T03:04:05.678Z"}`, `{"heap":"b2","tags":{},"created_at":null,"lost":17}`
	for _, test := range []struct{ name, results, want string }{
		{"one is lost", kept + "," + lost, "HEAP  CREATED                   STATE           TAGS\n" + "a1    2026-01-02T03:04:05.678Z  -               k=v\n" + "b2    -                         lost: event 17  \n"},
		{"none is lost", kept, "HEAP  CREATED                   TAGS\n" + "a1    2026-01-02T03:04:05.678Z  k=v\n"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Daybook-Api", "1")
			_, _ = io.WriteString(w, `{"results":[`+test.results+`]}`)
		}))
		t.Cleanup(server.Close)
		if got := daybook("", "heap", "list", "--server", server.URL); got.status != 0 || got.stdout != test.want {
			t.Errorf("%s: %d, %s\n%q, want\n%q", test.name, got.status, got.err, got.stdout, test.want)
		}
	}
}
