package embed_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/natsserver"
	"daybook/ledger"
	"daybook/projections"
)

// outsideNATS starts an outside NATS server and returns its address.
func outsideNATS(t *testing.T) string {
	t.Helper()
	url, _ := outsideNATSOn(t, t.TempDir(), 0)
	return url
}

// limitedNATS starts a NATS server that stores at most store bytes, and returns its address.
func limitedNATS(t *testing.T, store int64) string {
	t.Helper()
	url, _ := outsideNATSOn(t, t.TempDir(), store)
	return url
}

// outsideNATSOn starts a NATS server on a directory, until stop is called or the test ends. It
// stores at most store bytes; 0 is the default of the server.
func outsideNATSOn(t *testing.T, dir string, store int64) (url string, stop func()) {
	t.Helper()
	ns, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, JetStreamMaxStore: store, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	stop = func() { ns.Shutdown(); ns.WaitForShutdown() }
	t.Cleanup(stop)
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return "nats://" + ns.Addr().String(), stop
}

// publishRequest stores a message as the request of a run.
func publishRequest(t *testing.T, nc *nats.Conn, id string, typ events.Type, body string) {
	t.Helper()
	publishEvent(t, nc, "ledger.0001."+events.RunSubject(events.DefaultTenant, events.DefaultPool, id), id, typ, body)
}

func publishEvent(t *testing.T, nc *nats.Conn, subject, id string, typ events.Type, body string) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	if typ != "" {
		m.Header = nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {events.NewID(time.Now())}, "ce-type": {string(typ)}, "ce-source": {events.Source},
			"ce-subject": {id}, "ce-time": {events.FormatTime(time.Now())}, "ce-tenant": {events.DefaultTenant}, "content-type": {"application/json"},
		}
	}
	answer, err := nc.RequestMsg(m, patience)
	if err != nil || !strings.Contains(string(answer.Data), `"seq"`) {
		t.Fatalf("publish: %v", err)
	}
}

