package cli_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"daybook/embed"
)

const uuid = `[0-9a-f-]{36}`

// The commands about a webhook, from its registration to its deletion.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mended.Load() {
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer receiver.Close()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Slots: embed.SlotOptions{Total: 1}, Webhooks: embed.WebhookOptions{AllowPrivate: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	known := map[string]string{"url": book.URL(), "to": receiver.URL}
	play(t, known, []step{
		{args: `webhook list` + at, stdout: "WEBHOOK  STATE  POSITION  DEAD  URL  LAST ERROR\n"},
		{args: `webhook add mailto:me` + at, status: 2, stderr: "daybook: url must be the full address .*\n"},
		{args: `webhook add $to --type nonsense` + at, status: 2, stderr: "daybook: there is no event type \"nonsense\".*\n"},
		{args: `webhook add $to --after 999` + at, status: 2, stderr: "daybook: --after is 999, but the ledger ends at .*\n"},
		{args: `webhook add $to --type daybook.execution.completed.v1 --session s1` + at,
			stdout: "id      (?P<id>(?P<begin>[0-9a-f-]{20})[0-9a-f-]{16})\nsecret  whsec_[A-Za-z0-9+/]{43}=\n", stderr: "Keep the secret, .*not shown again.\n"},
		{args: `webhook list` + at, stdout: "WEBHOOK .*\n$id  active +\\d+ +0 +$to +-\n"},
		{args: `webhook dead $id` + at, stdout: "SEQUENCE +TYPE .*REASON\n"},
		{args: `webhook dead $begin` + at, stdout: "SEQUENCE +TYPE .*REASON\n"},
		{args: `webhook dead zz` + at, status: 2, stderr: "daybook: no webhook has an id that begins with \"zz\"\n"},
		{args: `webhook retry $id` + at, status: 2, stderr: "daybook: there is nothing to retry\n"},
		{args: `webhook retry $id 7` + at, status: 2, stderr: "daybook: the event at 7 is not a dead letter of this webhook\n"},
		{args: `webhook retry $id x` + at, status: 2, stderr: "daybook: sequences: .*not a position.*\n"},
		{args: `run -e 1 --session s1` + at, stdout: "1\n", stderr: ".*"},
		{eventually: true, args: `webhook list` + at, stdout: "WEBHOOK .*\n$id  disabled .*the receiver answered 410 Gone\n"},
	})
	mended.Store(true)
	play(t, known, []step{
		{args: `webhook retry $id` + at, stdout: "Retrying 0. \"daybook webhook dead $id\" lists the events that fail again.\n"},
		{eventually: true, args: `webhook list` + at, stdout: "WEBHOOK .*\n$id  active .* -\n"},
		{args: `webhook list --json` + at, stdout: `.*"state": ?"active".*` + "\n"},
		{args: `webhook remove $id` + at, stdout: "ok\n"},
		{args: `webhook remove $id` + at, status: 2, stderr: "daybook: Webhook '$id' not found\n"},
		{args: `webhook dead $id` + at, status: 2, stderr: "daybook: Webhook '$id' not found\n"},
	})
}

func TestSessionReplay(t *testing.T) {
	t.Parallel()
	book := serve(t)
	play(t, map[string]string{"url": book.URL()}, []step{
		{args: `run -e 0` + at, stdout: "0\n", stderr: ".*"},
		{args: `run -e console.log("hi") --session told` + at, stdout: "hi\n", stderr: ".*"},
		{eventually: true, args: `session log told` + at, stdout: "INDEX .*\n0 .*"},
		{args: `session replay told --speed max` + at, stdout: `\{[^\n]*execution.requested.v1[^\n]*"replayed":true[^\n]*\}\n.*execution.output.v1.*session.entry_recorded.v1[^\n]*\n`},
		{args: `session replay told --speed 100 --from-entry 0 --to-entry 0 --max-pause 1ms` + at, stdout: `.*entry_recorded.*\n`},
		{args: `session replay told --speed max --subject replay.default.x` + at, stderr: "Published [4-9] events under replay.default.x.\n"},
		{args: `session replay told --subject events.default.x` + at, status: 2, stderr: "daybook: --subject must be a subject below replay.default., .*\n"},
		{args: `session replay told --speed max --from 1000000` + at, status: 2, stderr: "daybook: --from 1000000: no events start there: the ledger ends at position \\d+\n"},
		{args: `session replay told --speed max --from 2 --to 1` + at, status: 2, stderr: "daybook: --from 2: no events start there: the range ends at position 1\n"},
		{args: `session replay told --speed max --to 1` + at, stderr: "No events of the session are in this range, which ends at position 1.\n"},
		{args: `session replay told --from-entry 5` + at, status: 2, stderr: "daybook: the session has the entries 0 to 0; .*\n"},
		{args: `session replay nobody` + at, status: 2, stderr: "daybook: Session 'nobody' not found; \"daybook session list\" lists sessions\n"},
		{args: `session replay told --speed quick` + at, status: 2, stderr: "daybook: --speed must be max, or a factor .*\n"},
	})
}
