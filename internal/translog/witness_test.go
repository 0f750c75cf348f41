package translog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/witness"
	"daybook/proof"
)

// runLog runs a log with a policy, at a pace for tests.
func runLog(t *testing.T, store *jetstream.Store, opts translog.Options) (log *translog.Log, stop func()) {
	t.Helper()
	return runLogAfter(t, store, opts, 50*time.Millisecond)
}

// runLogAfter is runLog with the time that the first signature waits for the witnesses.
func runLogAfter(t *testing.T, store *jetstream.Store, opts translog.Options, firstAsk time.Duration) (log *translog.Log, stop func()) {
	t.Helper()
	opts.NoSync, opts.Every = true, time.Hour
	opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	log, err := translog.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	log.SetFirstAsk(firstAsk)
	log.SetRoundTime(time.Hour) // an hour: what waits for the end of an answer fails
	log.SetWitnessTimes(5*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond, 5*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := log.Run(ctx, store, store); err != nil && ctx.Err() == nil && !errors.Is(err, log.Damage()) {
			t.Errorf("the log ended: %v", err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return log, stop
}

// newKey creates the key of a ledger and returns its file and its verification key.
func newKey(t *testing.T) (file, vkey string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), KeyFile: file, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return file, log.VKey()
}

// startWitness serves a witness. behind may change its answers.
func startWitness(t *testing.T, vkey string, behind func(http.Handler) http.Handler) (w *witness.Witness, url string) {
	t.Helper()
	start := time.Now()
	var asked atomic.Int64
	// Every cosignature has another time, 30 to 20 minutes ago.
	now := func() time.Time {
		return start.Add(-30*time.Minute + time.Duration(min(asked.Add(1), 600))*time.Second)
	}
	w, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}, Now: now, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	handler := w.Handler()
	if behind != nil {
		handler = behind(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return w, server.URL
}

func writePolicy(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

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

// Two of three witnesses cosign, and one does not answer. The cosigned checkpoint is in its file, is renewed while the ledger is idle, and is known after a restart.
func TestCosigning(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	w1, url1 := startWitness(t, vkey, nil)
	w2, url2 := startWitness(t, vkey, nil)
	hang := make(chan struct{})
	w3, url3 := startWitness(t, vkey, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		})
	})
	t.Cleanup(func() { close(hang) })
	path := writePolicy(t, "log "+vkey, "witness a "+w1.VKey()+" "+url1, "witness b "+w2.VKey()+" "+url2+"/", "witness c "+w3.VKey()+" "+url3, "group g 2 a b c", "quorum g")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := proof.ParsePolicy(raw)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t)
	dir := t.TempDir()
	conflict := func(c *translog.WitnessConflict) { t.Errorf("a conflict: %v", c) }
	log, stop := runLog(t, store, translog.Options{Dir: dir, KeyFile: key, WitnessPolicy: path, OnWitnessConflict: conflict})
	covers := func(log *translog.Log, size uint64) func() bool {
		return func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= size }
	}
	for range 3 {
		last := fill(t, store, 300)
		if _, err := log.Checkpoint(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		until(t, "a cosigned checkpoint", covers(log, last))
	}
	c, at, _ := log.Cosigned()
	if checked, err := policy.Check(c.Note); err != nil || !checked.Equal(at) {
		t.Errorf("the cosigned checkpoint: %v, %v instead of %v\n%s", err, checked, at, c.Note)
	}
	until(t, "a newer time of the same checkpoint", func() bool {
		again, newer, _ := log.Cosigned()
		if again.Size != c.Size { // a second checkpoint follows, which covers the event of the first
			c, at = again, newer
		}
		return newer.After(at)
	})
	stop()
	c, at, _ = log.Cosigned()
	if stored, err := translog.Dir(dir).Cosigned(); err != nil || !bytes.Equal(stored, c.Note) {
		t.Errorf("the file has %s, %v", stored, err)
	}
	again, stop := runLog(t, store, translog.Options{Dir: dir, KeyFile: key, WitnessPolicy: path, OnWitnessConflict: conflict})
	if restored, then, ok := again.Cosigned(); !ok || restored.Size != c.Size || then.Before(at) {
		t.Errorf("after a restart: %v %v", restored.Size, then)
	}
	last := fill(t, store, 5)
	if _, err := again.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	until(t, "a cosigned checkpoint after a restart", covers(again, last))
	stop()
	// A start without the file learns the size from the witness, and a start with another policy keeps the file.
	c, _, _ = again.Cosigned()
	other := writePolicy(t, "witness b "+w2.VKey()+" "+url2, "quorum b")
	log, stop = runLog(t, store, translog.Options{Dir: dir, KeyFile: key, WitnessPolicy: other, OnWitnessConflict: conflict})
	last = fill(t, store, 5)
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	until(t, "a cosigned checkpoint under another policy", covers(log, last))
	stop()
	kept, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("cosigned-%d-*", c.Size)))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if raw, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(raw, c.Note) {
		t.Errorf("%s: %s, %v", kept[0], raw, err)
	}
}

