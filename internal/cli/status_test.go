package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// "daybook status" shows the reason of /readyz if the server is not ready.
func TestStatusOfAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"/readyz": `{"status":"ready"}`, "/api/ledger/damage": `{"damaged":false,"read_only":false,"findings":[],"more":0}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		if answers[r.URL.Path] == "" || r.URL.Path == "/readyz" && answers["full"] != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":503,"detail":"not ready: the disk is full; delete files"}`))
			return
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	known := map[string]string{"url": server.URL}
	play(t, known, []step{
		{args: `status` + at, stdout: "No damage found in the ledger.\nThe scrub does not run.\n"},
		{args: `status --json` + at, stdout: `\{"ready":true,.*\}\n`},
		{args: `status --help`, stdout: ".*Exit status:\n.*  0  .*  1  .*  2  .*  5  .*"},
	})
	answers["/api/ledger/anomalies"] = `{"rule_broken":0,"unknown_type":0,"newest":[]}`
	play(t, known, []step{{args: `status` + at, stdout: "No damage found in the ledger.\nThe scrub does not run.\n"}})
	answers["/api/ledger/anomalies"] = `{"rule_broken":1,"unknown_type":6,"advice":"report it","newest":[` +
		`{"sequence":17,"kind":"unknown_type","type":"daybook.execution.paused.v1","time":"2026-11-21T09:30:00.125Z","tenant":"acme"},` +
		`{"sequence":9,"kind":"rule_broken","type":"daybook.session.entry_recorded.v1","time":"2026-11-21T09:30:00Z","tenant":"acme","detail":"entry \u001b[2J is missing"}` +
		strings.Repeat(`,{"sequence":1,"kind":"unknown_type","type":"x","time":"2026-11-21T09:30:00Z","tenant":"acme"}`, 5) + `]}`
	play(t, known, []step{
		{args: `status` + at, stdout: "No damage found in the ledger.\n" +
			"Anomalies: 1 event with a broken rule, 6 events of an unknown type. Answers ignore their effect. The newest:\n" +
			"  position 17, tenant acme, 2026-11-21T09:30:00Z, daybook.execution.paused.v1: unknown type\n" +
			"  position 9, tenant acme, 2026-11-21T09:30:00Z, daybook.session.entry_recorded.v1: entry [^\x1b]+ is missing\n" +
			"(  position 1, [^\n]+\n){3}" +
			"What to do: report it.\nThe scrub does not run.\n"},
		{args: `status --json` + at, stdout: `\{"ready":true,.*"anomalies":\{"rule_broken":1,"unknown_type":6,"newest":\[\{"sequence":17,.*\}\n`},
	})
	delete(answers, "/api/ledger/anomalies")
	answers["/readyz"] = `{"status":"ready","cosigned":{"size":0}}`
	play(t, known, []step{{args: `status` + at, stdout: "No damage found in the ledger.\nToo few witnesses have cosigned a checkpoint yet.\nThe scrub does not run.\n"}})
	answers["/readyz"] = `{"status":"ready","cosigned":{"size":12,"time":"2026-11-21T09:30:00Z","age_seconds":5}}`
	play(t, known, []step{
		{args: `status` + at, stdout: "No damage found in the ledger.\nWitnesses cosigned the first 12 events; they knew no larger checkpoint at 2026-11-21T09:30:00Z, [-0-9hms]+ ago.\nThe scrub does not run.\n"},
		{args: `status --json` + at, stdout: `\{"ready":true,.*"cosigned":\{"size":12,"time":"2026-11-21T09:30:00Z"\}\}\n`},
	})
	answers["/readyz"] = `{"status":"ready","unsigned":"no statement introduces its key \u001b[2J","cosigned":{"size":0,"refusals":{"a":"it does not know \u001b[2J the key"},"failures":{"b\u001b":"it does not answer within 10s","c":"the cosignature is of 2020\u001b"}}}`
	play(t, known, []step{
		{args: `status` + at, stdout: "No damage found in the ledger.\nThis server signs no checkpoints: no statement introduces its key [^\x1b]+\\.\nToo few witnesses have cosigned a checkpoint yet.\n" +
			"The witness \"a\" refuses the checkpoints of this server: it does not know [^\x1b]+ the key\\.\n" +
			"The witness \"b[^\x1b]+\" does not cosign the checkpoints of this server: it does not answer within 10s\\.\n" +
			"The witness \"c\" does not cosign the checkpoints of this server: the cosignature is of 2020[^\x1b]+\\.\nThe scrub does not run.\n"},
		{args: `status --json` + at, stdout: `\{"ready":true,.*"unsigned":"no statement .*"failures":\{"b.*\}\}\}\n`},
	})
	answers["full"] = "yes"
	play(t, known, []step{
		{args: `status` + at, status: 1, stdout: "NOT READY: the disk is full; delete files.\nThe scrub does not run.\n"},
		{args: `status --json` + at, status: 1, stdout: `\{"ready":false,"not_ready":"the disk is full; delete files",.*\}\n`},
	})
}

// The headline is that of the current findings, not that of findings which have ended.
func TestStatusOfDamage(t *testing.T) {
	t.Parallel()
	report := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Daybook-Api", "1")
		switch r.URL.Path {
		case "/api/ledger/damage":
			_, _ = w.Write([]byte(report))
		case "/readyz":
			_, _ = w.Write([]byte(`{"status":"ready"}`))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	const (
		differs = `{"radius":"run","run":{"tenant":"acme","execution_id":"e1"},"what":"the replay differs","by":"scrub","time":"2026-11-21T09:30:00Z"}`
		damaged = `{"radius":"blob","blob":{"tenant":"acme","kind":"heap","sha256":"a3"},"what":"a chunk is missing","by":"scrub","time":"2026-11-21T09:30:00Z"`
		ended   = damaged + `,"ended":"2026-11-21T09:31:00Z","repair":"stored again"}`
	)
	for _, test := range []struct {
		findings string
		more     int
		want     string
	}{
		{differs, 0, "DIFFERENT: .*\n  execution e1 of tenant acme: the replay differs\n"},
		{differs + "," + damaged + "}", 0, "DAMAGED: heaps or texts cannot be read; .*"},
		{ended + "," + differs, 0, "DIFFERENT: .*"},
		{ended, 1, "DAMAGED: heaps, texts or executions of other tenants; .*\n  and 1 more\nEnded at .*"},
		{"", 2, "DAMAGED: heaps, texts or executions of other tenants; .*\n  and 2 more\n"},
	} {
		report = fmt.Sprintf(`{"damaged":true,"read_only":false,"findings":[%s],"more":%d}`, test.findings, test.more)
		play(t, map[string]string{"url": server.URL}, []step{{args: `status` + at, status: 1, stdout: test.want + "The scrub does not run.\n"}})
	}
}
