package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A result that is larger than one answer is printed completely.
func TestResultLargerThanAnAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		switch r.URL.Path {
		case "/api/exec":
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"execution_id":"one"}`))
		case "/api/executions/one":
			_, _ = w.Write([]byte(`{"execution_id":"one","status":"completed","result":"a","result_truncated":true,"cut_texts":{"result":6},"warnings":["GET /api/executions/one/texts/result sends them"]}`))
		case "/api/executions/one/texts/result":
			_, _ = w.Write([]byte("abcdef"))
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("id: end\nevent: end\ndata: {\"execution_id\":\"one\",\"status\":\"completed\"}\n\n"))
		}
	}))
	t.Cleanup(server.Close)
	play(t, map[string]string{"url": server.URL}, []step{
		{args: `run -e 1` + at, stdout: "abcdef\n", stderr: "warning: the result was cut at its size limit; [^\n]*\nstatus: completed\n"},
	})
}
