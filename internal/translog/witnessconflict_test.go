package translog_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// cosignedTwin makes a ledger of n events that the witnesses of a policy have cosigned.
func cosignedTwin(t *testing.T, key, path string, n int) {
	t.Helper()
	store := newStore(t)
	log, stop := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: path})
	last := fill(t, store, n)
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	until(t, "a cosigned checkpoint", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
	stop()
}

// A restored older copy, with its signed file, is noticed by a witness before it signs. The proof is kept: the
// next start finds it without the witness. If the operator accepts it, the origin ends.
func TestRestoredCopyBeforeSigning(t *testing.T) {
	t.Parallel()
	for _, longer := range []bool{false, true} {
		key, vkey := newKey(t)
		w, url := startWitness(t, vkey, nil)
		path := writePolicy(t, "witness w "+w.VKey()+" "+url, "quorum w")
		cosignedTwin(t, key, path, 20)

		store, dir, signed := newStore(t), t.TempDir(), filepath.Join(t.TempDir(), "signed")
		last := fill(t, store, 3)
		if longer {
			last = fill(t, store, 300)
		}
		conflicts := make(chan *translog.WitnessConflict, 10)
		opts := translog.Options{Dir: dir, KeyFile: key, SignedFile: signed, WitnessPolicy: path, OnWitnessConflict: func(c *translog.WitnessConflict) { conflicts <- c }}
		log := start(t, store, opts)
		err := log.AwaitEnd(t)
		// The log may find that its tree differs from the checkpoint of the witness before the answer is handled.
		isNamed := strings.Contains(err.Error(), "the witness w has a checkpoint") || longer && strings.Contains(err.Error(), "have the tree hash")
		if !errors.Is(err, events.ErrDamaged) || !isNamed || !errors.Is(log.Damage(), events.ErrDamaged) {
			t.Fatalf("longer %t: %v", longer, err)
		}
		if c := <-conflicts; c.Checkpoint.Note == nil || string(mustRead(t, signed)) != string(c.Checkpoint.Note) {
			t.Errorf("the signed file has\n%s", mustRead(t, signed))
		}
		if _, ok := log.Latest(); ok {
			t.Error("the copy was signed")
		}
		if end, err := store.LastSeq(t.Context()); err != nil || end != last {
			t.Errorf("the copy has %d events instead of %d, %v", end, last, err)
		}

		opts.WitnessPolicy = ""
		if err := start(t, store, opts).AwaitEnd(t); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("without the witness: %v", err)
		}
		if err := translog.AcceptDamage(dir, key, signed); err != nil {
			t.Fatal(err)
		}
		again := start(t, store, opts)
		mustCheckpoint(t, again, fill(t, store, 1))
		if !strings.HasSuffix(again.Origin(), "/2") {
			t.Errorf("the origin is %s", again.Origin())
		}
		closeLog(t, again)
	}
}

// An accepted loss of unknown hashes does not excuse the checkpoint that a witness has: the ledger signed events
// that it names as lost, so that its origin ends.
func TestLossBelowAWitnessedCheckpoint(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	w, url := startWitness(t, vkey, nil)
	path := writePolicy(t, "witness w "+w.VKey()+" "+url, "quorum w")
	cosignedTwin(t, key, path, 20)
	store := newStore(t)
	fill(t, store, 3)
	if _, err := store.OpenVolume(t.Context(), 60, "positions 4 to 59 were lost", events.Actor{Principal: "operator"}); err != nil {
		t.Fatal(err)
	}
	log := start(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: path, Lost: func() events.Lost { return events.Lost{{From: 4, To: 59, NamedAt: 60}} }})
	if err := <-log.Ended; !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "the witness w has a checkpoint") {
		t.Errorf("Run: %v", err)
	}
	if c, ok := log.Latest(); ok {
		t.Errorf("it signed a checkpoint of %d events", c.Size)
	}
}

// A witness that finds a conflict while the ledger is open ends the signing; with the permission of the operator it
// ends the origin.
func TestAcceptedConflict(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	w, url := startWitness(t, vkey, nil)
	path := writePolicy(t, "witness w "+w.VKey()+" "+url, "quorum w")
	cosignedTwin(t, key, path, 20)
	store, dir, signed := newStore(t), t.TempDir(), filepath.Join(t.TempDir(), "signed")
	fill(t, store, 3)
	if err := translog.AcceptDamage(dir, key, signed); err != nil {
		t.Fatal(err)
	}
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key, SignedFile: signed, WitnessPolicy: path})
	until(t, "a checkpoint of the next origin", func() bool { // until the origin ends, there is damage
		c, err := log.Checkpoint(t.Context(), 3)
		return err == nil && strings.HasSuffix(c.Origin, "/2")
	})
	list := statements(t, store)
	if len(list) != 1 || list[0].Ended == nil || list[0].Ended.Unconfirmed == nil || !strings.Contains(list[0].Ended.Reason, "witness") {
		t.Errorf("%+v", list)
	}
	closeLog(t, log)
}

