package embed_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// Subscribers, webhooks and exports get ciphertext, because sent content cannot be shredded.
// Readers get plaintext.
func TestEncryptedContentLeavesAsCiphertext(t *testing.T) {
	t.Parallel()
	const secret = "streng-geheim"
	posted := make(chan []byte, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posted <- body
	}))
	t.Cleanup(receiver.Close)
	opts := embed.Options{DataDir: t.TempDir(), Content: embed.ContentOptions{Erasable: true}, NATS: embed.NATSOptions{Addr: "127.0.0.1:0"}, Webhooks: embed.WebhookOptions{AllowPrivate: true}}
	book := start(t, opts)
	live, again := listen(t, book, "events.default.>"), listen(t, book, "replay.default.>")
	if status, body := postTo(t, book, "/api/webhooks", `{"url":"`+receiver.URL+`"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	e := run(t, book, embed.Script{Code: "console.log('" + secret + "'); '" + secret + "'", Session: "private", Tags: map[string]string{"about": secret}})
	if deref(e.Result) != secret {
		t.Fatalf("%+v", e)
	}
	check := func(where string, next func() []byte, last events.Type) {
		t.Helper()
		sealed := 0
		for {
			raw := next()
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s received %s", where, raw)
			}
			if bytes.Contains(raw, []byte(events.SealAlgorithm)) {
				sealed++
			}
			if bytes.Contains(raw, []byte(`"`+string(last)+`"`)) {
				break
			}
		}
		if sealed < 3 { // request, output, end
			t.Errorf("%s got %d encrypted events", where, sealed)
		}
	}
	ctx := within(t)
	message := func(heard <-chan *nats.Msg) func() []byte {
		return func() []byte {
			select {
			case m := <-heard:
				return append([]byte(`"`+m.Header.Get("ce-type")+`" `), m.Data...)
			case <-ctx.Done():
				t.Fatal("no further event arrives")
				return nil
			}
		}
	}
	check("a subscriber", message(live), events.TypeSessionEntryRecorded)
	if status, body := postTo(t, book, "/api/sessions/private/replay?speed=max&subject=replay.default.x", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	check("a subscriber to a replay", message(again), events.TypeSessionEntryRecorded)
	check("a webhook", func() []byte {
		select {
		case body := <-posted:
			return body
		case <-ctx.Done():
			t.Fatal("no further event is posted")
			return nil
		}
	}, events.TypeSessionEntryRecorded)
	if status, body := answerOf(t, book, http.MethodGet, "/api/events"); status != http.StatusOK || !strings.Contains(body, secret) {
		t.Errorf("a reader: %d %.200s", status, body)
	}

	export := func() string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "export")
		if done, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir}); err != nil || !done.Complete {
			t.Fatalf("%+v, %v", done, err)
		}
		if found := filesWith(t, dir, secret); len(found) != 0 {
			t.Errorf("exported in %q", found)
		}
		return dir
	}
	closeBook(t, book)
	before := export()
	decrypts(t, opts, before, secret, embed.Decrypted{Readable: 4})
	book = start(t, opts)
	if _, err := book.Shred(within(t), events.DefaultTenant, retention.Named("private"), false, eraser); err != nil {
		t.Fatal(err)
	}
	key := book.AuditKey()
	closeBook(t, book)
	decrypts(t, opts, before, "", embed.Decrypted{Unreadable: 4})
	for _, dir := range []string{before, export()} {
		if report, err := embed.Verify(within(t), embed.VerifyOptions{Export: dir, Keys: []string{key}}); err != nil || !report.OK {
			t.Errorf("%s, %v", report, err)
		}
		accepts(t, dir, key)
	}
}

// decrypts decrypts an export with the remaining keys.
func decrypts(t *testing.T, opts embed.Options, dir, secret string, want embed.Decrypted) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plain.ndjson")
	got, err := embed.DecryptExport(within(t), embed.Options{DataDir: opts.DataDir}, dir, file)
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	raw, err := os.ReadFile(file)
	if err != nil || secret != "" && bytes.Count(raw, []byte(secret)) < 4 || bytes.Count(raw, []byte("\n")) < 5 {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := embed.DecryptExport(within(t), embed.Options{DataDir: opts.DataDir}, dir, file); err == nil {
		t.Error("a file that exists was written over")
	}
}

// accepts verifies an export with verify.py.
func accepts(t *testing.T, dir, key string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("python3 is not installed, so verify.py is not run")
		return
	}
	out, err := exec.CommandContext(within(t), python, "../examples/verify-python/verify.py", "--key", key, dir).CombinedOutput()
	if err != nil {
		t.Errorf("verify.py: %v\n%s", err, out)
	}
}

// listen subscribes with the credentials that a server creates for its only tenant.
func listen(t *testing.T, book *embed.Daybook, subject string) <-chan *nats.Msg {
	t.Helper()
	nc, err := nats.Connect(book.NATSURL(), nats.UserCredentials(book.SubscriberCredentials()), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	heard := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(subject, heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return heard
}

// postTo posts JSON to the REST interface.
func postTo(t *testing.T, book *embed.Daybook, path, body string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
