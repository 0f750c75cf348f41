package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
)

// A stream that breaks is resumed after the last event. A stream that breaks without progress
// ends the command.
func TestFollowResumes(t *testing.T) {
	t.Parallel()
	const total = 6
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-ID")
		asked = append(asked, last)
		w.Header().Set(embed.APIHeader, "1")
		w.Header().Set("Content-Type", "text/event-stream")
		from := 1
		_, _ = fmt.Sscan(last, &from)
		if last != "" {
			from++
		}
		// Two events, and the beginning of a third.
		for n := from; n < from+2 && n <= total; n++ {
			fmt.Fprintf(w, ": a comment\nid: %d\ndata: {\"n\":%d}\n\n", n, n)
		}
		if from+2 > total {
			fmt.Fprintf(w, "id: %d\nevent: caught-up\ndata: {}\n\n", total)
		} else {
			fmt.Fprintf(w, "id: %d\ndata: {\"n\":", from+2)
		}
	}))
	defer server.Close()
	got := daybook("", "events", "tail", "--json", "--no-follow", "--server", server.URL)
	want := ""
	for n := 1; n <= total; n++ {
		want += fmt.Sprintf("{\"n\":%d}\n", n)
	}
	if got.status != 0 || got.stdout != want {
		t.Errorf("exit status %d, stdout %q, stderr %q", got.status, got.stdout, got.err)
	}
	if !slices.Equal(asked, []string{"", "2", "4"}) {
		t.Errorf("the client resumed after %q", asked)
	}

	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(embed.APIHeader, "1")
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	defer empty.Close()
	got = daybook("", "events", "tail", "--json", "--no-follow", "--server", empty.URL)
	if got.status != 5 || !strings.Contains(got.err, "without finishing it") {
		t.Errorf("exit status %d, stderr %q", got.status, got.err)
	}
}

// Answers of a server, or of another program at its address, that are errors.
func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		want   string
		exit   int
	}{
		{http.StatusConflict, `{"error":"it is done","detail":"more"}`, "daybook: it is done\n", 2},
		{http.StatusConflict, `{"detail":"only detail"}`, "daybook: only detail\n", 2},
		{http.StatusBadGateway, "<h1>proxy</h1>", "daybook: <h1>proxy</h1>\n", 5},
		{http.StatusTooManyRequests, `{"error":"over a quota"}`, "daybook: over a quota\n", 5},
		{http.StatusServiceUnavailable, "", "daybook: the server answered 503 Service Unavailable\n", 5},
		{http.StatusOK, "<h1>something else</h1>", "daybook: read the server's answer: ", 5},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(embed.APIHeader, "1")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		got := daybook("", "run", "-e", "1", "--server", server.URL)
		if got.status != test.exit || got.stdout != "" || !strings.HasPrefix(got.err, test.want) {
			t.Errorf("%d %q: exit status %d, stdout %q, stderr %q", test.status, test.body, got.status, got.stdout, got.err)
		}
		server.Close()
	}
}

// A server with parts that no request has, and a token that no header has, are mistakes in
// the command line. No message has a password or a token.
func TestMistakesInServerAndToken(t *testing.T) {
	for _, test := range []struct{ token, args, want string }{
		{"", "exec list --server http://127.0.0.1:1?a=b", "exec list: --server \"http://127.0.0.1:1\": give the URL without a query or fragment, such as http://127.0.0.1:8080\n"},
		{"", "verify --server http://127.0.0.1:1#a", "verify: --server \"http://127.0.0.1:1\": give the URL without a query or fragment, such as http://127.0.0.1:8080\n"},
		{"", "exec list --server http://user:secret@127.0.0.1:1", "exec list: --server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN\n"},
		{"", "exec list --server http://user:secret@127.0.0.1:port", "exec list: --server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN\n"},
		{"", "exec list --server http://127.0.0.1:1?token=secret", "exec list: --server \"http://127.0.0.1:1\": give the URL without a query or fragment, such as http://127.0.0.1:8080\n"},
		{"", "exec list --server user:secret@127.0.0.1:1", "exec list: --server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN\n"},
		{"", "exec list --server http:/user:secret@127.0.0.1:1", "exec list: --server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN\n"},
		{"", "exec list --server http://127.0.0.1:1 --token=sec·ret", "--token has spaces, line breaks or other characters that no token has\n"},
		{"secret\n", "exec list --server http://127.0.0.1:1", "DAYBOOK_TOKEN has spaces, line breaks or other characters that no token has\n"},
		{"secret\n", "verify --server http://127.0.0.1:1", "DAYBOOK_TOKEN has spaces, line breaks or other characters that no token has\n"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Setenv("DAYBOOK_TOKEN", test.token)
			args := strings.Fields(test.args)
			args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "·", " ")
			got := daybook("", args...)
			message, _, _ := strings.Cut(strings.TrimPrefix(got.err, "daybook: "), "Run \"daybook")
			if got.status != 2 || message != test.want || strings.Contains(got.err, "secret") {
				t.Errorf("exit status %d, stderr %q, want %q", got.status, got.err, test.want)
			}
		})
	}
}