// Answers to the question for the newest checkpoint delay the first signature only up to its own limit, not that of
// an answer, and are no proof.
func TestHostileNewestCheckpoint(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	w, _ := startWitness(t, vkey, nil)
	redirected := make(chan struct{}, 1000)
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected <- struct{}{} }))
	t.Cleanup(trap.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"endless": func(out http.ResponseWriter, r *http.Request) {
			chunk := make([]byte, 1<<20)
			for r.Context().Err() == nil {
				if _, err := out.Write(chunk); err != nil {
					return
				}
			}
		},
		"slow": func(out http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(out, "x")
			_ = http.NewResponseController(out).Flush()
			<-r.Context().Done()
		},
		"silent":   func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"redirect": func(out http.ResponseWriter, r *http.Request) { http.Redirect(out, r, trap.URL, http.StatusFound) },
		"unknown":  func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "x\n1\n2\n\n\u2014 x y\n") },
		"too large": func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Content-Type", "text/x.tlog.size")
			out.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(out, "9000000000\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			path := writePolicy(t, "witness w "+w.VKey()+" "+server.URL, "quorum w")
			store := newStore(t)
			log, stop := runLog(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: path})
			// The end of an answer takes longer than the test waits.
			within, giveUp := context.WithTimeout(t.Context(), time.Minute)
			defer giveUp()
			if _, err := log.Checkpoint(within, fill(t, store, 5)); err != nil {
				t.Fatalf("the first signature waits for the end of the answer: %v", err)
			}
			if name == "too large" {
				until(t, "a claim", func() bool { return log.WitnessClaims()["w"] == 9000000000 })
			}
			if err := log.Damage(); err != nil {
				t.Error(err)
			}
			stop()
			if _, _, ok := log.Cosigned(); ok {
				t.Error("a checkpoint is cosigned")
			}
		})
	}
	t.Cleanup(func() {
		if len(redirected) > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// Nothing is signed before the witnesses were asked: no checkpoint, no closing of a volume, no statement.
func TestNothingSignedBeforeAsking(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	w, url := startWitness(t, vkey, func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
			if in.Method == http.MethodGet {
				once()
				select {
				case <-answer:
				case <-in.Context().Done():
				}
			}
			inner.ServeHTTP(out, in)
		})
	})
	path := writePolicy(t, "witness w "+w.VKey()+" "+url, "quorum w")
	store, signed := newStore(t), filepath.Join(t.TempDir(), "signed")
	last := fill(t, store, 3)
	log, stop := runLogAfter(t, store, translog.Options{Dir: t.TempDir(), KeyFile: key, SignedFile: signed, WitnessPolicy: path}, time.Hour)
	<-asked
	waiting, giveUp := context.WithCancel(t.Context())
	signing := make(chan error, 2)
	go func() { _, err := log.SignClosing(waiting, last); signing <- err }()
	_, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := log.ChangeSigners(waiting, store, proof.AddRoot, root, events.Actor{})
		signing <- err
	}()
	until(t, "the tree", func() bool { return log.Size() >= last })
	giveUp()
	for range 2 {
		if err := <-signing; !errors.Is(err, context.Canceled) {
			t.Errorf("the closing of a volume or a statement did not wait: %v", err)
		}
	}
	if _, ok := log.Latest(); ok {
		t.Error("a checkpoint was signed")
	}
	if _, err := os.Stat(signed); err == nil {
		t.Error("the signed file was written")
	}
	if n := len(statements(t, store)); n != 0 {
		t.Errorf("%d statements", n)
	}
	close(answer)
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	until(t, "a cosigned checkpoint", func() bool { c, _, ok := log.Cosigned(); return ok && c.Size >= last })
	stop()
}

// The cosignatures of an idle ledger stay young.
func TestIdleLedgerStaysIntact(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	w, url := startWitness(t, vkey, nil)
	text := "log " + vkey + "\nwitness w " + w.VKey() + " " + url + "\nquorum w"
	policy, err := proof.ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	store, dir := newStore(t), t.TempDir()
	log, stop := runLog(t, store, translog.Options{Dir: dir, KeyFile: key, SignedFile: filepath.Join(t.TempDir(), "signed"), WitnessPolicy: writePolicy(t, text)})
	last := fill(t, store, 5)
	if _, err := log.Checkpoint(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	current := func() (proof.Checkpoint, time.Time, bool) {
		c, at, ok := log.Cosigned()
		latest, _ := log.Latest()
		return c, at, ok && c.Size == latest.Size && c.Size == log.Size() && c.Size >= last
	}
	until(t, "a cosigned checkpoint of all events", func() bool { _, _, ok := current(); return ok })
	first, at, _ := current()
	limit := at.Add(30 * time.Second)
	until(t, "newer cosignatures of the same checkpoint", func() bool {
		_, at, ok := current()
		return ok && at.After(limit.Add(30*time.Second))
	})
	stop()
	for _, fresh := range []bool{true, false} {
		if !fresh {
			if err := os.WriteFile(filepath.Join(dir, "cosigned"), first.Note, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := audit.Verify(t.Context(), store, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{vkey}, Policy: policy, MaxAge: time.Since(limit)})
		if err != nil || r.OK != fresh || r.TooOld == fresh {
			t.Errorf("fresh %t: %v\n%s", fresh, err, r)
		}
	}
}

// A checkpoint that a retired key signed after it was retired is no proof.
func TestConflictOfRetiredKey(t *testing.T) {
	t.Parallel()
	key, vkey := newKey(t)
	old := translogtest.SignerOf(t, key)
	store, dir, signed := newStore(t), t.TempDir(), filepath.Join(t.TempDir(), "signed")
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key, SignedFile: signed})
	mustCheckpoint(t, log, fill(t, store, 3))
	if _, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "test"}); err != nil {
		t.Fatal(err)
	}
	mustCheckpoint(t, log, fill(t, store, 3))
	forged, err := proof.Checkpoint{Origin: log.Origin(), Size: 1000}.Sign(old)
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = out.Write(forged.Note)
			return
		}
		http.Error(out, "no", http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	w, _ := startWitness(t, vkey, nil)
	log = start(t, store, translog.Options{Dir: dir, KeyFile: key, SignedFile: signed, WitnessPolicy: writePolicy(t, "witness w "+w.VKey()+" "+server.URL, "quorum w")})
	mustCheckpoint(t, log, fill(t, store, 3))
	if err := log.Damage(); err != nil {
		t.Error(err)
	}
	closeLog(t, log)
}
