package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// exported returns the directory of an export of everything.
func exported(t *testing.T, log *translogtest.Running, store *jetstream.Store) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "export")
	if _, err := audit.Export(t.Context(), audit.Local{Log: log.Log, Stream: store, Blobs: store}, audit.ExportOptions{Dir: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// finish signs all events, and stops the log.
func finish(t *testing.T, log *translogtest.Running, store *jetstream.Store) {
	t.Helper()
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// keySigner returns the signer of a key file.
func keySigner(t *testing.T, file string) note.Signer {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// After a rotation, the first key is enough to verify everything, also an export. What the first key
// signs later is foreign.
func TestVerifyFollowsARotation(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	first := log.VKey()
	second, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, store, 2)
	out := exported(t, log, store)
	finish(t, log, store)
	for _, key := range []string{first, second} {
		r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{key}, Dir: translog.Dir(dir)})
		if r.Verdict != audit.Intact || r.Key != second {
			t.Errorf("with %s: %q\n%s", key, found, r)
		}
		if r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{key}}); err != nil || r.Verdict != audit.Intact || r.Key != second {
			t.Errorf("the export with %s: %v\n%s", key, err, r)
		}
	}
	// Without the statements, the second key is not known.
	if err := os.Remove(filepath.Join(dir, "signers")); err != nil {
		t.Fatal(err)
	}
	if r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{first}, Dir: translog.Dir(dir)}); r.Verdict != audit.Intact {
		t.Errorf("with the statements in the events only: %q\n%s", found, r)
	}
}

// The end of an origin is in every report. It is accepted only with the key of the successor.
func TestVerifyTheEndOfAnOrigin(t *testing.T) {
	t.Parallel()
	store, dir, key := newStore(t), t.TempDir(), filepath.Join(t.TempDir(), "key")
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	fill(t, store, 3)
	kept := translogtest.Checkpoint(t, log, 3)
	finish(t, log, store)
	first, origin := log.VKey(), log.Origin()
	signed, _ := log.Latest()
	ended := keySigner(t, key)
	for _, path := range []string{key, key + ".signed"} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := translog.AcceptDamage(dir, key, ""); err != nil {
		t.Fatal(err)
	}
	log = start(t, store, translog.Options{Dir: dir, KeyFile: key})
	until(t, "the start of the successor", func() bool {
		select {
		case err := <-log.Ended:
			t.Fatal(err)
		default:
		}
		fill(t, store, 1)
		return log.Signers().Origin() != origin
	})
	out := exported(t, log, store)
	second := log.VKey()
	server := &liar{local: audit.Local{Log: log.Log, Stream: store, Blobs: store}}
	server.change = func(answer map[string]any) { answer["signers"] = server.state.Signers }
	for of, r := range map[string]func() (*audit.Report, error){
		"a server": func() (*audit.Report, error) {
			return audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), audit.VerifyOptions{Keys: []string{first}, Known: []proof.Checkpoint{kept}})
		},
		"a sample": func() (*audit.Report, error) {
			return audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: audit.VerifyOptions{Keys: []string{first}, Known: []proof.Checkpoint{kept}}})
		},
	} {
		r, err := r()
		if err != nil || r.Verdict != audit.WrongKey || len(r.Origins) != 1 || r.Origins[0].Key != second || r.Origins[0].Trusted || !strings.Contains(r.String(), origin+" ended after") || !strings.Contains(r.String(), "Either the origin that your key signed for ended") || strings.Contains(r.String(), "not given\n") {
			t.Errorf("%s with the first key: %v\n%s", of, err, r)
		} else if claims := strings.Contains(r.String(), "Everything else holds"); claims != (r.Events > 0) {
			t.Errorf("%s says what was not read:\n%s", of, r)
		}
	}
	// A superseded checkpoint is not compared, and does not stand for the other ones that were kept.
	superseded, err := proof.Checkpoint{Origin: origin, Size: signed.Size + 100}.Sign(ended)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, store, 3)
	other, err := proof.Checkpoint{Origin: log.Origin(), Size: signed.Size + 1}.Sign(keySigner(t, key))
	if err != nil {
		t.Fatal(err)
	}
	opts := audit.VerifyOptions{Keys: []string{first, second}, Known: []proof.Checkpoint{other, superseded}}
	if r, err := audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts}); err != nil || r.Verdict != audit.Forked || r.Superseded != 1 {
		t.Errorf("another history of the successor: %v\n%s", err, r)
	}
	finish(t, log, store)

	beyond := proof.Checkpoint{Origin: origin, Size: signed.Size + 1}
	for _, tt := range []struct {
		name  string
		keys  []string
		known []proof.Checkpoint
		want  audit.Verdict
		parts []string
	}{
		{"the first key", []string{first}, nil, audit.IntactUpTo, []string{origin + " ended after", "which you did not give", second}},
		{"the second key", []string{second}, nil, audit.Intact, []string{origin + " ended after", "the signing key was lost"}},
		{"both", []string{first, second}, []proof.Checkpoint{kept}, audit.Intact, []string{"kept"}},
		{"the first key, and a checkpoint of it", []string{first}, []proof.Checkpoint{kept}, audit.IntactUpTo, nil},
	} {
		r, found := verdict(t, store, audit.VerifyOptions{Keys: tt.keys, Known: tt.known, Dir: translog.Dir(dir)})
		if r.Verdict != tt.want || len(r.Origins) != 1 || r.Origins[0].Size != signed.Size {
			t.Errorf("%s: %q\n%s", tt.name, found, r)
		}
		for _, part := range tt.parts {
			if !strings.Contains(r.String(), part) {
				t.Errorf("%s: the report lacks %q\n%s", tt.name, part, r)
			}
		}
	}
	if r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{first, second}}); err != nil || r.Verdict != audit.Intact || len(r.Origins) != 1 {
		t.Errorf("the export: %v\n%s", err, r)
	}
	if r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{first}}); err != nil || r.Verdict == audit.Intact || r.Origins[0].Trusted || !strings.Contains(r.String(), "which you did not give") {
		t.Errorf("the export with the first key: %v\n%s", err, r)
	}
	if signers := log.Signers(); signers.Trust([]string{first}).Superseded(beyond) || !signers.Trust([]string{second}).Superseded(beyond) {
		t.Error("a checkpoint of the ended origin is given up by a successor whose key is not given, or not by one whose key is")
	}
}

