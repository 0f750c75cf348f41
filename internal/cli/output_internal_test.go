package cli

import (
	"context"
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

// almostFullOutput has space for a number of writes.
type almostFullOutput struct{ free int }

func (o *almostFullOutput) Write(p []byte) (int, error) {
	if o.free--; o.free < 0 {
		return 0, errFull
	}
	return len(p), nil
}

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

// An accepted run is named if its outcome cannot be printed: its id, a line or its result.
func TestRunWithFullOutput(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef"
	const line = "id: 1\ndata: {\"line\":1,\"stream\":\"stdout\",\"text\":\"x\"}\n\n"
	const end = "id: end\nevent: end\ndata: {\"execution_id\":\"" + id + "\",\"status\":\"failed\"}\n\n"
	for name, test := range map[string]struct {
		flags  []string
		output string
	}{
		"the id":         {[]string{"--detach"}, ""},
		"the id as JSON": {[]string{"--detach", "--json"}, ""},
		"a line":         {nil, line},
		"the result":     {nil, end},
		"the report":     {[]string{"--json"}, end},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Daybook-Api", "1")
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"execution_id":"`+id+`","status":"queued"}`)
			case strings.HasSuffix(r.URL.Path, "/output"):
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, test.output)
			default:
				_, _ = io.WriteString(w, `{"execution_id":"`+id+`","status":"failed","result":"7"}`)
			}
		}))
		var stderr strings.Builder
		status := Main(append([]string{"run", "-e", "1", "--server", server.URL}, test.flags...), strings.NewReader(""), fullOutput{}, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "the disk is full; run "+id+" is accepted") {
			t.Errorf("%s: status %d, %s", name, status, stderr.String())
		}
		server.Close()
	}
}

// A tail of events ends if its output cannot be written. It says how to continue after what was
// printed.
func TestTailWithFullOutput(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--json"}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Daybook-Api", "1")
			w.Header().Set("Content-Type", "text/event-stream")
			for _, at := range []string{"7", "8"} {
				_, _ = io.WriteString(w, "id: "+at+"\ndata: {\"specversion\":\"1.0\",\"id\":\"x\",\"type\":\"daybook.x.v1\",\"subject\":\"x\",\"sequence\":\""+at+"\",\"data\":{}}\n\n")
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		var stderr strings.Builder
		out := &almostFullOutput{free: 1}
		status := Main(append([]string{"events", "tail", "--server", server.URL}, flags...), strings.NewReader(""), out, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "write the output: the disk is full; to continue after the last printed event, repeat the command with --after 7") {
			t.Errorf("%v: status %d, %s", flags, status, stderr.String())
		}
		server.Close()
	}
}

// Every error after a run was accepted names the run, and keeps its exit status. The exit status
// of the run itself gets no hint.
func TestRunHint(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		&client.Error{Status: http.StatusTooManyRequests, Message: "over the limit"}: exitUnavailable,
		client.ErrNoServer: exitUnavailable,
		errFull:            exitFailed,
		context.Canceled:   exitFailed,
	} {
		var shown strings.Builder
		if status := exitStatus(withRunHint(err, "x"), &shown); status != want || !strings.Contains(shown.String(), "exec watch x") {
			t.Errorf("%v: status %d, want %d, shown as %s", err, status, want, shown.String())
		}
	}
	for _, err := range []error{nil, exitError(3)} {
		if got := withRunHint(err, "x"); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
