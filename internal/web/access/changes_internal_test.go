package access

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// view is a read side that applies events on demand of the test.
type view struct {
	mu      sync.Mutex
	upTo    uint64
	changed chan struct{}
	stalled error
}

func (v *view) Applied() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.upTo
}

func (v *view) NextCommit() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v *view) Damage() error { return nil }

func (v *view) StallError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.stalled
}

func (v *view) stall(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stalled = err
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *view) apply(upTo uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.upTo = upTo
	close(v.changed)
	v.changed = make(chan struct{})
}

// A tenant with too many unapplied changes waits, then is refused. Others are not.
func TestUnappliedChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &view{changed: make(chan struct{})}
		var u Changes
		seq := uint64(0)
		admit := func(tenant string, bytes int) error {
			appended, err := u.Admit(t.Context(), v, tenant, bytes)
			if err == nil {
				seq++
				appended(seq)
			}
			return err
		}
		for range maxUnapplied {
			if err := admit("loud", 1); err != nil {
				t.Fatal(err)
			}
		}
		err := admit("loud", 1)
		if le, ok := err.(*ledger.Error); !ok || le.Code != ledger.CodeExhausted || le.RetryAfter != unappliedRetry || !strings.Contains(err.Error(), "nothing was recorded") {
			t.Errorf("a change too many: %v", err)
		}
		if err := admit("quiet", 10*maxUnappliedBytes); err != nil {
			t.Errorf("another tenant, one large change: %v", err)
		}
		if err := admit("quiet", 1); ledger.CodeOf(err) != ledger.CodeExhausted {
			t.Errorf("a change beside a large one: %v", err)
		}

		// The request of a queued turn never waits, and counts.
		u.Count(v, "turns", 10*maxUnappliedBytes)(seq)
		u.Count(v, "turns", 1)(seq)
		if err := admit("turns", 1); ledger.CodeOf(err) != ledger.CodeExhausted {
			t.Errorf("a change beside a large turn: %v", err)
		}
		for range 3 * maxUnapplied {
			u.Count(v, "turns", 1)(seq)
		}
		if n := len(u.backlogs["turns"].changes); n != 2*maxUnapplied {
			t.Errorf("%d changes are remembered", n)
		}

		// A waiting change is refused when the projections stall.
		stuck := make(chan error, 1)
		go func() { stuck <- admit("loud", 1) }()
		synctest.Wait()
		v.stall(&events.UnwritableError{Passes: true})
		if err := <-stuck; !errors.Is(err, v.stalled) {
			t.Errorf("a change that waited while the projections stalled: %v", err)
		}
		v.stall(nil)

		// A waiting change is admitted when earlier ones are applied.
		waited := make(chan error, 1)
		go func() { waited <- admit("loud", 1) }()
		synctest.Wait()
		v.apply(1)
		if err := <-waited; err != nil {
			t.Errorf("a change that waited: %v", err)
		}
		// A change whose append failed is removed from the backlog.
		v.apply(2)
		for range 3 {
			appended, err := u.Admit(t.Context(), v, "loud", 1)
			if err != nil {
				t.Fatalf("after a failed append: %v", err)
			}
			appended(0)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		v.apply(1) // nothing new
		if err := admit("loud", 1); err != nil {
			t.Error(err)
		}
		if _, err := u.Admit(left, v, "loud", 1); err == nil {
			t.Error("a client that has left is admitted")
		}

		// While nothing can be applied, changes up to the limit are recorded, and
		// further ones are refused at once.
		v.stall(&events.UnwritableError{Passes: true})
		began := time.Now()
		if err := admit("loud", 1); !errors.Is(err, v.stalled) || time.Since(began) > 0 {
			t.Errorf("a change too many while nothing can be applied: %v after %v", err, time.Since(began))
		}
		if err := admit("new", 1); err != nil {
			t.Errorf("a first change while nothing can be applied: %v", err)
		}
		v.stall(nil)

		// Tenants without unapplied changes are dropped.
		v.apply(seq)
		for i := range 2 * manyBacklogs {
			if err := admit(strings.Repeat("t", i), 1); err != nil {
				t.Fatal(err)
			}
			v.apply(seq)
		}
		if n := len(u.backlogs); n > manyBacklogs {
			t.Errorf("%d tenants are remembered", n)
		}
	})
}

// Events that runs record never wait.
func TestChangesOfClients(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data events.Data
		want bool
	}{
		"an edit":          {&events.HeapTagged{Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{"a": "b"}})}, true},
		"the tags of run":  {&events.HeapTagged{Edit: events.EditRun, Content: events.Plain(events.TagContent{})}, false},
		"a run":            {&events.ExecutionRequested{Content: events.Plain(events.RequestedContent{})}, true},
		"a queued turn":    {&events.ExecutionRequested{Turn: &events.Turn{}, Content: events.Plain(events.RequestedContent{})}, false},
		"a context":        {&events.ContextUpdated{Content: events.Plain(events.ContextContent{})}, true},
		"a prompt":         {&events.AgentPrompted{Content: events.Plain(events.PromptContent{})}, true},
		"an answer":        {&events.AgentAnswered{Content: events.Plain(events.AnswerContent{})}, false},
		"an intent":        {&events.SessionNamed{}, true},
		"its session":      {&events.SessionOpened{IntentSHA256: "h"}, false},
		"a start":          {&events.ExecutionStarted{}, false},
		"an end":           {&events.ExecutionCompleted{}, false},
		"a cancel":         {&events.ExecutionCancelRequested{}, false},
		"a collected heap": {&events.HeapCollected{}, false},
	} {
		if _, ok := ChangeSize(test.data); ok != test.want {
			t.Errorf("%s is held back: %v", name, ok)
		}
	}
}

// All texts that a client sends with a change count.
func TestSizesOfChanges(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1000)
	tags := map[string]string{"key": text}
	for name, data := range map[string]events.Data{
		"source":            &events.ExecutionRequested{Content: events.Plain(events.RequestedContent{Source: events.Body{Text: text}})},
		"source of a turn":  &events.ExecutionRequested{Turn: &events.Turn{}, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: text}})},
		"a stored source":   &events.ExecutionRequested{Content: events.Plain(events.RequestedContent{Source: events.Body{Blob: &events.BlobRef{Preview: text}}})},
		"tags of a run":     &events.ExecutionRequested{Content: events.Plain(events.RequestedContent{Tags: tags})},
		"tags":              &events.HeapTagged{Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: tags})},
		"a prompt":          &events.AgentPrompted{Content: events.Plain(events.PromptContent{Blocks: events.Body{Text: text}})},
		"an answer":         &events.AgentAnswered{Content: events.Plain(events.AnswerContent{Text: events.Body{Text: text}})},
		"a new session":     &events.AgentSessionCreated{Content: events.Plain(events.AgentWorkspace{Cwd: text})},
		"a session again":   &events.AgentSessionAttached{Content: events.Plain(events.AgentWorkspace{AdditionalDirectories: []string{text}})},
		"values of context": &events.ContextUpdated{Content: events.Plain(events.ContextContent{Custom: map[string]json.RawMessage{"k": json.RawMessage(text)}})},
	} {
		if size, _ := ChangeSize(data); size < changeBytes+len(text) {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}