// A ledger that was set back, or has another history, is noticed by its witness: with the checkpoint as a
// proof if the witness serves it, otherwise as a claim.
func TestWitnessConflict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		events int // of the second history
		hidden bool
	}{{"shorter", 3, false}, {"longer", 300, false}, {"shorter, not shown", 3, true}, {"longer, not shown", 300, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			key, vkey := newKey(t)
			w, url := startWitness(t, vkey, func(inner http.Handler) http.Handler {
				return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
					if in.Method == http.MethodGet && test.hidden {
						http.NotFound(out, in)
						return
					}
					inner.ServeHTTP(out, in)
				})
			})
			path := writePolicy(t, "witness w "+w.VKey()+" "+url, "quorum w")
			store := newStore(t)
			log, stop := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, WitnessPolicy: path})
			last := fill(t, store, 20)
			if _, err := log.Checkpoint(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			until(t, "a cosigned checkpoint", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
			stop()
			second := newStore(t)
			conflicts := make(chan *translog.WitnessConflict, 10)
			log, stop = runLog(t, second, translog.Options{Dir: t.TempDir(), KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: path, OnWitnessConflict: func(c *translog.WitnessConflict) { conflicts <- c }})
			if _, err := log.Checkpoint(t.Context(), fill(t, second, test.events)); err != nil && (test.hidden || !errors.Is(err, events.ErrDamaged)) {
				t.Fatal(err)
			}
			got := <-conflicts
			if test.hidden {
				until(t, "the claim", func() bool { return log.WitnessClaims()["w"] == got.Size })
			} else {
				until(t, "the damage", func() bool { return errors.Is(log.Damage(), events.ErrDamaged) })
			}
			out := httptest.NewRecorder() // what the witness knows: its answer may be lost at the stop
			w.Handler().ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+witness.OriginHash(log.Origin())+"/checkpoint", nil))
			cosigned, err := proof.ParseCheckpoint(out.Body.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if got.Witness != "w" || got.Size != cosigned.Size || (got.Checkpoint.Note == nil) != test.hidden || !test.hidden && got.Checkpoint.Root != cosigned.Root {
				t.Errorf("%+v", got)
			}
			stop()
			if test.hidden && log.Damage() != nil {
				t.Errorf("a claim is damage: %v", log.Damage())
			}
			if _, _, ok := log.Cosigned(); ok {
				t.Error("the second history is cosigned")
			}
			if len(conflicts) > 0 {
				t.Errorf("%d further reports", len(conflicts))
			}
		})
	}
}

