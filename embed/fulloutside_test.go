package embed_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
)

// An outside NATS server at its storage limit is a full disk: new runs are refused with the
// reason, readiness names it, and the server records again once there is space.
func TestOutsideServerAtItsStorageLimit(t *testing.T) {
	t.Parallel()
	tier.NightlyOnly(t, "TestServerAtItsStorageLimit in internal/store/jetstream, TestADiskWithoutRoom")
	url := limitedNATS(t, 64<<20)
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := start(t, opts)
	first := submit(t, book, embed.Script{Code: "6*7"})
	if e, err := book.Wait(within(t), first); err != nil || deref(e.Result) != "42" {
		t.Fatalf("%+v, %v", e, err)
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	filler, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "FILLER", Subjects: []string{"filler"}})
	if err != nil {
		t.Fatal(err)
	}
	underWay := submit(t, book, embed.Script{Code: "console.log('under way'); await new Promise(r => setTimeout(r, 1000)); 'done'"})
	for ctx, body := within(t), ""; !strings.Contains(body, "under way"); time.Sleep(20 * time.Millisecond) {
		if _, body = get(t, book.URL()+"/api/executions/"+underWay+"/output"); ctx.Err() != nil {
			t.Fatalf("the run does not print: %s", body)
		}
	}
	for err == nil {
		_, err = js.Publish(t.Context(), "filler", make([]byte, 900<<10))
	}

	const reason = "refuses to store more: it has reached its storage limit (max_file_store) (insufficient resources, code 10023); free some space there or raise the limit"
	for range 2 {
		began := time.Now()
		status, body := post(t, book.URL()+"/api/exec", `{"code":"1"}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(body, reason) || !strings.Contains(body, strings.TrimPrefix(url, "nats://")) {
			t.Errorf("a run is answered %d: %s", status, body)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the answer takes %v", took)
		}
	}
	if status, body := get(t, book.URL()+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
		t.Errorf("/readyz answers %d: %s", status, body)
	}
	if err := book.Unwritable(); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("Unwritable: %v", err)
	}
	if e, err := book.Wait(within(t), first); err != nil || deref(e.Result) != "42" {
		t.Errorf("the recorded run: %+v, %v", e, err)
	}
	if err := book.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	book = start(t, opts) // still without space

	if err := filler.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ctx, status := within(t), 0; status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		var body string
		if status, body = get(t, book.URL()+"/readyz"); ctx.Err() != nil {
			t.Fatalf("with space /readyz answers %s", body)
		}
	}
	if e := run(t, book, embed.Script{Code: "20+3"}); deref(e.Result) != "23" {
		t.Errorf("with space: %+v", e)
	}
	if e, err := book.Wait(within(t), underWay); err != nil || e.Status != events.StatusCompleted || deref(e.Result) != "done" {
		t.Errorf("the run that was in progress: %+v, %v", e, err)
	}
}