// A statement that no signer signed, and a list that contradicts the one that was kept, are found.
func TestVerifyForgedStatements(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	finish(t, log, store)
	vkey := log.VKey()
	kept := log.Signers()

	st := kept.Next(proof.IntroduceSigner, vkey, 3)
	signer, _ := translogtest.NewSigner(t, log.Origin())
	st, err := st.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), &events.LedgerSignersChanged{
		LedgerID: "x", Origin: st.Origin, Number: st.Number, Action: string(st.Action), Key: st.Key, Note: string(st.Note),
	}), -1); err != nil {
		t.Fatal(err)
	}
	if r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{vkey}, Dir: translog.Dir(dir)}); r.Verdict != audit.NotIntact || !strings.Contains(found[0], "no signer or root key") {
		t.Errorf("%q\n%s", found, r)
	}

	// A list with another second statement was kept.
	other := kept.Clone()
	genuine := translogtest.SignerOf(t, filepath.Join(dir, "key"))
	_, foreign := translogtest.NewSigner(t, log.Origin())
	for i, list := range []*proof.Signers{other, kept} {
		size := uint64(i + 1)
		st, err := list.Next(proof.IntroduceSigner, foreign, size).Sign(genuine)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.Add(st.Note); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Continues(kept); err == nil {
		t.Error("two lists that contradict each other continue each other")
	}
	sound := newStore(t)
	for _, st := range other.Statements() {
		appendStatement(t, sound, eventOf(st))
	}
	if r, found := verdict(t, sound, audit.VerifyOptions{Keys: []string{vkey}, Signers: kept, Dir: translog.Dir(dir)}); r.Verdict == audit.Intact || !strings.Contains(strings.Join(found, "\n"), "contradicts the list") {
		t.Errorf("%q\n%s", found, r)
	}
}
