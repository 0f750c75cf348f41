package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The status of a server that refuses every run shows what /readyz answers.
func TestStatusOfAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"/readyz": `{"status":"ready"}`, "/api/ledger/damage": `{"damaged":false,"read_only":false,"findings":[],"more":0}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		if answers[r.URL.Path] == "" || r.URL.Path == "/readyz" && answers["full"] != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":503,"detail":"not ready: the disk is full; delete files"}`))
			return
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	known := map[string]string{"url": server.URL}
	play(t, known, []step{
		{args: `status` + at, stdout: "Nothing is known to be wrong with the ledger.\nThe scrub does not run.\n"},
		{args: `status --json` + at, stdout: `\{"ready":true,.*\}\n`},
		{args: `status --help`, stdout: ".*Exit status:\n.*  0  .*  1  .*  2  .*  5  .*"},
	})
	answers["full"] = "yes"
	play(t, known, []step{
		{args: `status` + at, status: 1, stdout: "NOT READY: the disk is full; delete files.\nThe scrub does not run.\n"},
		{args: `status --json` + at, status: 1, stdout: `\{"ready":false,"not_ready":"the disk is full; delete files",.*\}\n`},
	})
}