// While several witnesses lie, are broken or refuse, checkpoints have the cosignature of the other one, and
// nothing of what the bad ones answer.
func TestBadWitnesses(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	other, _ := startWitness(t, vkey, nil) // with another key
	good, url := startWitness(t, vkey, nil)
	lines := []string{"witness good " + good.VKey() + " " + url}
	answers := map[string]http.HandlerFunc{
		"nothing":   func(http.ResponseWriter, *http.Request) {},
		"garbage":   func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "\u2014 x\n") },
		"too long":  func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, strings.Repeat("x", 1<<20)) },
		"other key": other.Handler().ServeHTTP,
		"no size":   func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusConflict) },
		"a redirect": func(out http.ResponseWriter, in *http.Request) {
			http.Redirect(out, in, url, http.StatusTemporaryRedirect)
		},
		"sizes change": changingSizes(),
	}
	for name, answer := range answers {
		w, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		lines = append(lines, "witness "+strings.ReplaceAll(name, " ", "-")+" "+w.VKey()+" "+server.URL)
	}
	store := newStore(t)
	log, stop := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, WitnessPolicy: writePolicy(t, append(lines, "quorum good")...)})
	for range 5 {
		last := fill(t, store, 50)
		if _, err := log.Checkpoint(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		until(t, "a cosigned checkpoint", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
	}
	stop()
	c, _, _ := log.Cosigned()
	if n, err := proof.ParseNote(c.Note); err != nil || len(n.Signatures) != 2 {
		t.Errorf("%v\n%s", err, c.Note)
	}
}

// The log names a witness that does not answer and one with a wrong clock, until they cosign.
func TestWitnessFailures(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	good, url := startWitness(t, vkey, nil)
	var repaired atomic.Bool
	silent, silentURL := startWitness(t, vkey, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if repaired.Load() {
				next.ServeHTTP(out, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
	})
	late, err := witness.Open(witness.Options{Dir: t.TempDir(), Logs: []string{vkey}, Now: func() time.Time {
		if repaired.Load() {
			return time.Now()
		}
		return time.Now().Add(-2 * time.Hour)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = late.Close() })
	server := httptest.NewServer(late.Handler())
	t.Cleanup(server.Close)
	policy := writePolicy(t, "witness good "+good.VKey()+" "+url, "witness silent "+silent.VKey()+" "+silentURL, "witness late "+late.VKey()+" "+server.URL, "quorum good")
	store := newStore(t)
	log, _ := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, WitnessPolicy: policy})
	if _, err := log.Checkpoint(t.Context(), fill(t, store, 5)); err != nil {
		t.Fatal(err)
	}
	until(t, "the failures of two witnesses", func() bool {
		failures := log.WitnessFailures()
		return strings.Contains(failures["silent"], "does not answer within") && strings.Contains(failures["late"], "clock of the witness")
	})
	if failures := log.WitnessFailures(); len(failures) != 2 || len(log.WitnessRefusals()) != 0 {
		t.Errorf("%v, %v", failures, log.WitnessRefusals())
	}
	repaired.Store(true)
	until(t, "the cosignatures of all witnesses", func() bool { c, _, _ := log.Cosigned(); return len(signatures(t, c)) == 4 })
	if failures := log.WitnessFailures(); len(failures) != 0 {
		t.Errorf("after all have cosigned: %v", failures)
	}
}

// changingSizes names another size each time.
func changingSizes() http.HandlerFunc {
	var n atomic.Int64
	return func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/x.tlog.size")
		out.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(out, "%d\n", n.Add(1)%20+1)
	}
}

// A policy that no checkpoint of this ledger can satisfy is refused.
func TestWitnessPolicyOption(t *testing.T) {
	t.Parallel()
	w, _ := startWitness(t, func() string { _, vkey := newKey(t); return vkey }(), nil)
	for name, policy := range map[string]string{
		"no URL":         "witness w " + w.VKey() + "\nquorum w",
		"no witness":     "quorum none",
		"another scheme": "witness w " + w.VKey() + " ftp://example.com\nquorum w",
		"malformed":      "quorum w",
	} {
		path := writePolicy(t, policy)
		if err := translog.CheckWitnessPolicy(path); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := translog.Open(translog.Options{Dir: t.TempDir(), WitnessPolicy: path}); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	_, another := newKey(t)
	path := writePolicy(t, "log "+another, "witness w "+w.VKey()+" http://127.0.0.1", "quorum w")
	if _, err := translog.Open(translog.Options{Dir: t.TempDir(), WitnessPolicy: path}); err == nil || !strings.Contains(err.Error(), "add the line: log ") {
		t.Errorf("a policy of another log: %v", err)
	}
	if err := translog.CheckWitnessPolicy(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file is accepted")
	}
	if err := translog.CheckWitnessPolicy(""); err != nil {
		t.Error(err)
	}
}
