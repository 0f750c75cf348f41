package embed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/embed"
	"daybook/internal/web/access"
)

// through returns an HTTP client of the owner of a directory.
func through(dir string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return embed.DialOwner(ctx, dir) },
	}}
}

// askOwner sends a request to the owner of a directory.
func askOwner(t *testing.T, dir, method, path, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := through(dir).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// On a server with tokens, a client of the socket has the identity of its token, and without
// a token that of the local operator.
func TestSocketIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.jsonl")
	secret, _, err := access.CreateToken(file, access.Grant{Tenant: "acme", Principal: "ada", Scopes: access.AllScopes}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	book := start(t, embed.Options{DataDir: dir, Access: embed.AccessOptions{TokenFile: file}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	id := run(t, book, embed.Script{Code: "1"}).ExecutionID
	path := "/api/executions/" + id
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"operator":       {"", http.StatusOK},
		"another tenant": {secret, http.StatusNotFound},
		"bad token":      {"no-token", http.StatusUnauthorized},
	} {
		if status, body := askOwner(t, dir, http.MethodGet, path, test.token); status != test.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _ := get(t, book.URL()+path); status != http.StatusUnauthorized {
		t.Errorf("over TCP without a token: %d", status)
	}
}

// Only a background owner hands over its directory. A process that takes over waits for it.
func TestHandOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	if status, body := askOwner(t, dir, http.MethodPost, "/owner/handover", ""); status != http.StatusConflict {
		t.Errorf("a plain owner answers %d %s", status, body)
	}
	if _, err := embed.Start(within(t), embed.Options{DataDir: dir, Owner: embed.OwnerOptions{TakeOver: true}}); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("taking over from it: %v", err)
	}
	closeBook(t, own)

	background := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, Owner: embed.OwnerOptions{Background: true}})
	select {
	case <-background.Released():
		t.Fatal("the directory is released at the start")
	default:
	}
	closed := make(chan error, 1)
	go func() {
		<-background.Released()
		closed <- background.Close()
	}()
	var notices []string
	start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, Owner: embed.OwnerOptions{TakeOver: true, Notice: func(text string) { notices = append(notices, text) }}})
	if len(notices) != 1 || !strings.Contains(notices[0], fmt.Sprintf("background process %d; waiting", os.Getpid())) {
		t.Errorf("the waiting process reports %q", notices)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if why := background.ReleaseReason(); !strings.Contains(why, "takes over") {
		t.Errorf("the reason of the release is %q", why)
	}
}

// A client whose owner closes with a call open is answered by the next owner, and
// its run exists once.
func TestAttachAcrossOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Runs: embed.RunOptions{Stateless: true, DrainWait: -1}, NATS: embed.NATSOptions{NoSync: true}}
	first := start(t, opts)
	in, feed := io.Pipe()
	out, answers := io.Pipe()
	second := make(chan *embed.Daybook, 1)
	done := make(chan error, 1)
	go func() {
		done <- embed.Attach(within(t), embed.Client{DataDir: dir, StartOwner: func(ctx context.Context) error {
			book, err := embed.Start(ctx, opts)
			if err == nil {
				second <- book
			}
			return err
		}}, in, answers)
		answers.Close()
	}()
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		raw, _ := io.ReadAll(out)
		for line := range strings.Lines(string(raw)) {
			lines <- line
		}
	}()
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":{"code":"await new Promise(r => setTimeout(r, 300)); console.log('once')"}}}`
	if _, err := fmt.Fprintf(feed, "%s%s\n", initialize, call); err != nil {
		t.Fatal(err)
	}
	awaitRun(t, first)
	closeBook(t, first)
	book := <-second
	defer closeBook(t, book)
	awaitEnd(t, book)
	feed.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var got []string
	for line := range lines {
		if strings.Contains(line, `"id":2`) {
			got = append(got, line)
		}
	}
	if len(got) != 1 || !strings.Contains(got[0], "once") {
		t.Errorf("the call is answered with %q", got)
	}
}

// A client starts another owner if one was killed before the client attached. Package owner
// tests when the client gives up.
func TestOwnersEndAtOnce(t *testing.T) {
	t.Parallel()
	killed := fmt.Errorf("the owner was killed: %w", embed.ErrNotServing)
	dir, starts := t.TempDir(), 0
	var out strings.Builder
	err := embed.Attach(within(t), embed.Client{DataDir: dir, StartOwner: func(ctx context.Context) error {
		if starts++; starts == 1 {
			return killed
		}
		start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
		return nil
	}}, strings.NewReader(initialize), &out)
	if err != nil || !strings.Contains(out.String(), "serverInfo") {
		t.Errorf("after %d starts: %q, %v", starts, out.String(), err)
	}
}

// A client reports the differences of its owner, and not again for an equal next owner.
func TestOwnerDiffers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, Version: "1", Owner: embed.OwnerOptions{Settings: []string{"--a=1", "--b=2"}}}
	book := start(t, opts)
	var notices []string
	client := embed.Client{
		DataDir: dir, Version: "2", Settings: []string{"--b=3", "--c=4"}, Notice: func(text string) { notices = append(notices, text) },
		StartOwner: func(context.Context) error { start(t, opts); return nil },
	}
	in, feed := io.Pipe()
	out, answers := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- embed.Attach(within(t), client, in, answers) }()
	for range 2 {
		if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		closeBook(t, book)
	}
	feed.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	owner := "the process that owns " + dir
	if want := owner + " is Daybook 1, this is 2; " + owner + " was started with other options, which apply until it ends: --b, --c, --a"; len(notices) != 1 || notices[0] != want {
		t.Errorf("the client reports %q, want %q", notices, want)
	}
}

// An owner's idle time counts from the end of its start.
func TestIdleFromStart(t *testing.T) {
	t.Parallel()
	const idle = 200 * time.Millisecond
	for try := 1; ; try++ {
		book := start(t, embed.Options{Runs: embed.RunOptions{Elsewhere: true}, Owner: embed.OwnerOptions{Background: true, IdleExit: idle}})
		began := time.Now()
		select {
		case <-book.Released():
		case <-time.After(patience):
			t.Fatal("the directory is not released")
		}
		took := time.Since(began)
		if took >= idle/2 {
			return
		}
		// A busy machine may measure a longer time, but not in each try.
		if try == 5 {
			t.Fatalf("the directory was released after %s", took)
		}
		closeBook(t, book)
	}
}

// runs returns the list of runs of the REST interface.
func runs(t *testing.T, book *embed.Daybook) string {
	t.Helper()
	_, body := askOwner(t, book.DataDir(), http.MethodGet, "/api/executions", "")
	return body
}

func awaitRun(t *testing.T, book *embed.Daybook) {
	t.Helper()
	for late := time.Now().Add(patience); !strings.Contains(runs(t, book), `"execution_id"`); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the run is not submitted")
		}
	}
}

func awaitEnd(t *testing.T, book *embed.Daybook) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		list := runs(t, book)
		if strings.Contains(list, `"completed"`) {
			if n := strings.Count(list, `"execution_id"`); n != 1 {
				t.Errorf("%d runs are recorded: %s", n, list)
			}
			return
		}
		if time.Now().After(late) {
			t.Fatalf("the run does not complete: %s", list)
		}
	}
}
