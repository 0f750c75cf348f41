package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"daybook/internal/web/client"
)

// fullOutput is an output on a full disk.
type fullOutput struct{}

var errFull = errors.New("the disk is full")

func (fullOutput) Write([]byte) (int, error) { return 0, errFull }

// A command whose output cannot be written fails, also if it ignores the error.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "--help", "version"} {
		var stderr strings.Builder
		if status := Main([]string{args}, strings.NewReader(""), fullOutput{}, &stderr); status != exitFailed || !strings.Contains(stderr.String(), "write the output: the disk is full") {
			t.Errorf("%s: status %d, %s", args, status, stderr.String())
		}
	}
}

// An accepted run is named if its outcome cannot be printed, with and without waiting for it.
func TestRunWithFullOutput(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"execution_id":"`+id+`","status":"queued"}`)
		case strings.HasSuffix(r.URL.Path, "/output"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "id: 1\ndata: {\"line\":1,\"stream\":\"stdout\",\"text\":\"x\"}\n\n")
		}
	}))
	defer server.Close()
	for _, flags := range [][]string{nil, {"--detach"}, {"--detach", "--json"}} {
		var stderr strings.Builder
		status := Main(append([]string{"run", "-e", "1", "--server", server.URL}, flags...), strings.NewReader(""), fullOutput{}, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "the disk is full") || !strings.Contains(stderr.String(), "exec watch "+id) {
			t.Errorf("%v: status %d, %s", flags, status, stderr.String())
		}
	}
}

// A tail of events ends if its output cannot be written.
func TestTailWithFullOutput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 7\ndata: {\"specversion\":\"1.0\",\"id\":\"x\",\"type\":\"daybook.x.v1\",\"subject\":\"x\",\"sequence\":\"7\",\"data\":{}}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	var stderr strings.Builder
	if status := Main([]string{"events", "tail", "--server", server.URL}, strings.NewReader(""), fullOutput{}, &stderr); status != exitFailed || !strings.Contains(stderr.String(), "write the output: the disk is full") {
		t.Errorf("status %d, %s", status, stderr.String())
	}
}

// Every error after a run was accepted names the run.
func TestRunHint(t *testing.T) {
	t.Parallel()
	for err, hint := range map[error]bool{
		&client.Error{Status: http.StatusTooManyRequests, Message: "over the limit"}: true,
		client.ErrNoServer: true,
		exitError(3):       false,
		errFull:            true,
	} {
		if got := withRunHint(err, "x"); !errors.Is(got, err) || strings.Contains(got.Error(), "exec watch x") != hint {
			t.Errorf("%v", got)
		}
	}
}
