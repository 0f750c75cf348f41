package ledger_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/keyring"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// openEncryptedTestLedger returns a testLedger with encrypted sessions, and their keys.
func openEncryptedTestLedger(t *testing.T, opts ledger.Options) (*testLedger, *keyring.Ring) {
	t.Helper()
	keys, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opts.Keys, opts.EncryptNamedSessions = keys, true
	return openTestLedgerOn(t, storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{BlobGracePeriod: -1, Keys: keys}), opts), keys
}

// The host calls of an encrypted run can be replayed with the content key. Without it,
// neither the texts nor the hashes reveal the arguments and answers.
func TestEncryptedHostCalls(t *testing.T) {
	t.Parallel()
	const secret = "an-account-number"
	long := `"` + strings.Repeat(secret+" ", events.InlineBytes/len(secret)) + `"`
	for name, opts := range map[string]ledger.Options{"with bodies": {}, "with hashes only": {HostCallHashes: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, keys := openEncryptedTestLedger(t, opts)
			run := b.start(b.submit(ledger.Submission{Code: "call()", Session: "s"}), false)
			texts := [][2]string{{`{"of":"` + secret + `"}`, `"` + secret + `"`}, {long, long}}
			for i, text := range texts {
				if err := b.RecordCall(t.Context(), run, ledger.HostCall{Number: i + 1, Server: "bank", Tool: "balance", Arguments: []byte(text[0])}); err != nil {
					t.Fatal(err)
				}
				if err := b.RecordReturn(t.Context(), run, ledger.HostReturn{Number: i + 1, Outcome: events.HostOK, AnsweredAt: time.Now(), Result: []byte(text[1])}); err != nil {
					t.Fatal(err)
				}
			}
			stored, err := b.store.ReadRaw(t.Context(), 0, 100)
			if err != nil || len(stored) < 6 {
				t.Fatalf("%d events, %v", len(stored), err)
			}
			for _, m := range stored {
				for _, hint := range []string{secret, events.Hash([]byte(texts[0][0])), events.Hash([]byte(texts[0][1])), events.Hash([]byte(long))} {
					if bytes.Contains(m.Body, []byte(hint)) {
						t.Errorf("event %d reveals %s", m.Seq, hint)
					}
				}
			}
			calls, err := b.HostCalls(t.Context(), tenant, run.Plan.Request.ExecutionID)
			if err != nil || len(calls) != len(texts) {
				t.Fatalf("%d calls, %v", len(calls), err)
			}
			for i, c := range calls {
				same, err := c.HashArguments([]byte(texts[i][0]))
				if err != nil || same != c.ArgumentsSHA256 {
					t.Errorf("call %d does not match its arguments: %v", c.Number, err)
				}
				if other, err := c.HashArguments([]byte(`{}`)); err != nil || other == c.ArgumentsSHA256 {
					t.Errorf("call %d matches other arguments: %v", c.Number, err)
				}
				want := texts[i][1]
				if opts.HostCallHashes {
					want = ""
				}
				if text, err := c.Answer.Text(t.Context()); err != nil || string(text) != want {
					t.Errorf("answer %d: %.60q, %v", c.Number, text, err)
				}
			}
			// Without the key, arguments cannot be compared.
			keyless, err := ledger.New(b.store, ledger.Options{}).HostCalls(t.Context(), tenant, run.Plan.Request.ExecutionID)
			if err != nil || len(keyless) != len(texts) {
				t.Fatalf("%d calls, %v", len(keyless), err)
			}
			var answer *ledger.Error
			if hash, err := keyless[0].HashArguments([]byte(texts[0][0])); hash != "" || !errors.As(err, &answer) || answer.Code != ledger.CodeUnavailable {
				t.Errorf("without keys: %s, %v", hash, err)
			}
			if err := keys.Destroy(run.Plan.Request.ContentKeyID()); err != nil {
				t.Fatal(err)
			}
			if hash, err := calls[0].HashArguments([]byte(texts[0][0])); hash != "" || !errors.Is(err, events.ErrShredded) {
				t.Errorf("after the key was destroyed: %s, %v", hash, err)
			}
		})
	}
}

// Globals of an encrypted run are encrypted, inline and in blobs. A reader with the key can
// read them.
func TestEncryptedGlobals(t *testing.T) {
	t.Parallel()
	const secret = "an-account-number"
	b, _ := openEncryptedTestLedger(t, ledger.Options{})
	long := `"` + strings.Repeat(secret+" ", 2*events.InlineBytes/len(secret)) + `"`
	for _, value := range []string{`"` + secret + `"`, long} {
		body := b.submit(ledger.Submission{Code: "a", Session: "s", Globals: globals("a", value)}).Content.Value().Globals
		text := []byte(body.Text)
		if body.Blob != nil {
			var err error
			if text, err = b.store.Text(t.Context(), tenant, body.Blob.SHA256); err != nil {
				t.Fatal(err)
			}
		}
		if string(text) != `{"a":`+value+`}` {
			t.Errorf("the values are read as %.80s", text)
		}
	}
	stored, err := b.store.ReadRaw(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for _, m := range stored {
		for _, hint := range []string{secret, events.Hash([]byte(`{"a":` + long + `}`))} {
			if bytes.Contains(m.Body, []byte(hint)) {
				t.Errorf("event %d reveals %s", m.Seq, hint)
			}
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.Data.(*events.ExecutionRequested); ok {
			blobs += len(d.Content.Sealed.Blobs)
		}
	}
	if blobs != 1 {
		t.Errorf("%d blobs are named beside the encrypted content, want 1", blobs)
	}
}
