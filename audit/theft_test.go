package audit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// A thief of the key shows an auditor another history, which the memory of the auditor keeps. After the key was
// retired, the report says what to do, and with the command of the guide the auditor continues from the last
// checkpoint before the theft.
func TestAfterATheft(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("awk is not installed")
	}
	first, firstKey := translogtest.NewSigner(t, firstOrigin)
	second, secondKey := translogtest.NewSigner(t, firstOrigin)
	rootSigner, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	for name, more := range map[string]int{"a longer ledger": 8, "a shorter ledger": 1} {
		h, thief := newHandmade(t), newHandmade(t)
		h.state(first, proof.StartOrigin, firstKey, func(st *proof.Statement) { st.Origin, st.Size = firstOrigin, 0 })
		h.state(first, proof.AddRoot, root, nil)
		h.request(events.DefaultTenant, 3)
		for _, m := range h.messages {
			leaf, err := proof.LeafHash(eventproof.RecordOf(m))
			h.must(err)
			h.must(thief.tree.Add(leaf))
			thief.messages = append(thief.messages, m)
		}
		thief.signers, thief.vkeys = h.signers.Clone(), h.vkeys

		dir := t.TempDir()
		seen := filepath.Join(dir, "seen")
		verify := func(h *handmade, want audit.Verdict, others ...proof.Checkpoint) *audit.Report {
			t.Helper()
			m, err := audit.OpenMemory(seen, []string{firstKey, root})
			h.must(err)
			opts := audit.VerifyOptions{Keys: m.Keys(), Known: append(m.Checkpoints(), others...), Remembered: len(m.Checkpoints()), Signers: m.Signers()}
			r, err := h.verifyAll(opts)["a server"]()
			if err != nil || r.Verdict != want {
				t.Fatalf("%s: %v, want %s\n%s", name, err, want, r)
			}
			h.must(m.Keep(r))
			return r
		}
		last := h.finish(first)
		verify(h, audit.Intact)
		thief.request(events.DefaultTenant, 6)
		thief.finish(first)
		verify(thief, audit.Intact)

		h.state(rootSigner, proof.IntroduceSigner, secondKey, nil)
		h.state(rootSigner, proof.RetireSigner, firstKey, func(st *proof.Statement) { st.Size = last.Size })
		h.request(events.DefaultTenant, more)
		h.finish(second)
		want := audit.Forked
		if h.last() < thief.last() {
			want = audit.RolledBack
		}
		for range 2 {
			if r := verify(h, want); !strings.Contains(r.String(), "was retired at fewer events") {
				t.Errorf("%s: the report does not say what to do\n%s", name, r)
			}
		}

		guide, err := os.ReadFile(filepath.Join("..", "docs", "guides", "auditing.md"))
		h.must(err)
		command := regexp.MustCompile(`(?s)n=[0-9]+\n *mv seen.*?> before\n`).Find(guide)
		if command == nil {
			t.Fatal("the guide has no command")
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", regexp.MustCompile(`n=[0-9]+`).ReplaceAllString(string(command), "n=5"))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "before"))
		h.must(err)
		before, err := audit.ParseKnown(raw)
		if err != nil || string(before.Note) != string(last.Note) {
			t.Fatalf("%q, %v, want %q", raw, err, last.Note)
		}
		verify(h, audit.Intact, before)
		verify(h, audit.Intact)
	}
}
