package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// signedWith appends events to a new ledger, signs it with the key in a file and returns the store
// and the audit directory.
func signedWith(t *testing.T, key string, list []events.Event) (*jetstream.Store, string) {
	t.Helper()
	store := newStore(t)
	appendAll(t, store, list)
	return store, sign(t, store, t.TempDir(), key)
}

// sign signs all events with the key in a file, and returns dir, which is the audit directory.
func sign(t *testing.T, store *jetstream.Store, dir, key string) string {
	t.Helper()
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed")})
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func appendAll(t *testing.T, store *jetstream.Store, list []events.Event) {
	t.Helper()
	for _, e := range list {
		if _, err := store.Append(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func newRequests(n int) []events.Event {
	list := make([]events.Event, n)
	for i := range list {
		list[i] = translogtest.Request(events.NewID(time.Now()))
	}
	return list
}

// newest returns the newest checkpoint in an audit directory.
func newest(t *testing.T, dir string) proof.Checkpoint {
	t.Helper()
	list := translogtest.Checkpoints(t, dir)
	if len(list) == 0 {
		t.Fatal("there are no checkpoints")
	}
	return list[len(list)-1]
}

// Each attack on a signed ledger has its verdict, with the key of the auditor given.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	first, second, other := newRequests(5), newRequests(4), newRequests(6)
	whole := append(first[:5:5], second...)
	store, dir := signedWith(t, key, whole)
	vkeys, err := translog.Dir(dir).VKeys()
	if err != nil {
		t.Fatal(err)
	}
	kept := newest(t, dir)
	// Ledgers of the same key: an earlier state, and another history after the same beginning.
	early, earlyDir := signedWith(t, key, first)
	forked, forkedDir := signedWith(t, key, append(first[:5:5], other...))
	// A tail that no key signed, and one that another key of the same name signed.
	tail, tailDir := signedWith(t, key, first)
	appendAll(t, tail, other)
	foreign, foreignDir := signedWith(t, key, first)
	appendAll(t, foreign, other)
	foreignLast, err := foreign.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	translogtest.Forge(t, foreign, newest(t, foreignDir).Origin, foreignLast)
	// The newest event is the one that was changed, or the first one.
	changed := newStore(t)
	appendAll(t, changed, append(newRequests(1), append(whole[1:9:9], newRequests(3)...)...))

	for _, tt := range []struct {
		name   string
		store  *jetstream.Store
		dir    string
		opts   audit.VerifyOptions
		want   audit.Verdict
		report string // a part of it
	}{
		{"sound", store, dir, audit.VerifyOptions{Keys: vkeys}, audit.Intact, "INTACT  "},
		{"sound, and its checkpoint was kept", store, dir, audit.VerifyOptions{Keys: vkeys, Known: []proof.Checkpoint{kept}}, audit.Intact, "checkpoints that you kept and that hold: 1"},
		{"sound, but a checkpoint of another history was kept", store, dir, audit.VerifyOptions{Keys: vkeys, Known: []proof.Checkpoint{newest(t, earlyDir), kept}}, audit.Forked, ""},
		{"no key", store, dir, audit.VerifyOptions{}, audit.Unauthenticated, "UNAUTHENTICATED  "},
		{"a tail without a signature", tail, tailDir, audit.VerifyOptions{Keys: vkeys}, audit.IntactUpTo, "INTACT UP TO 7  "},
		{"a tail signed by another key", foreign, foreignDir, audit.VerifyOptions{Keys: vkeys}, audit.IntactUpTo, "INTACT UP TO 7  "},
		{"set back", early, earlyDir, audit.VerifyOptions{Keys: vkeys}, audit.Intact, ""},
		{"set back, but a checkpoint was kept", early, earlyDir, audit.VerifyOptions{Keys: vkeys, Known: []proof.Checkpoint{kept}}, audit.RolledBack, "the kept checkpoint covers 11 events, but the ledger ends at 7"},
		{"cut off", early, dir, audit.VerifyOptions{Keys: vkeys}, audit.RolledBack, "covers 11 events, but the ledger ends at 7"},
		{"a second history", forked, forkedDir, audit.VerifyOptions{Keys: vkeys}, audit.Intact, ""},
		{"a second history, but a checkpoint was kept", forked, forkedDir, audit.VerifyOptions{Keys: vkeys, Known: []proof.Checkpoint{kept}}, audit.Forked, "the kept checkpoint of 11 events has the tree hash"},
		{"changed", changed, dir, audit.VerifyOptions{Keys: vkeys}, audit.NotIntact, "computed from the events it is"},
		{"changed, but a checkpoint was kept", changed, "", audit.VerifyOptions{Keys: vkeys, Known: []proof.Checkpoint{kept}}, audit.NotIntact, "the kept checkpoint of 11 events"},
		{"too old", store, dir, audit.VerifyOptions{Keys: vkeys, MaxAge: time.Nanosecond}, audit.IntactUpTo, "older than --max-age"},
		{"young enough", store, dir, audit.VerifyOptions{Keys: vkeys, MaxAge: time.Hour}, audit.Intact, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.dir != "" {
				tt.opts.Dir = translog.Dir(tt.dir)
			}
			r, found := verdict(t, tt.store, tt.opts)
			if r.Verdict != tt.want || !strings.Contains(r.String(), tt.report) {
				t.Errorf("%s, want %s with %q; found %q\n%s", r.Verdict, tt.want, tt.report, found, r)
			}
		})
	}
}

// A kept checkpoint that no given key signed is refused.
func TestKnownCheckpointsNeedTheirKey(t *testing.T) {
	t.Parallel()
	store, dir := signedWith(t, filepath.Join(t.TempDir(), "key"), newRequests(2))
	_, other := signedWith(t, filepath.Join(t.TempDir(), "key"), newRequests(2))
	otherKeys, err := translog.Dir(other).VKeys()
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{nil, otherKeys} {
		_, err := audit.Verify(t.Context(), store, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: keys, Known: []proof.Checkpoint{newest(t, dir)}})
		if _, ok := errors.AsType[*audit.KnownError](err); !ok || !strings.Contains(err.Error(), "--key") {
			t.Errorf("with the keys %q: %v", keys, err)
		}
	}
}

// A memory keeps what was verified, and finds the ledger that was set back after it.
func TestMemory(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	first := newRequests(3)
	early, earlyDir := signedWith(t, key, first)
	store, dir := signedWith(t, key, append(first[:3:3], newRequests(3)...))
	vkeys, err := translog.Dir(dir).VKeys()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "seen")
	verify := func(store *jetstream.Store, dir string, keys []string) (*audit.Report, error) {
		t.Helper()
		m, err := audit.OpenMemory(path, keys)
		if err != nil {
			return nil, err
		}
		r, _ := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: m.Keys(), Known: m.Checkpoints()})
		return r, m.Keep(r)
	}
	if _, err := verify(store, dir, nil); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("a new memory without a key: %v", err)
	}
	for i, keys := range [][]string{vkeys, nil} { // the key is kept too
		r, err := verify(store, dir, keys)
		if err != nil || r.Verdict != audit.Intact || r.Known != i {
			t.Errorf("verification %d: %v\n%s", i, err, r)
		}
	}
	r, err := verify(early, earlyDir, nil)
	if err != nil || r.Verdict != audit.RolledBack {
		t.Errorf("set back: %v\n%s", err, r)
	}
	m, err := audit.OpenMemory(path, nil)
	if err != nil || len(m.Checkpoints()) != 1 || string(m.Checkpoints()[0].Note) != string(newest(t, dir).Note) {
		t.Errorf("the memory holds %+v, %v", m, err)
	}

	file := filepath.Join(path, "checkpoints")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cut": string(raw[:len(raw)-20]), "changed": strings.Replace(string(raw), "\n8\n", "\n7\n", 1)} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := audit.OpenMemory(path, nil)
		if _, ok := errors.AsType[*audit.MemoryError](err); !ok || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
