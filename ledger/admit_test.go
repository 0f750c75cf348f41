package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// admission counts the calls of Options.Admit and of its result.
type admission struct {
	asked  int
	done   []uint64
	refuse error
}

func (a *admission) admit(_ context.Context, s *ledger.Submission) (func(uint64), error) {
	a.asked++
	if a.refuse != nil {
		return nil, a.refuse
	}
	s.Context, s.Warnings = nil, append(s.Warnings, "admitted")
	return func(seq uint64) { a.done = append(a.done, seq) }, nil
}

// A run is admitted once, after all other checks. A repeated one is not admitted again.
func TestAdmit(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	var a admission
	b := openTestLedgerOn(t, store, ledger.Options{Admit: a.admit})
	key := events.Hash([]byte("a context"))
	valid := ledger.Submission{Tenant: tenant, Code: "1", IdempotencyKey: "k", Actor: alice, Context: &events.ContextRef{Key: key, SessionID: key, Kind: events.ContextSession}, Warnings: []string{"given"}}
	other, invalid, wide := valid, valid, valid
	other.Code, invalid.Code, wide.HeapMemoryMaxMB = "2", "\x00", new(1<<20)
	overQuota := &ledger.Error{Code: ledger.CodeExhausted, Message: "over the limit"}

	a.refuse = overQuota
	if _, err := b.Submit(t.Context(), invalid); ledger.CodeOf(err) != ledger.CodeInvalid {
		t.Errorf("code with a NUL byte: %v", err)
	}
	if _, err := b.Submit(t.Context(), wide); ledger.CodeOf(err) != ledger.CodeInvalid || a.asked != 0 {
		t.Errorf("a heap limit out of range: %v, asked %d times", err, a.asked)
	}
	if _, err := b.Submit(t.Context(), valid); !errors.Is(err, overQuota) || err.Error() != overQuota.Message || a.asked != 1 {
		t.Errorf("refused: %v, asked %d times", err, a.asked)
	}
	a.refuse = &events.UnwritableError{Reason: "the disk is full"}
	if _, err := b.Submit(t.Context(), valid); ledger.CodeOf(err) != ledger.CodeUnavailable || ledger.Temporary(err) || err.Error() != "submit the run: "+a.refuse.Error() {
		t.Errorf("refused by the disk: %v", err)
	}
	if n := len(b.all()); n != 0 || len(a.done) != 0 {
		t.Errorf("refused runs left %d events and %v", n, a.done)
	}

	a = admission{}
	r, err := b.Submit(t.Context(), valid)
	if err != nil || r.Repeated || !cmp.Equal(r.Warnings, []string{"given", "admitted"}) || !cmp.Equal(a, admission{asked: 1, done: []uint64{r.Seq}}, cmp.AllowUnexported(a)) {
		t.Fatalf("admitted: %+v, %v, %+v", r, err, a)
	}
	if req := b.request(r.ExecutionID); req.Context != nil {
		t.Errorf("the removed context is recorded: %+v", req.Context)
	}
	a = admission{refuse: overQuota}
	if again, err := b.Submit(t.Context(), valid); err != nil || !again.Repeated || again.ExecutionID != r.ExecutionID {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if _, err := b.Submit(t.Context(), other); ledger.CodeOf(err) != ledger.CodeConflict || a.asked != 0 {
		t.Errorf("the key for another request: %v, asked %d times", err, a.asked)
	}

	// Of two concurrent equal requests, one counts.
	a = admission{}
	valid.IdempotencyKey = "raced"
	var first ledger.Receipt
	raced := ledger.New(&interposed{store, func(context.Context, events.Event) error {
		first, err = b.Submit(t.Context(), valid)
		return err
	}}, ledger.Options{Admit: a.admit})
	if r, err = raced.Submit(t.Context(), valid); err != nil || !r.Repeated || r.ExecutionID != first.ExecutionID || !cmp.Equal(a.done, []uint64{first.Seq, 0}) {
		t.Errorf("second with a key: %+v, %v, %+v", r, err, a)
	}
	a = admission{}
	valid.IdempotencyKey, valid.Heap, valid.RequireHeap = "", heapA, true
	if _, err := b.Submit(t.Context(), valid); ledger.CodeOf(err) != ledger.CodeNotFound || !cmp.Equal(a.done, []uint64{0}) {
		t.Errorf("without its heap: %v, %+v", err, a)
	}
}

// A prompt is recorded only with a run that is admitted. The run is admitted once.
func TestAdmitPrompt(t *testing.T) {
	t.Parallel()
	var a admission
	b := openTestLedger(t, ledger.Options{Admit: a.admit})
	session, _, err := b.OpenAgentSession(t.Context(), ledger.AgentOpening{
		Tenant: tenant, Workspace: events.AgentWorkspace{Cwd: "/"}, Config: events.AgentConfig{Mode: events.AgentModeAsk}, Actor: alice,
	})
	if err != nil {
		t.Fatal(err)
	}
	opened := len(b.all())
	prompt := ledger.AgentPrompt{Tenant: tenant, Session: session, Blocks: "[]", ID: events.DerivedID(tenant, "p"), Run: &ledger.Submission{Code: "1"}, Actor: alice}
	invalid, again := prompt, prompt
	invalid.Run, again.Recorded = &ledger.Submission{Code: "1", HeapMemoryMaxMB: new(1 << 20)}, true
	a.refuse = &ledger.Error{Code: ledger.CodeExhausted, Message: "over the limit"}
	if done, err := b.Prompt(t.Context(), invalid); ledger.CodeOf(err) != ledger.CodeInvalid || a.asked != 0 || done != (ledger.PromptReceipt{}) {
		t.Errorf("invalid: %+v, %v, asked %d times", done, err, a.asked)
	}
	if done, err := b.Prompt(t.Context(), prompt); !errors.Is(err, a.refuse) || a.asked != 1 || done != (ledger.PromptReceipt{}) {
		t.Errorf("refused: %+v, %v, asked %d times", done, err, a.asked)
	}
	if n := len(b.all()); n != opened {
		t.Errorf("refused prompts left %d events", n-opened)
	}
	a = admission{}
	done, err := b.Prompt(t.Context(), prompt)
	if err != nil || a.asked != 1 || !cmp.Equal(a.done, []uint64{done.Seq}) {
		t.Fatalf("admitted: %+v, %v, %+v", done, err, a)
	}
	a = admission{refuse: a.refuse}
	if repeated, err := b.Prompt(t.Context(), again); err != nil || a.asked != 0 || repeated.ExecutionID != done.ExecutionID || repeated.Seq != done.Seq {
		t.Errorf("the same again: %+v, %v, asked %d times", repeated, err, a.asked)
	}
	again.Run = &ledger.Submission{Code: "otherwise"}
	if repeated, err := b.Prompt(t.Context(), again); err != nil || a.asked != 0 || repeated.ExecutionID != done.ExecutionID {
		t.Errorf("the same prompt with other code: %+v, %v, asked %d times", repeated, err, a.asked)
	}
	// The server exited after it recorded the prompt and before the run.
	again.ID = events.DerivedID(tenant, "q")
	a = admission{refuse: &ledger.Error{Code: ledger.CodeExhausted, Message: "over the limit"}}
	if _, err := b.Prompt(t.Context(), again); !errors.Is(err, a.refuse) || a.asked != 1 {
		t.Errorf("a prompt whose run is missing: %v, asked %d times", err, a.asked)
	}
}
