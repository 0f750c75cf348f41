package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// copyOf returns a copy of an audit directory.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// The list of signers comes from the events. The file beside the ledger is a copy that changes no verdict: not
// one of another ledger, not an older one, and not a longer one.
func TestVerifyReadsTheSignersInTheEvents(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	first, origin := log.VKey(), log.Origin()
	older := log.Signers()
	second, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, store, 2)
	finish(t, log, store)
	list := log.Signers()
	_, foreignDir := newFilledSigned(t)
	foreign, err := translog.Dir(foreignDir).Signers()
	if err != nil {
		t.Fatal(err)
	}
	thief, stolen := translogtest.NewSigner(t, origin)
	forged := &proof.Signers{}
	started := forged.Next(proof.StartOrigin, stolen, 0)
	started.Origin = origin
	if started, err = started.Sign(thief); err != nil {
		t.Fatal(err)
	}
	if _, err := forged.Add(started.Note); err != nil {
		t.Fatal(err)
	}
	successor, successorKey := translogtest.NewSigner(t, origin+"/2")
	longer := list.Clone()
	next := longer.Next(proof.StartOrigin, successorKey, 1)
	next.Origin, next.Predecessor = origin+"/2", origin
	if next, err = next.Sign(successor); err != nil {
		t.Fatal(err)
	}
	if _, err := longer.Add(next.Note); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file []byte
		note string
	}{
		"a copy":                       {list.Bytes(), ""},
		"none":                         {nil, ""},
		"an older copy":                {older.Bytes(), ""},
		"the file of another ledger":   {foreign, "is not a copy"},
		"one that a thief signed":      {forged.Bytes(), "is not a copy"},
		"one with a made-up successor": {longer.Bytes(), "is not a copy"},
		"no list":                      {[]byte("x"), "was not used"},
	} {
		harmed := copyOf(t, dir)
		if err := os.WriteFile(filepath.Join(harmed, "signers"), tt.file, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, opts := range []audit.VerifyOptions{
			{Keys: []string{first}}, {Keys: []string{second}}, {Keys: []string{first}, Signers: older}, {Keys: []string{first, second}, Signers: list},
		} {
			opts.Dir = translog.Dir(harmed)
			r, found := verdict(t, store, opts)
			if r.Verdict != audit.Intact || r.Key != second || len(r.Origins) > 0 || !strings.Contains(strings.Join(r.Notes, "\n"), tt.note) || tt.note == "" && len(r.Notes) > 0 {
				t.Errorf("%s: %q\n%s", name, found, r)
			}
		}
	}
}

// newFilledSigned returns a ledger that is signed, and its audit directory.
func newFilledSigned(t *testing.T) (vkey, dir string) {
	t.Helper()
	dir, vkey = signed(t, newFilled(t))
	return vkey, dir
}

// A ledger that was set back to a state before a rotation is found with the first key: the new key signed
// more events, and the file beside the ledger has the statement of the first key about it.
func TestVerifyALedgerSetBackBeforeARotation(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	first := log.VKey()
	stored, err := store.ReadRaw(t.Context(), 0, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"}); err != nil {
		t.Fatal(err)
	}
	fill(t, store, 2)
	finish(t, log, store)
	setBack := newStore(t)
	for _, m := range stored {
		e, err := events.Decode(m.Seq, m.Message())
		if err == nil {
			_, err = setBack.Append(t.Context(), e, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r, found := verdict(t, setBack, audit.VerifyOptions{Keys: []string{first}, Dir: translog.Dir(dir)}); r.Verdict != audit.RolledBack {
		t.Errorf("%q\n%s", found, r)
	}
	if r, found := verdict(t, setBack, audit.VerifyOptions{Keys: []string{first}, Signers: log.Signers(), Dir: translog.Dir(dir)}); r.Verdict != audit.RolledBack || !strings.Contains(strings.Join(found, "\n"), "shorter than the one that was kept") {
		t.Errorf("with the list that was kept: %q\n%s", found, r)
	}
}

// Checkpoints beside the ledger that no key of it signed say nothing about the events, and neither do notes whose
// signatures do not hold: they are named as not counted. One that a key of the ledger signed counts.
func TestVerifyCountsOnlyOwnCheckpointsBesideTheLedger(t *testing.T) {
	t.Parallel()
	store := newFilled(t)
	dir, vkey := signed(t, store)
	other := newStore(t)
	fill(t, other, 40)
	otherDir, otherKey := signed(t, other)
	read := func(dir string) string {
		raw, err := os.ReadFile(filepath.Join(dir, "checkpoints"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	own := newest(t, dir)
	broken := strings.Replace(string(own.Note), proof.EncodeHash(own.Root), proof.EncodeHash(proof.Hash{}), 1) + "\n"
	wrong, err := proof.Checkpoint{Origin: own.Origin, Size: own.Size}.Sign(translogtest.SignerOf(t, filepath.Join(dir, "key")))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file string
		note bool
		want audit.Verdict
	}{
		"its own":                         {read(dir), false, audit.Intact},
		"none":                            {"", false, audit.Intact},
		"those of another":                {read(otherDir), true, audit.Intact},
		"both":                            {read(otherDir) + read(dir), true, audit.Intact},
		"one with a broken signature":     {broken, true, audit.Intact},
		"one that contradicts the events": {string(wrong.Note) + "\n", false, audit.Forked},
	} {
		harmed := copyOf(t, dir)
		if err := os.WriteFile(filepath.Join(harmed, "checkpoints"), []byte(tt.file), 0o644); err != nil {
			t.Fatal(err)
		}
		r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{vkey}, Dir: translog.Dir(harmed)})
		if r.Verdict != tt.want || strings.Contains(r.String(), "not counted") != tt.note {
			t.Errorf("%s: %q\n%s", name, found, r)
		}
		if r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{otherKey}, Dir: translog.Dir(harmed)}); tt.want == audit.Intact && name != "those of another" && name != "both" && r.Verdict != audit.WrongKey {
			t.Errorf("%s, with another key: %q\n%s", name, found, r)
		}
	}

	// Without the directory, the keys in the events are those beside the data.
	if r, found := verdict(t, store, audit.VerifyOptions{}); r.Verdict != audit.Unauthenticated || r.Key != vkey {
		t.Errorf("without a directory and a key: %q\n%s", found, r)
	}
	if r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{vkey}}); r.Verdict != audit.IntactUpTo && r.Verdict != audit.Intact {
		t.Errorf("without a directory: %q\n%s", found, r)
	}
}