// Messages that are not events make the ledger read-only, on an embedded and on an outside
// server, also if they were hashed and signed. Once they are accepted as lost, everything else
// works, and verification proves the loss.
func TestAcceptUnreadableEvents(t *testing.T) {
	t.Parallel()
	for name, outside := range map[string]bool{"embedded": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir()}
			if outside {
				opts.NATS.URL = outsideNATS(t)
			}
			book := start(t, opts)
			before := run(t, book, embed.Script{Code: "globalThis.a = 1", Session: "s"})
			key := book.AuditKey()
			var ids []string
			publish := func(nc *nats.Conn) {
				for _, m := range []struct {
					typ  events.Type
					body string
				}{{events.TypeExecutionRequested, "{garbage"}, {events.TypeExecutionRequested, `{"code":5}`}, {"", "{}"}} {
					id := events.NewID(time.Now())
					publishRequest(t, nc, id, m.typ, m.body)
					ids = append(ids, id)
				}
				// Lookups find the event before it.
				publishEvent(t, nc, "ledger.0001."+events.ExecSubject(events.DefaultTenant, before.ExecutionID), before.ExecutionID, events.TypeExecutionFailed, "[]")
			}
			if outside {
				nc, err := nats.Connect(opts.NATS.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				publish(nc)
				untilNotReady(t, book)
				closeBook(t, book)
			} else {
				closeBook(t, book)
				server, err := natsserver.Start(within(t), natsserver.Options{StoreDir: filepath.Join(opts.DataDir, "jetstream"), NoSync: true, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				nc, err := server.Conn("raw")
				if err != nil {
					t.Fatal(err)
				}
				publish(nc)
				nc.Close()
				server.Close()
			}

			if err := projections.Remove(filepath.Join(opts.DataDir, "projections.db")); err != nil { // a new version rebuilds the projections
				t.Fatal(err)
			}
			book = start(t, opts)
			untilNotReady(t, book)
			if list, _ := book.Damage(); list[0].Stream != "LEDGER-0001" || list[0].First == 0 {
				t.Errorf("found %+v", list)
			}
			_, err := book.Submit(within(t), embed.Script{Code: "1"})
			wantError(t, err, "position", "cannot be read", "--accept-damage")
			if status, body := request(book, http.MethodGet, "/api/executions/"+ids[0], ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "cannot be read") {
				t.Errorf("the run is answered %d: %s", status, body)
			}
			closeBook(t, book)

			accepting := opts
			accepting.Storage.AcceptDamage = true
			book = start(t, accepting)
			if outside {
				for _, id := range ids {
					awaitEvent(t, book, id, events.TypeExecutionFailed)
				}
			}
			for range 2 {
				if err := book.Ready(within(t)); err != nil {
					t.Fatal(err)
				}
				if got, _ := completes(t, book, embed.Script{Code: "40 + 2", Session: "s"}); got != "42" {
					t.Errorf("a run answers %s", got)
				}
				if got, err := book.Wait(within(t), before.ExecutionID); err != nil || got.Status != events.StatusCompleted {
					t.Errorf("the run before: %s, %v", got.Status, err)
				}
				for path, want := range map[string]int{"/readyz": 200, "/api/executions": 200, "/api/executions/" + before.ExecutionID + "/events": 200, "/api/executions/" + ids[0]: 404} {
					if status, body := request(book, http.MethodGet, path, ""); status != want {
						t.Errorf("%s is answered %d: %s", path, status, body)
					}
				}
				var lost events.Lost
				ended := 0
				for _, e := range allEvents(t, book) {
					if d, ok := e.Data.(*events.LedgerVolumeOpened); ok {
						lost = d.Losses(e.Seq)
					}
					if d := events.EndingOf(e.Data); d != nil && slices.Contains(ids, d.ExecutionID) && d.Reason == ledger.ReasonRequestUnreadable {
						ended++
					}
				}
				if n := spans.Between(lost, 1, 1000); n != 4 || spans.Between(lost.Missing(), 1, 1000) != map[bool]uint64{true: 0, false: 4}[outside] {
					t.Errorf("lost are %+v", lost)
				}
				if outside && ended != len(ids) {
					t.Errorf("%d of %d runs have ended", ended, len(ids))
				}
				r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}})
				// On the embedded server the messages are removed, perhaps before they were hashed.
				proven := !slices.ContainsFunc(r.Lost, func(l audit.LostPositions) bool { return !l.Proven }) && r.Incomparable == 0
				if err != nil || !r.OK || len(r.Lost) == 0 || outside && !proven {
					t.Errorf("verify: %v\n%s", err, r)
				}
				closeBook(t, book)
				book = start(t, opts) // the flag is needed once
			}
			verified := func(what string, err error, v embed.VerifyOptions, lost bool) {
				t.Helper()
				v.Keys = []string{key}
				var r *embed.Report
				if err == nil {
					r, err = embed.Verify(within(t), v)
				}
				if err != nil || !r.OK || lost && len(r.Lost) == 0 || outside && slices.ContainsFunc(r.Lost, func(l audit.LostPositions) bool { return !l.Proven }) {
					t.Errorf("verify %s: %v\n%s", what, err, r)
				}
			}
			exports := t.TempDir()
			export := func(name string, x embed.ExportOptions, lost bool) {
				t.Helper()
				x.Dir = filepath.Join(exports, name)
				_, err := embed.Export(within(t), x)
				verified(name, err, embed.VerifyOptions{Export: x.Dir}, lost)
			}
			export("all", embed.ExportOptions{Server: getFrom(book), Blobs: true}, true)
			export("a session", embed.ExportOptions{Server: getFrom(book), Session: "s"}, false)
			export("a run", embed.ExportOptions{Server: getFrom(book), Execution: before.ExecutionID}, false)
			if !outside {
				closeBook(t, book)
				verified("the directory", nil, embed.VerifyOptions{DataDir: opts.DataDir}, true)
				export("all of the directory", embed.ExportOptions{DataDir: opts.DataDir}, true)
			}
		})
	}
}

// withUnreadable returns the options of a closed ledger on an outside server whose last message
// is not an event, and a connection to that server.
func withUnreadable(t *testing.T) (embed.Options, *nats.Conn) {
	t.Helper()
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: outsideNATS(t)}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	nc, err := nats.Connect(opts.NATS.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	publishRequest(t, nc, events.NewID(time.Now()), events.TypeExecutionRequested, "{garbage")
	return opts, nc
}

