package frozen_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/embed"
	"daybook/events"
)

var (
	freeze = flag.Bool("freeze", false, "write testdata/directory.tar.zst with TestFreeze")
	update = flag.Bool("update", false, "write the golden files")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go may start this goroutine for a stored object after the object is
		// stored; the goroutine then never ends.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience bounds the wait for a condition.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stop)
	return ctx
}

// start runs a Daybook until it is closed or the test ends.
func start(t testing.TB, opts embed.Options) *embed.Daybook {
	t.Helper()
	if opts.Runs.DrainWait == 0 {
		opts.Runs.DrainWait = -1
	}
	opts.Logger = slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	book, err := embed.Start(within(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBook(t, book) })
	return book
}

type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func closeBook(t testing.TB, book *embed.Daybook) {
	t.Helper()
	if err := book.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// tenant is the tenant whose token a request carries.
type tenant string

const (
	operator tenant = "default"
	acme     tenant = "acme"
)

// tokens are the bearer tokens of the tenants.
type tokens map[tenant]string

// answer is a response of the REST interface.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends one request. header holds pairs of names and values. Of a stream of events it
// reads the recorded ones, up to the event caught-up.
func (s tokens) ask(t testing.TB, book *embed.Daybook, of tenant, method, url, body string, header ...string) answer {
	t.Helper()
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+url, strings.NewReader(body))
	if token := s[of]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w := &edge{ResponseRecorder: httptest.NewRecorder(), stop: stop}
	book.Handler().ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.Bytes()}
}

// edge ends a request when the event caught-up was written, after the recorded events.
type edge struct {
	*httptest.ResponseRecorder
	stop context.CancelFunc
}

func (e *edge) Write(b []byte) (int, error) {
	n, err := e.ResponseRecorder.Write(b)
	if strings.Contains(e.Body.String(), "\nevent: caught-up\n") {
		e.stop()
	}
	return n, err
}

// Unwrap returns the recorder to http.ResponseController.
func (e *edge) Unwrap() http.ResponseWriter { return e.ResponseRecorder }

// must is ask for a request that must succeed, and decodes the answer.
func (s tokens) must(t testing.TB, book *embed.Daybook, of tenant, method, url, body string, into any, header ...string) {
	t.Helper()
	a := s.ask(t, book, of, method, url, body, header...)
	if a.status >= 300 {
		t.Fatalf("%s %s: %d %s", method, url, a.status, a.body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%s %s: %v in %s", method, url, err, a.body)
	}
}

// ledgerOf reads the whole ledger.
func ledgerOf(t testing.TB, book *embed.Daybook) []events.Event {
	t.Helper()
	var list []events.Event
	err := book.Follow(within(t), 0, func(batch []events.Event, last uint64) error {
		list = append(list, slices.Clone(batch)...)
		if batch[len(batch)-1].Seq >= last {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return list
}

// awaitEvent follows the ledger until an event matches.
func awaitEvent(t testing.TB, book *embed.Daybook, want func(e events.Event) bool) {
	t.Helper()
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		if slices.ContainsFunc(batch, want) {
			return io.EOF
		}
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

const archiveFile = "directory.tar.zst"

func testdata(name ...string) string { return filepath.Join(append([]string{"testdata"}, name...)...) }
