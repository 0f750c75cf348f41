package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/embed"
)

// answering returns the address of a server that gives every request the same answer, with
// the header of a Daybook server.
func answering(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(embed.APIHeader, "1")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(direct.CloseIdleConnections)
	return server.URL
}

// runMain returns the exit status and the output of a command line.
func runMain(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = Main(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// A command whose answer lacks members that every server sends ends with the status of a
// server that does not answer, and prints no result.
func TestAnswersOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const id, heap = "01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, body := range []string{`{}`, `{"name":"another program","status":7}`, `[]`, `null`, `"text"`, `{"executions":[{}],"results":[{}],"items":[{}],"volumes":[{}],"webhooks":[{}],"entries":[{}],"dead_letters":[{}]}`} {
		at := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		for _, command := range []string{
			"run -e 1", "run -e 1 --detach", "run -e 1 --continue", "exec list", "exec list --json", "exec show abc", "exec show " + id, "exec get " + id, "exec output " + id, "exec cancel " + id,
			"exec calls " + id, "exec events " + id, "heap list", "heap find a=b", "heap show " + heap, "heap show " + heap + " --globals", "heap diff " + heap + " " + heap, "heap tags " + heap, "heap tag " + heap + " a=b", "heap untag " + heap, "heap collect", "session list",
			"session show abc", "session log abc", "session open abc", "session reset abc", "context get abc", "context set abc a=b", "context clear abc", "volume list", "volume seal",
			"webhook list", "webhook add https://example.com/", "webhook remove " + id, "webhook retry " + id, "webhook dead " + id, "status", "status --json",
		} {
			if body == "[]" && strings.HasPrefix(command, "exec events ") {
				continue // a list without events
			}
			status, stdout, stderr := runMain(append(strings.Fields(command), "--server", at)...)
			if status != exitUnavailable || stdout != "" || !strings.Contains(stderr, "the answer of "+at+" to ") || !strings.Contains(stderr, "is not from a Daybook server, or from one of another version: ") ||
				strings.Contains(stderr, "Go ") {
				t.Errorf("%s answered with %s: exit status %d, stdout %q, stderr %q", command, body, status, stdout, stderr)
			}
		}
	}
}

// A checkpoint that is cut off, or that no server sends, ends verify and export with the
// status of a server that does not answer.
func TestCheckpointsThatAreCutOff(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"closed":     hangUp,
		"broken":     breakOff(`{"note":`),
		"cut":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"note":`) },
		"empty":      func(http.ResponseWriter, *http.Request) {},
		"other":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) },
		"wrong type": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"note":1}`) },
	} {
		at := answering(t, answer)
		for _, args := range [][]string{{"verify"}, {"events", "export", t.TempDir() + "/export"}} {
			status, stdout, stderr := runMain(append(args, "--server", at)...)
			if status != exitUnavailable || stdout != "" || !strings.HasPrefix(stderr, "daybook: ") || strings.Contains(stderr, "Go ") {
				t.Errorf("%s, %s: exit status %d, stdout %q, stderr %q", name, args[0], status, stdout, stderr)
			}
		}
	}
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}

// breakOff closes the connection after the beginning of an answer.
func breakOff(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// A run whose server is killed is named, or may have been accepted.
func TestServerThatIsKilled(t *testing.T) {
	t.Parallel()
	const id = "01234567-89ab-cdef-0123-456789abcdef"
	const closed = "daybook: the server closed the connection before it answered"
	const maybe = `; the run may be accepted: look for it with "daybook exec list" before you repeat the command` + "\n"
	accept := func(rest http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"execution_id":"`+id+`"}`)
				return
			}
			rest(w, r)
		}
	}
	for _, test := range []struct {
		answer     http.HandlerFunc
		args, want string
	}{
		{hangUp, "exec list", closed + "\n"},
		{hangUp, "run -e 1", closed + maybe},
		{hangUp, "run -e 1 --detach --idempotency-key once", closed + "; the run may be accepted: repeat the command with the same --idempotency-key to follow it\n"},
		{breakOff(`{"execution_id":"` + id), "run -e 1", "daybook: read the server's answer: unexpected EOF" + maybe},
		{accept(hangUp), "run -e 1", closed + "; run " + id + ` is accepted: follow it with "daybook exec watch ` + id + "\"\n"},
		{accept(hangUp), "exec watch " + id, closed + "\n"},
	} {
		status, stdout, stderr := runMain(append(strings.Fields(test.args), "--server", answering(t, test.answer))...)
		if status != exitUnavailable || stdout != "" || stderr != test.want {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q, want %q", test.args, status, stdout, stderr, test.want)
		}
	}
}

// An error of a tail whose server was killed says where to continue.
func TestTailOfAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	var sent atomic.Bool
	at := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if sent.Swap(true) {
			hangUp(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 7\ndata: {\"type\":\"daybook.heap.tagged.v1\",\"sequence\":\"7\"}\n\n")
	})
	status, stdout, stderr := runMain("events", "tail", "--json", "--server", at)
	const want = "daybook: the server closed the connection before it answered; to continue after the last printed event, repeat the command with --after 7\n"
	if status != exitUnavailable || !strings.Contains(stdout, `"sequence":"7"`) || stderr != want {
		t.Errorf("exit status %d, stdout %q, stderr %q, want %q", status, stdout, stderr, want)
	}
}

// A redirect is an answer of another program. The error names the address for --server, not that
// of the request.
func TestRedirects(t *testing.T) {
	t.Parallel()
	const foreign = " redirects to a page that is not of a Daybook server; name another with --server\n"
	for _, test := range []struct{ base, location, want string }{
		{"", "https://book.example.com/api/executions?limit=20", " redirects to another address; give --server https://book.example.com\n"},
		{"/", "https://book.example.com/api/executions", " redirects to another address; give --server https://book.example.com\n"},
		{"/old", "/new/api/executions", "/old redirects to another address; give --server AT/new\n"},
		{"", "https://user:secret@book.example.com/api/executions", " redirects to another address; give --server https://book.example.com\n"},
		{"", "/login?next=/api/executions", foreign},
		{"", "/api/executions", foreign},
		{"", "mailto:a@example.com", foreign},
		{"", "", foreign},
	} {
		at := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", test.location)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		status, stdout, stderr := runMain("exec", "list", "--server", at+test.base)
		if want := "daybook: " + at + strings.ReplaceAll(test.want, "AT", at); status != exitUnavailable || stdout != "" || stderr != want {
			t.Errorf("to %q: exit status %d, stdout %q, stderr %q, want %q", test.location, status, stdout, stderr, want)
		}
	}
}
