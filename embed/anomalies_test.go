package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/embed"
	"daybook/events"
)

// Events that another program writes to the ledger, of an unknown type or against a
// rule, are reported by the API and the metrics. The server stays ready.
func TestAnomaliesAreReported(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	book := start(t, embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Runs: embed.RunOptions{Elsewhere: true}})
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, text := get(t, book.URL()+"/metrics")
	if !strings.Contains(text, `daybook_anomalies{kind="rule_broken"} 0`) || strings.Contains(text, "daybook_anomaly_newest") {
		t.Error("metrics of a ledger without anomalies")
	}
	d := &events.ExecutionHandedBack{ExecutionID: events.NewID(time.Now()), Attempt: 1}
	subject := "ledger.0001." + events.Event{Tenant: events.DefaultTenant, Data: d}.Subject()
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	publishEvent(t, nc, subject, d.ExecutionID, events.TypeExecutionHandedBack, string(body))
	publishEvent(t, nc, subject, d.ExecutionID, "daybook.execution.paused.v1", `{}`)

	var report struct {
		Broken  int `json:"rule_broken"`
		Unknown int `json:"unknown_type"`
		Newest  []struct {
			Sequence     uint64
			Kind, Detail string
		}
	}
	for ctx := within(t); len(report.Newest) < 2; {
		_, text := get(t, book.URL()+"/api/ledger/anomalies")
		if err := json.Unmarshal([]byte(text), &report); err != nil || ctx.Err() != nil {
			t.Fatalf("%v, %v: %s", err, ctx.Err(), text)
		}
	}
	if report.Broken != 1 || report.Unknown != 1 || report.Newest[0].Kind != "unknown_type" || !strings.Contains(report.Newest[1].Detail, "never requested") {
		t.Errorf("%+v", report)
	}
	_, text = get(t, book.URL()+"/metrics")
	for _, want := range []string{`daybook_anomalies{kind="rule_broken"} 1`, `daybook_anomalies{kind="unknown_type"} 1`, "daybook_anomaly_newest_timestamp_seconds 1",
		fmt.Sprintf("daybook_anomaly_newest_position %d\n", report.Newest[0].Sequence)} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics without %s", want)
		}
	}
	if status, text := get(t, book.URL()+"/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, text)
	}
}
