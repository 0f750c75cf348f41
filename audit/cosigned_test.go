package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/internal/witness"
	"daybook/proof"
)

// serveWitness serves a witness of a log. Its clock is behind by some time.
func serveWitness(t *testing.T, vkey string, behind time.Duration) (w *witness.Witness, url string) {
	t.Helper()
	w, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}, Now: func() time.Time { return time.Now().Add(-behind) }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	server := httptest.NewServer(w.Handler())
	t.Cleanup(server.Close)
	return w, server.URL
}

func parsePolicy(t *testing.T, lines ...string) (*proof.Policy, string) {
	t.Helper()
	text := strings.Join(lines, "\n") + "\n"
	p, err := proof.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p, path
}

// awaitCosigned waits until the newest checkpoint of an audit directory, which covers a position, is cosigned.
func awaitCosigned(t *testing.T, log *translogtest.Running, covers uint64) proof.Checkpoint {
	t.Helper()
	var c proof.Checkpoint
	until(t, "a cosigned checkpoint", func() (ok bool) {
		latest, _ := log.Latest()
		c, _, ok = log.Cosigned()
		return ok && c.Size >= covers && c.Size == latest.Size && log.Size() == c.Size
	})
	return c
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// cosignedLedger is a ledger whose checkpoints a witness cosigns.
type cosignedLedger struct {
	vkey   string
	store  *jetstream.Store
	dir    string
	opts   translog.Options
	log    *running
	policy *proof.Policy
	// lines are those of the log and of the witness, which is named a, in the policy.
	lines    []string
	cosigned proof.Checkpoint
}

// newCosignedLedger makes a ledger of five requests, of which a witness cosigned a checkpoint. The clock of the witness
// is behind by some time.
func newCosignedLedger(t *testing.T, behind time.Duration) *cosignedLedger {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	made, err := translog.Open(translog.Options{Dir: t.TempDir(), KeyFile: key, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	l := &cosignedLedger{vkey: made.VKey(), store: newStore(t), dir: t.TempDir()}
	w, addr := serveWitness(t, l.vkey, behind)
	l.lines = []string{"log " + l.vkey, "witness a " + w.VKey() + " " + addr}
	var path string
	l.policy, path = parsePolicy(t, append(l.lines[:2:2], "quorum a")...)
	l.opts = translog.Options{Dir: l.dir, KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: path}
	l.log = start(t, l.store, l.opts)
	last := fill(t, l.store, 5)
	translogtest.Checkpoint(t, l.log, last)
	l.cosigned = awaitCosigned(t, l.log, last)
	return l
}

// A ledger is intact under a policy only if enough witnesses cosigned a checkpoint of all its events: at rest, as an
// export and behind a server.
func TestPolicies(t *testing.T) {
	t.Parallel()
	l := newCosignedLedger(t, 0)
	vkey, store, dir, log, one, cosigned, line1 := l.vkey, l.store, l.dir, l.log, l.policy, l.cosigned, l.lines[1]
	_, otherKey := translogtest.NewSigner(t, log.Origin())
	w2, _ := serveWitness(t, vkey, 0)
	line2 := "witness b " + w2.VKey()
	both, _ := parsePolicy(t, line1, line2, "group g all a b", "quorum g")
	otherLog, _ := parsePolicy(t, "log "+otherKey, line1, "quorum a")
	none, _ := parsePolicy(t, line1, "quorum none")

	local := audit.Local{Log: log.Log, Stream: store, Blobs: store, Cosigned: translog.Dir(dir).Cosigned}
	out := filepath.Join(t.TempDir(), "export")
	if _, err := audit.Export(t.Context(), local, audit.ExportOptions{Dir: out}); err != nil {
		t.Fatal(err)
	}
	serve := func() []byte { return cosigned.Note }
	late := proof.Checkpoint{Origin: cosigned.Origin, Size: cosigned.Size + 100, Root: cosigned.Root}
	late, err := late.Sign(translogtest.SignerOf(t, l.opts.KeyFile))
	if err != nil {
		t.Fatal(err)
	}

	for name, tt := range map[string]struct {
		policy *proof.Policy
		maxAge time.Duration
		want   audit.Verdict
		upTo   uint64
		text   string
	}{
		"enough":              {one, 0, audit.Intact, cosigned.Size, "enough witnesses knew no larger checkpoint at"},
		"enough, and young":   {one, time.Hour, audit.Intact, cosigned.Size, ""},
		"too few":             {both, 0, audit.IntactUpTo, 0, "too few witnesses cosigned"},
		"another log":         {otherLog, 0, audit.IntactUpTo, 0, "nothing: "},
		"no witness required": {none, 0, audit.Intact, cosigned.Size, "the policy requires no witness"},
		"too old":             {one, time.Nanosecond, audit.IntactUpTo, cosigned.Size, "older than --max-age"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := audit.VerifyOptions{Keys: []string{vkey}, Policy: tt.policy, MaxAge: tt.maxAge, SkipBlobs: true}
			for _, check := range []struct {
				of     string
				verify func() (*audit.Report, error)
			}{
				{"export", func() (*audit.Report, error) { return audit.VerifyExport(t.Context(), out, o) }},
				{"server", func() (*audit.Report, error) {
					return audit.VerifyServer(t.Context(), audit.NewRemote((&liar{local: local, cosigned: serve}).get, nil), o)
				}},
				{"monitor", func() (*audit.Report, error) {
					return audit.Watch(t.Context(), audit.NewRemote((&liar{local: local, cosigned: serve}).get, nil), audit.WatchOptions{VerifyOptions: o})
				}},
				{"directory", func() (*audit.Report, error) {
					o := o
					o.Dir = translog.Dir(dir)
					return audit.Verify(t.Context(), store, store, o)
				}},
			} {
				r, err := check.verify()
				if err != nil || r.Verdict != tt.want || r.Cosigned == nil || r.Cosigned.Size != tt.upTo || !strings.Contains(r.String(), tt.text) {
					t.Errorf("%s: %v, want %s\n%s", check.of, err, tt.want, r)
				}
				if tt.want == audit.Intact { // what is kept is worth as much as what was verified
					m, err := audit.OpenMemory(filepath.Join(t.TempDir(), "kept"), []string{vkey})
					if err == nil {
						err = m.Keep(r)
					}
					if list := m.Checkpoints(); err != nil || len(list) != 1 {
						t.Errorf("%s: %d checkpoints are kept, %v", check.of, len(list), err)
					} else if _, err := tt.policy.Check(list[0].Note); err != nil {
						t.Errorf("%s: the kept checkpoint: %v", check.of, err)
					}
				}
				if tt.want == audit.IntactUpTo && !strings.HasPrefix(r.String(), fmt.Sprintf("INTACT UP TO %d", tt.upTo)) {
					t.Errorf("%s: %s", check.of, r)
				}
			}
		})
	}
	for name, tt := range map[string]struct {
		note []byte
		want audit.Verdict
	}{
		"hidden":       {nil, audit.IntactUpTo},
		"garbage":      {[]byte("x"), audit.IntactUpTo},
		"endless":      {bytes.Repeat([]byte("x"), 1<<20), audit.IntactUpTo},
		"not cosigned": {late.Note, audit.IntactUpTo},
	} {
		t.Run("a server: "+name, func(t *testing.T) {
			t.Parallel()
			get := (&liar{local: local, cosigned: func() []byte { return tt.note }}).get
			r, err := audit.VerifyServer(t.Context(), audit.NewRemote(get, nil), audit.VerifyOptions{Keys: []string{vkey}, Policy: one, SkipBlobs: true})
			if err != nil || r.Verdict != tt.want || !strings.HasPrefix(r.String(), "INTACT UP TO 0") {
				t.Errorf("%v\n%s", err, r)
			}
		})
	}
	t.Run("an empty server", func(t *testing.T) {
		t.Parallel()
		get := (&liar{empty: true}).get
		r, err := audit.VerifyServer(t.Context(), audit.NewRemote(get, nil), audit.VerifyOptions{Keys: []string{vkey}, Policy: one})
		if err != nil || r.Verdict != audit.IntactUpTo {
			t.Errorf("%v\n%s", err, r)
		}
	})
}

// With a policy, the maximum age is that of the cosignatures, also if the events are younger.
func TestOldCosignatures(t *testing.T) {
	t.Parallel()
	l := newCosignedLedger(t, 30*time.Minute)
	for age, want := range map[time.Duration]audit.Verdict{10 * time.Minute: audit.IntactUpTo, 2 * time.Hour: audit.Intact} {
		o := audit.VerifyOptions{Keys: []string{l.vkey}, MaxAge: age, SkipBlobs: true, Dir: translog.Dir(l.dir)}
		if r, err := audit.Verify(t.Context(), l.store, l.store, o); err != nil || r.Verdict != audit.Intact {
			t.Errorf("%s without a policy: %v\n%s", age, err, r)
		}
		o.Policy = l.policy
		if r, err := audit.Verify(t.Context(), l.store, l.store, o); err != nil || r.Verdict != want || r.TooOld != (want != audit.Intact) {
			t.Errorf("%s: %v, want %s\n%s", age, err, want, r)
		}
	}
}

// Events after the cosigned checkpoint are not proven by it. A history that contradicts the cosigned checkpoint is
// two histories, and one that ends before it was rolled back.
func TestPolicyAndOtherHistories(t *testing.T) {
	t.Parallel()
	l := newCosignedLedger(t, 0)
	store, dir, cosigned, opts := l.store, l.dir, l.cosigned, l.opts
	if err := l.log.Close(); err != nil {
		t.Fatal(err)
	}
	opts.WitnessPolicy = ""
	log := start(t, store, opts)
	translogtest.Checkpoint(t, log, fill(t, store, 3))
	verify := audit.VerifyOptions{Keys: []string{l.vkey}, Policy: l.policy, SkipBlobs: true}
	local := audit.Local{Log: log.Log, Stream: store, Blobs: store}
	r, err := audit.VerifyServer(t.Context(), audit.NewRemote((&liar{local: local, cosigned: func() []byte { return cosigned.Note }}).get, nil), verify)
	if err != nil || r.Verdict != audit.IntactUpTo || !strings.HasPrefix(r.String(), fmt.Sprintf("INTACT UP TO %d", cosigned.Size)) {
		t.Errorf("a server: %v\n%s", err, r)
	}
	verify.Dir = translog.Dir(dir)
	if r, err = audit.Verify(t.Context(), store, store, verify); err != nil || r.Verdict != audit.IntactUpTo || !strings.HasPrefix(r.String(), fmt.Sprintf("INTACT UP TO %d", cosigned.Size)) {
		t.Errorf("a directory: %v\n%s", err, r)
	}
	for name, tt := range map[string]struct {
		events int
		want   audit.Verdict
	}{"shorter": {2, audit.RolledBack}, "longer": {20, audit.Forked}} {
		second, secondDir := signedWith(t, opts.KeyFile, newRequests(tt.events))
		if err := os.WriteFile(filepath.Join(secondDir, "cosigned"), cosigned.Note, 0o600); err != nil {
			t.Fatal(err)
		}
		verify.Dir = translog.Dir(secondDir)
		if r, err = audit.Verify(t.Context(), second, second, verify); err != nil || r.Verdict != tt.want {
			t.Errorf("%s: %v, want %s\n%s", name, err, tt.want, r)
		}
	}
	if err := log.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// The keys of the logs in a policy follow the statements about the signers: after a rotation an old policy is
// enough, for the server too. A witness must be given the new key. Until then the server names its refusal.
func TestPolicyFollowsARotation(t *testing.T) {
	t.Parallel()
	key, state := filepath.Join(t.TempDir(), "key"), t.TempDir()
	made, err := translog.Open(translog.Options{Dir: t.TempDir(), KeyFile: key, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	first := made.VKey()
	var serving atomic.Pointer[witness.Witness]
	serve := func(vkeys ...string) *witness.Witness {
		w, err := witness.Open(witness.Options{Dir: state, Logs: vkeys, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		serving.Store(w)
		return w
	}
	w := serve(first)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { serving.Load().Handler().ServeHTTP(out, r) }))
	t.Cleanup(server.Close)
	policy, path := parsePolicy(t, "log "+first, "witness a "+w.VKey()+" "+server.URL, "quorum a")
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key, WitnessPolicy: path})
	last := fill(t, store, 3)
	translogtest.Checkpoint(t, log, last)
	awaitCosigned(t, log, last)
	second, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	last = fill(t, store, 3)
	translogtest.Checkpoint(t, log, last)
	until(t, "the refusal", func() bool { return strings.Contains(log.WitnessRefusals()["a"], "does not know the key") })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = serve(first, second)
	t.Cleanup(func() { _ = w.Close() })
	awaitCosigned(t, log, last)
	if refused := log.WitnessRefusals(); len(refused) > 0 {
		t.Errorf("after the witness knows the key: %v", refused)
	}
	_, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	if _, err := log.ChangeSigners(t.Context(), store, proof.AddRoot, root, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	finish(t, log, store)
	byRoot, _ := parsePolicy(t, "log "+root, "witness a "+w.VKey(), "quorum a")
	for name, tt := range map[string]struct {
		policy *proof.Policy
		want   audit.Verdict
	}{"the first key": {policy, audit.Intact}, "a root key that introduced nothing": {byRoot, audit.IntactUpTo}} {
		// The cosigned checkpoint may be one event older than the last one.
		r, err := audit.Verify(t.Context(), store, store, audit.VerifyOptions{Keys: []string{first}, Policy: tt.policy, SkipBlobs: true, Dir: translog.Dir(dir)})
		if err != nil || r.Verdict != tt.want && r.Cosigned.Size == 0 || tt.want == audit.IntactUpTo && r.Cosigned.Size > 0 {
			t.Errorf("%s: %v\n%s", name, err, r)
		}
	}
}
