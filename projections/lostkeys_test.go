package projections_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"daybook/events"
	"daybook/projections"
)

// present are the keys that exist.
type present map[string]bool

func (p present) ContentKey(id string) ([]byte, bool) { return nil, p[id] }

// sealedUnder returns readable content that the ledger holds encrypted under a key.
func sealedUnder[T any](key string, plain T) events.Content[T] {
	content := events.Plain(plain)
	content.Sealed = &events.EncryptedContent{KeyID: key}
	return content
}

// A key is missing whatever is encrypted under it, until it was shredded.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	s, err := projections.Open(t.Context(), projections.Options{Path: filepath.Join(t.TempDir(), "p.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := newMemoryLedger()
	session := created(1, "/", nil)
	session.Content = sealedUnder("directories", events.AgentWorkspace{Cwd: "/"})
	prompt, answer := prompted(1, "p", ""), answered(1, "p", "", false)
	prompt.Content, answer.Content = sealedUnder("prompt", events.PromptContent{}), sealedUnder("answer", events.AnswerContent{})
	ref := events.ContextRef{Key: events.ContextKey(tenant, events.ContextTransport, "c"), SessionID: sessionID(9), Kind: events.ContextTransport}
	heap := events.Hash([]byte("heap"))
	b.add(
		sealedRun(1, "s", "run", "1"), session, prompt, answer,
		&events.SessionOpened{SessionID: sessionID(2), Kind: events.SessionLogical, Content: sealedUnder("intent", events.SessionContent{Intent: "i"})},
		&events.ContextUpdated{ContextRef: ref, Content: sealedUnder("values", events.ContextContent{})},
		&events.ContextNoted{ContextRef: ref, Content: sealedUnder("notes", events.NotedContent{})},
		&events.HeapTagged{Heap: heap, Content: sealedUnder("tags", events.TagContent{}), Edit: events.EditSet},
	)
	keys := []string{"run", "directories", "prompt", "answer", "intent", "values", "notes", "tags"}
	if err := s.Apply(t.Context(), b.all()); err != nil {
		t.Fatal(err)
	}
	if lost, err := s.FindLostKeys(t.Context(), nil); err != nil || lost == nil || lost.Keys != len(keys) || lost.Runs != 1 || lost.Others != len(keys)-1 {
		t.Errorf("without keys: %+v, %v", lost, err)
	}
	all := present{}
	for _, missing := range keys {
		all[missing] = true
	}
	for _, missing := range keys {
		all[missing] = false
		lost, err := s.FindLostKeys(t.Context(), all)
		if err != nil || lost == nil || lost.Keys != 1 || lost.Runs+lost.Others != 1 {
			t.Errorf("without the key of %s: %+v, %v", missing, lost, err)
		} else if text := errors.Join(lost).Error(); !strings.Contains(text, "--without-keys") {
			t.Error(text)
		}
		all[missing] = true
	}
	if lost, err := s.FindLostKeys(t.Context(), all); err != nil || lost != nil {
		t.Errorf("with all keys: %+v, %v", lost, err)
	}
	n := len(b.all())
	b.add(&events.SessionShredded{SessionID: sessionID(2), Kind: events.SessionLogical, KeyIDs: keys})
	if err := s.Apply(t.Context(), b.all()[n:]); err != nil {
		t.Fatal(err)
	}
	if lost, err := s.FindLostKeys(t.Context(), nil); err != nil || lost != nil {
		t.Errorf("after the shredding: %+v, %v", lost, err)
	}
}
