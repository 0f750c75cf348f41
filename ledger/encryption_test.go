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
	opts.Keys, opts.EncryptContent = keys, true
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
				answer := ledger.HostReturn{
					Number: i + 1, Outcome: events.HostOK, AnsweredAt: time.Now(), Result: []byte(text[1]),
					Fetch: &events.FetchRecord{
						Decisions:   []events.FetchDecision{{Allowed: true, PolicySHA256: "the-policy", Rule: "data.mcp.fetch.allow", Status: 200}},
						RequestBody: &events.FetchBody{SHA256: events.Hash([]byte(text[0])), Size: int64(len(text[0]))}, ResponseBody: &events.FetchBody{SHA256: events.Hash([]byte(text[1])), Size: 5},
					},
					Requests: []events.FetchRequest{{Method: "GET", URL: "https://bank.example/" + secret}},
				}
				if err := b.RecordReturn(t.Context(), run, answer); err != nil {
					t.Fatal(err)
				}
				if answer.Fetch.ResponseBody.SHA256 != events.Hash([]byte(text[1])) {
					t.Error("the caller's record was changed")
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
			if last := string(stored[len(stored)-1].Body); !strings.Contains(last, "the-policy") {
				t.Errorf("the decision is not readable: %s", last)
			}
			control := b.control(run.Plan.Request.ExecutionID)
			returned, ok := control[len(control)-1].Data.(*events.HostReturned)
			if !ok || returned.Fetch.ResponseBody.Size != 5 || (returned.Content.Value().Requests == nil) != opts.HostCallHashes {
				t.Errorf("recorded %+v", control[len(control)-1].Data)
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

// The tags that stay when a client deletes others stay encrypted under the same key.
func TestDeletedTagsStayEncrypted(t *testing.T) {
	t.Parallel()
	const secret = "an-account-number"
	b, keys := openEncryptedTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Code: "1", Session: "s", Tags: map[string]string{"account": secret, "other": "x"}})
	heap := b.stored("h")
	b.end(req, events.StatusCompleted, heap)
	seq, err := b.DeleteTags(t.Context(), tenant, heap, []string{"other"}, alice)
	if err != nil {
		t.Fatal(err)
	}
	edits := b.edits(heap)
	last := edits[len(edits)-1]
	if len(edits) != 2 || last.Content.Value().Tags["account"] != secret || events.ContentKeyID(last) != req.ContentKeyID() {
		t.Errorf("%d edits, the last %+v", len(edits), last)
	}
	stored, err := b.store.ReadRaw(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range stored {
		if bytes.Contains(m.Body, []byte(secret)) {
			t.Errorf("event %d reveals the tag: %s", m.Seq, m.Body)
		}
	}
	if err := keys.Destroy(req.ContentKeyID()); err != nil {
		t.Fatal(err)
	}
	if again, err := b.DeleteTags(t.Context(), tenant, heap, nil, alice); err != nil || again != seq {
		t.Errorf("delete tags that were shredded: event %d, %v", again, err)
	}
}

// What a person types in an ACP or a logical session, and without a session, is encrypted
// under the key of that. A reader with the key can read it.
func TestEncryptedSessions(t *testing.T) {
	t.Parallel()
	const secret = "an-account-number"
	b, keys := openEncryptedTestLedger(t, ledger.Options{})
	workspace := events.AgentWorkspace{Cwd: "/home/" + secret, AdditionalDirectories: []string{"/srv/" + secret}}
	agent, _, err := b.OpenAgentSession(t.Context(), ledger.AgentOpening{Tenant: tenant, Workspace: workspace, Config: events.AgentConfig{Mode: events.AgentModeAsk}, Actor: alice})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.AttachAgentSession(t.Context(), tenant, events.AgentSessionAttached{SessionID: agent, Content: events.Plain(workspace), Actor: alice}); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat(secret+" ", 2*events.InlineBytes/len(secret))
	for _, text := range []string{secret, long} {
		prompt, err := b.Prompt(t.Context(), ledger.AgentPrompt{Tenant: tenant, Session: agent, Blocks: `[{"type":"text","text":"` + text + `"}]`, Title: secret, Run: &ledger.Submission{Code: text}, Actor: alice})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.AnswerCommand(t.Context(), tenant, agent, prompt.PromptID, text, false); err != nil {
			t.Fatal(err)
		}
	}
	logical := b.open("intent " + secret)
	if again := b.open("intent " + secret); again != logical {
		t.Errorf("the intent opens session %s, then %s", logical, again)
	}
	b.submit(ledger.Submission{Code: secret, LogicalSession: logical, FileName: secret + ".ts"})
	b.submit(ledger.Submission{Code: secret, FileName: secret + ".ts"})
	if _, err := b.SetTags(t.Context(), tenant, b.stored("heap"), map[string]string{"account": secret}, alice); err != nil {
		t.Fatal(err)
	}
	stored, err := b.store.ReadRaw(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	intent := "intent " + secret
	for _, m := range stored {
		for _, hint := range []string{secret, events.Hash([]byte(secret)), events.Hash([]byte(intent)), events.IntentKey(tenant, intent)} {
			if bytes.Contains(m.Body, []byte(hint)) || strings.Contains(m.Subject, hint) {
				t.Errorf("event %d reveals %s: %.300s", m.Seq, hint, m.Body)
			}
		}
	}
	owners := map[string]string{agent: "", logical: "", events.NoSessionID(tenant): ""}
	for owner := range owners {
		id, ok := keys.Find(tenant, owner)
		if !ok {
			t.Fatalf("%s has no key", owner)
		}
		owners[owner] = id
	}
	for _, e := range b.all() {
		want := ""
		switch d := e.Data.(type) {
		case *events.ExecutionRequested:
			want = owners[events.NoSessionID(tenant)]
			if d.Turn != nil {
				want = owners[d.Turn.SessionID]
			}
		case *events.AgentSessionCreated, *events.AgentSessionAttached, *events.AgentPrompted, *events.AgentAnswered:
			want = owners[agent]
		case *events.SessionOpened:
			if d.Kind == events.SessionLogical {
				want = owners[logical]
			}
		case *events.HeapTagged:
			want = owners[events.NoSessionID(tenant)]
		}
		if got := events.ContentKeyID(e.Data); got != want {
			t.Errorf("event %d, %s, is encrypted under %q, want %q", e.Seq, e.Type, got, want)
		}
	}
}

// Sessions whose intents were recorded before encryption was turned on are found by them, and
// those of later ones after it was turned off.
func TestIntentsWithAndWithoutEncryption(t *testing.T) {
	t.Parallel()
	b, keys := openEncryptedTestLedger(t, ledger.Options{})
	plain := openTestLedgerOn(t, b.store, ledger.Options{Keys: keys})
	early, late := plain.open("early"), b.open("late")
	if got := b.open("early"); got != early {
		t.Errorf("an intent of before opens %s, not %s", got, early)
	}
	if got := plain.open("late"); got != late {
		t.Errorf("a later intent opens %s, not %s", got, late)
	}
}

// The hash of the idempotency key of a reset is keyed, so that guesses of it cannot be tested. A
// repeated reset is found by hashes of both forms, until the key is destroyed.
func TestResetsWithKeyedHashes(t *testing.T) {
	t.Parallel()
	b, keys := openEncryptedTestLedger(t, ledger.Options{})
	plain := openTestLedgerOn(t, b.store, ledger.Options{Keys: keys})
	session := b.open("a session")
	reset := func(b *testLedger, key string) ledger.ResetResult {
		t.Helper()
		done, err := b.ResetSession(t.Context(), ledger.Reset{Tenant: tenant, SessionID: session, IdempotencyKey: key, Actor: alice})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	early, late := reset(plain, "early"), reset(b, "late")
	for _, again := range []struct {
		in   *testLedger
		key  string
		want uint64
	}{{b, "early", early.Seq}, {plain, "early", early.Seq}, {b, "late", late.Seq}, {plain, "late", late.Seq}} {
		if done := reset(again.in, again.key); !done.Repeated || done.Seq != again.want {
			t.Errorf("the reset %q again: %+v", again.key, done)
		}
	}
	stored, err := b.store.ReadRaw(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range stored {
		if bytes.Contains(m.Body, []byte(events.Hash([]byte("daybook reset\x00"+tenant+"\x00late")))) {
			t.Errorf("event %d has the plain hash: %s", m.Seq, m.Body)
		}
	}
	ids, err := keys.Retire(tenant, session)
	if err != nil || len(ids) != 1 {
		t.Fatalf("%q, %v", ids, err)
	}
	if done := reset(b, "late"); !done.Repeated {
		t.Errorf("the key is retired: %+v", done)
	}
	if err := keys.Destroy(ids[0]); err != nil {
		t.Fatal(err)
	}
	if done := reset(b, "late"); done.Repeated || done.Seq == late.Seq {
		t.Errorf("the key is destroyed: %+v", done)
	}
	if done := reset(b, "early"); !done.Repeated {
		t.Errorf("a plain hash: %+v", done)
	}
}

// An edit that repeats content falls under the key of that content, unless a shred is about to
// destroy the key or has destroyed it.
func TestUseKeyOfContent(t *testing.T) {
	t.Parallel()
	b, keys := openEncryptedTestLedger(t, ledger.Options{})
	first, done, err := b.UseKeyOfContent(tenant, "")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if _, err := keys.Retire(tenant, events.NoSessionID(tenant)); err != nil {
		t.Fatal(err)
	}
	got, done, err := b.UseKeyOfContent(tenant, first)
	if err != nil || got != first {
		t.Fatalf("key %s, %v", got, err)
	}
	done()
	second, done, err := b.UseKeyOfContent(tenant, "")
	if err != nil || second == first {
		t.Fatalf("new content falls under key %s, %v", second, err)
	}
	done()
	heap := b.stored("heap")
	set := func(want string) {
		t.Helper()
		if _, err := b.SetTags(t.Context(), tenant, heap, map[string]string{"a": "b"}, alice); err != nil {
			t.Fatal(err)
		}
		edits := b.edits(heap)
		if got := events.ContentKeyID(edits[len(edits)-1]); got != want {
			t.Errorf("tags fall under key %s, want %s", got, want)
		}
	}
	set(second)
	ids, err := keys.Retire(tenant, events.NoSessionID(tenant))
	if err != nil || len(ids) != 2 {
		t.Fatalf("%q, %v", ids, err)
	}
	set(second)
	if err := keys.Settle(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	var refused *ledger.Error
	if _, _, err := b.UseKeyOfContent(tenant, first); !errors.As(err, &refused) || refused.Code != ledger.CodeUnavailable {
		t.Errorf("a key that is being destroyed: %v", err)
	}
	third, done, err := b.UseKeyOfContent(tenant, "")
	if err != nil {
		t.Fatal(err)
	}
	done()
	set(third)
	if err := keys.Destroy(first); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.UseKeyOfContent(tenant, first); !errors.Is(err, events.ErrShredded) {
		t.Errorf("a destroyed key: %v", err)
	}
}
