package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/projections"
)

// patience bounds the wait of a test for a condition.
const patience = 2 * time.Minute

// stack has all parts except the workers: a real ledger on a real stream, real
// projections and a real server. A test drives runs in place of a runner; see attempt.
type stack struct {
	t      testing.TB
	store  *jetstream.Store
	ledger *ledger.Ledger
	q      *projections.Store
	url    string
	client *http.Client
	server *http.Server
	log    *logged
}

func start(t testing.TB, change ...func(*httpapi.Options)) *stack {
	t.Helper()
	s := &stack{t: t, store: storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{BlobGracePeriod: -1}), log: &logged{}}
	s.ledger = ledger.New(s.store, ledger.Options{CancelTimeout: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	q, err := projections.Open(ctx, projections.Options{Path: filepath.Join(t.TempDir(), "projections.db"), Texts: s.store})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	s.q = q
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx, s.store) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("projections: %v", err)
		}
		if err := q.Close(); err != nil {
			t.Errorf("close projections: %v", err)
		}
	})
	s.serve(change...)
	return s
}

func (s *stack) serve(change ...func(*httpapi.Options)) {
	s.t.Helper()
	o := httpapi.Options{
		Commands: s.ledger, Queries: s.q, Events: s.store,
		Version: httpapi.Version{Version: "test"},
		Logger:  slog.New(slog.NewTextHandler(s.log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	h, err := httpapi.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(h)
	ts.Config = httpapi.NewServer("", h)
	ts.Start()
	s.t.Cleanup(ts.Close)
	s.url, s.client, s.server = ts.URL, ts.Client(), ts.Config
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

func (s *stack) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	return s.send(method, path, strings.NewReader(body), header...)
}

func (s *stack) send(method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if strings.EqualFold(header[i], "Host") {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return answer{resp, raw}
}

// into checks the status and decodes the body.
func (a answer) into(t testing.TB, status int, out any) {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: %d %s, want %d", a.Request.Method, a.Request.URL.Path, a.StatusCode, a.body, status)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		t.Fatalf("%s: %v in %s", a.Request.URL.Path, err, a.body)
	}
}

// submit sends a script and returns its execution id.
func (s *stack) submit(body string) string {
	s.t.Helper()
	var out struct {
		ExecutionID string `json:"execution_id"`
	}
	s.do(http.MethodPost, "/api/exec", body, "Content-Type", "application/json").into(s.t, http.StatusAccepted, &out)
	return out.ExecutionID
}

// attempt is a run that the test drives.
type attempt struct {
	s            *stack
	request      ledger.Request
	run          *ledger.StartedAttempt
	lines, bytes int64
}

// begin starts an execution as a runner does.
func (s *stack) begin(id string) *attempt {
	s.t.Helper()
	ctx := s.t.Context()
	list, err := s.store.Execution(ctx, events.DefaultTenant, id)
	if err != nil || len(list) == 0 {
		s.t.Fatalf("read %s: %d events, %v", id, len(list), err)
	}
	req, ok := ledger.NewRequest(list[0])
	if !ok {
		s.t.Fatalf("%s is no request", list[0].Type)
	}
	plan, err := s.ledger.Plan(ctx, req, false)
	if err != nil {
		s.t.Fatal(err)
	}
	run, err := s.ledger.Start(ctx, plan, ledger.Start{Runner: "test", Engine: events.Engine{ID: "engine", V8Version: "0"}, InputHeap: req.Heap})
	if err != nil {
		s.t.Fatal(err)
	}
	return &attempt{s: s, request: req, run: run, lines: plan.FirstLine, bytes: plan.FirstByte}
}

// print records complete lines of output in one event.
func (a *attempt) print(texts ...string) {
	a.s.t.Helper()
	lines := make([]events.Line, len(texts))
	var size int64
	for i, text := range texts {
		lines[i] = events.Line{Text: text, TimeMillis: 1_700_000_000_000}
		size += lines[i].Bytes()
	}
	if _, err := a.s.ledger.AppendOutput(a.s.t.Context(), a.run, a.lines, a.bytes, lines); err != nil {
		a.s.t.Fatal(err)
	}
	a.lines += int64(len(texts))
	a.bytes += size
}

// finish ends the run. heap may be empty.
func (a *attempt) finish(status events.Status, result, heap string) {
	a.s.t.Helper()
	ctx := a.s.t.Context()
	res := ledger.Result{Output: events.OutputTotals{Lines: a.lines - 1, Bytes: a.bytes}}
	if status == events.StatusCompleted {
		res.Value = &result
	} else {
		res.Error = result
	}
	if heap != "" {
		res.Heap = &events.HeapRecord{SHA256: heap, Size: 1, EngineID: "engine", Parent: a.request.Heap}
	}
	terminal, err := a.s.ledger.Finish(ctx, a.run, status, res)
	if err != nil {
		a.s.t.Fatal(err)
	}
	if err := a.s.ledger.Finalize(ctx, a.request, terminal); err != nil {
		a.s.t.Fatal(err)
	}
	a.s.catchUp()
}

// catchUp waits until the read side has applied all events recorded so far.
func (s *stack) catchUp() {
	s.t.Helper()
	if err := s.q.Wait(s.t.Context(), s.lastSeq()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) lastSeq() uint64 {
	s.t.Helper()
	seq, err := s.store.LastSeq(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return seq
}

// message is one server-sent event.
type message struct{ id, name, data string }

// streamReader reads server-sent events as they arrive.
type streamReader struct {
	t    testing.TB
	resp *http.Response
	in   *bufio.Reader
}

func (s *stack) open(path string, header ...string) *streamReader {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("GET %s: %s %s %s", path, resp.Status, resp.Header.Get("Content-Type"), raw)
	}
	return &streamReader{s.t, resp, bufio.NewReader(resp.Body)}
}

// next returns the next event with data, or false at the end of the stream.
func (r *streamReader) next() (message, bool) {
	r.t.Helper()
	var m message
	for {
		line, err := r.in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return message{}, false
		}
		if err != nil {
			r.t.Fatalf("read the stream: %v", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			m.id = value
		case "event":
			m.name = value
		case "data":
			m.data = value
		case "":
			if m.data != "" {
				return m, true
			}
		}
	}
}

// must returns the next event, or fails the test.
func (r *streamReader) must() message {
	r.t.Helper()
	m, ok := r.next()
	if !ok {
		r.t.Fatal("the stream ended too early")
	}
	return m
}