// A loss is not accepted if another process appended to the ledger, or rotated it, after the loss
// was determined. No volume is sealed then, and the next acceptance works.
func TestAcceptAfterAnotherProcessWrote(t *testing.T) {
	t.Parallel()
	opts, _ := withUnreadable(t)

	stale := func(volume, first int) {
		t.Helper()
		plan := fmt.Sprintf(`{"volume":%d,"first":%d,"lost":[{"from":%d,"to":%d,"named_at":%d,"unreadable":true}]}`, volume, first, first-1, first-1, first)
		if err := os.WriteFile(filepath.Join(opts.DataDir, "accepting.json"), []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		book, err := embed.Start(within(t), opts)
		if err == nil {
			closeBook(t, book)
		}
		wantError(t, err, "written to after its loss was determined", "--accept-damage")
	}
	stale(2, 3)
	book := start(t, opts)
	untilNotReady(t, book)
	if list, more := book.Damage(); len(list) != 1 || more != 0 || !strings.Contains(list[0].What, "cannot be read") {
		t.Errorf("found %v", list)
	}
	closeBook(t, book)
	accepting := opts
	accepting.Storage.AcceptDamage = true
	book = start(t, accepting)
	completes(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	stale(2, 3) // as if the other process had rotated
	book = start(t, opts)
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

// The next start completes an interrupted acceptance after any of its steps. The loss is recorded
// once.
func TestAcceptOutsideIsFinished(t *testing.T) {
	t.Parallel()
	opts, nc := withUnreadable(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(within(t), "LEDGER-0001")
	if err != nil {
		t.Fatal(err)
	}
	config, first := stream.CachedInfo().Config, stream.CachedInfo().State.LastSeq+1
	plan := fmt.Sprintf(`{"volume":2,"first":%d,"lost":[{"from":%d,"to":%d,"named_at":%d,"unreadable":true}]}`, first, first-1, first-1, first)
	config.Sealed = true
	if _, err := js.UpdateStream(within(t), config); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		// In the first round the loss is not recorded yet; in the others only the plan remains.
		if err := os.WriteFile(filepath.Join(opts.DataDir, "accepting.json"), []byte(plan), 0o600); err != nil {
			t.Fatal(err)
		}
		book := start(t, opts)
		if err := book.Ready(within(t)); err != nil {
			t.Error(err)
		}
		completes(t, book, embed.Script{Code: "1"})
		named := 0
		for _, e := range allEvents(t, book) {
			if d, ok := e.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
				named++
			}
		}
		if named != 1 {
			t.Errorf("the loss is recorded %d times", named)
		}
		// The next acceptance finds newer volumes.
		if status, body := request(book, http.MethodPost, "/api/ledger/volumes/seal", ""); status != http.StatusOK {
			t.Errorf("sealing a volume is answered %d %s", status, body)
		}
		closeBook(t, book)
	}
}

// Another server that runs while the loss is accepted stays read-only until its restart. After
// that it has the recorded loss too.
func TestAcceptBesideAnotherServer(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	accepting, opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, Storage: embed.StorageOptions{AcceptDamage: true}}, embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}}
	book := start(t, opts)
	before := run(t, book, embed.Script{Code: "1"})
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publishRequest(t, nc, events.NewID(time.Now()), events.TypeExecutionRequested, "{garbage")
	untilNotReady(t, book)

	completes(t, start(t, accepting), embed.Script{Code: "1"})
	_, err = book.Submit(within(t), embed.Script{Code: "1"})
	wantError(t, err, "cannot be read")
	closeBook(t, book)
	book = start(t, opts)
	completes(t, book, embed.Script{Code: "1"})
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
	if got, err := book.Wait(within(t), before.ExecutionID); err != nil || got.Status != events.StatusCompleted {
		t.Errorf("the run before: %s, %v", got.Status, err)
	}
}

// untilNotReady waits until damage is found.
func untilNotReady(t *testing.T, book *embed.Daybook) {
	t.Helper()
	ctx := within(t)
	for {
		if list, _ := book.Damage(); len(list) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("no damage is found")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// An event type of a newer version is not damage: the run waits for a server that knows the type.
func TestNewerRequestIsNoDamage(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: outsideNATS(t)}}
	book := start(t, opts)
	nc, err := nats.Connect(opts.NATS.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publishRequest(t, nc, events.NewID(time.Now()), "daybook.execution.requested.v2", `{"code":5}`)
	for range 2 {
		completes(t, book, embed.Script{Code: "1"})
		if err := book.Ready(within(t)); err != nil {
			t.Error(err)
		}
		if list, more := book.Damage(); len(list)+more != 0 {
			t.Errorf("found %v", list)
		}
		closeBook(t, book)
		book = start(t, opts)
	}
	completes(t, book, embed.Script{Code: "1"})
	if list, more := book.Damage(); len(list)+more != 0 {
		t.Errorf("found %v", list)
	}
}
