package audit_test

import (
	"errors"
	"fmt"
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

// cluster is a ledger that two servers sign.
type cluster struct {
	store      *jetstream.Store
	dir        string // the audit directory of a
	a, b       *running
	root       string
	rootSigner note.Signer
}

// newCluster starts two servers. The first one introduces the second, and a root key introduces both.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	x := &cluster{store: newStore(t), dir: t.TempDir()}
	x.rootSigner, x.root = translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	x.a = start(t, x.store, translog.Options{Dir: x.dir, Shared: true, Every: time.Millisecond})
	mustCheckpoint(t, x.a, fill(t, x.store, 3))
	x.b = start(t, x.store, translog.Options{Dir: t.TempDir(), Shared: true, Every: time.Millisecond})
	x.await(t, func() bool { return x.b.Origin() == x.a.Origin() })
	x.change(t, proof.IntroduceSigner, x.b.VKey())
	x.change(t, proof.AddRoot, x.root)
	for _, key := range []string{x.a.VKey(), x.b.VKey()} {
		x.byRoot(t, proof.IntroduceSigner, key)
	}
	fill(t, x.store, 3)
	x.settle(t)
	return x
}

func (x *cluster) await(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case err := <-x.a.Ended:
			t.Fatalf("the first server ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("too late")
		case <-time.After(time.Millisecond):
		}
	}
}

// change makes a statement that the first server signs.
func (x *cluster) change(t *testing.T, action proof.Action, key string) {
	t.Helper()
	if _, err := x.a.ChangeSigners(t.Context(), x.store, action, key, events.Actor{}); err != nil {
		t.Fatal(err)
	}
}

func (x *cluster) byRoot(t *testing.T, action proof.Action, key string) {
	t.Helper()
	st, err := x.a.Signers().Next(action, key, x.a.Size()).Sign(x.rootSigner)
	if err == nil {
		_, err = x.a.AddStatement(t.Context(), x.store, st.Note, events.Actor{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// settle waits until each server has signed all events, so that none is to record another checkpoint.
func (x *cluster) settle(t *testing.T, servers ...*running) {
	t.Helper()
	if len(servers) == 0 {
		servers = []*running{x.a, x.b}
	}
	x.await(t, func() bool {
		last := x.last(t)
		for _, s := range servers {
			if c, _ := s.Latest(); c.Size != last || s.Size() != last {
				return false
			}
		}
		return x.last(t) == last
	})
}

func (x *cluster) last(t *testing.T) uint64 {
	t.Helper()
	last, err := x.store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// forge records a checkpoint of all events that a key signs.
func (x *cluster) forge(t *testing.T, signer note.Signer) {
	t.Helper()
	latest, _ := x.a.Latest()
	c, err := proof.Checkpoint{Origin: latest.Origin, Size: latest.Size, Root: latest.Root}.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
		LedgerID: "x", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note),
	}), -1)
	if err != nil {
		t.Fatal(err)
	}
}

func (x *cluster) local() audit.Local {
	return audit.Local{Log: x.a.Log, Stream: x.store, Blobs: x.store}
}

// verifyAll verifies the ledger at rest, an export, the server, and a sample of it.
func (x *cluster) verifyAll(t *testing.T, opts audit.VerifyOptions) map[string]func() (*audit.Report, error) {
	t.Helper()
	opts.SkipBlobs = true
	server := &liar{local: x.local()}
	server.change = func(answer map[string]any) { answer["signers"] = server.state.Signers }
	return map[string]func() (*audit.Report, error){
		"at rest": func() (*audit.Report, error) {
			o := opts
			o.Dir = translog.Dir(x.dir)
			return audit.Verify(t.Context(), x.store, x.store, o)
		},
		"an export": func() (*audit.Report, error) {
			out := filepath.Join(t.TempDir(), "export")
			if _, err := audit.Export(t.Context(), x.local(), audit.ExportOptions{Dir: out}); err != nil {
				t.Fatal(err)
			}
			return audit.VerifyExport(t.Context(), out, opts)
		},
		"a server": func() (*audit.Report, error) {
			return audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), opts)
		},
		"a sample": func() (*audit.Report, error) {
			return audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 5})
		},
	}
}

// expect verifies with several keys, and wants a verdict up to a position, or an error with a text if want is empty.
func (x *cluster) expect(t *testing.T, name string, n int, keys []string, want audit.Verdict, upTo uint64, texts ...string) {
	t.Helper()
	for of, verify := range x.verifyAll(t, audit.VerifyOptions{Keys: keys, MinSigners: n}) {
		if waits := of == "a server" || of == "a sample"; waits && want == audit.IntactUpTo && len(texts) == 0 {
			continue // they wait for the other signer, which takes long
		}
		r, err := verify()
		var text string
		if _, few := errors.AsType[*audit.SignersError](err); few && want == "" {
			text = err.Error()
		} else if err != nil || r.Verdict != want {
			t.Errorf("%s: %s: %v, want %s\n%s", name, of, err, want, r)
			continue
		} else if text = r.String(); want == audit.IntactUpTo && !strings.HasPrefix(text, fmt.Sprintf("INTACT UP TO %d ", upTo)) {
			t.Errorf("%s: %s, want up to %d:\n%s", name, of, upTo, r)
		}
		for _, part := range texts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %s lacks %q:\n%s", name, of, part, text)
			}
		}
	}
}

// A ledger at rest that two servers sign is intact if both are required: only checkpoints follow those that
// both signed.
func TestSigners(t *testing.T) {
	t.Parallel()
	x := newCluster(t)
	a, b := x.a.VKey(), x.b.VKey()
	both := []string{a, b}
	x.expect(t, "both of two", 2, both, audit.Intact, 0, "2 required; that many cover", "by "+a, "by "+b)
	x.expect(t, "one", 1, both, audit.Intact, 0)
	x.expect(t, "three of two", 3, both, "", 0, "3 signers are required", "those of 2: "+a+", "+b)
	x.expect(t, "the root key", 2, []string{x.root}, audit.Intact, 0)
	x.expect(t, "the root key and one", 2, []string{x.root, a}, audit.Intact, 0)
	x.expect(t, "only the key of one", 2, []string{a}, "", 0, b+" (follows from "+a+")")
	_, other := translogtest.NewSigner(t, x.a.Origin())
	x.expect(t, "the key of one, and an unknown one", 2, []string{a, other}, audit.IntactUpTo, 0)

	// Both rotate their keys: they remain the signers that they were.
	for _, s := range []*running{x.a, x.b} {
		x.settle(t)
		if _, err := s.RotateKey(t.Context(), x.store, events.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, x.store, 1)
	x.settle(t)
	x.expect(t, "after rotations", 2, both, audit.Intact, 0, "by "+x.a.VKey(), "by "+x.b.VKey())

	for of, verify := range x.verifyAll(t, audit.VerifyOptions{Keys: both, MinSigners: 2, MaxAge: time.Nanosecond}) {
		if r, err := verify(); err != nil || r.Verdict != audit.IntactUpTo || !r.TooOld {
			t.Errorf("too old: %s: %v\n%s", of, err, r)
		}
	}
	for of, verify := range x.verifyAll(t, audit.VerifyOptions{MinSigners: 2}) {
		if r, err := verify(); of != "a sample" && (err != nil || r.Verdict != audit.Unauthenticated) {
			t.Errorf("without a key: %s: %v\n%s", of, err, r)
		}
	}
	for of, verify := range x.verifyAll(t, audit.VerifyOptions{Keys: []string{other}, MinSigners: 2}) {
		if r, err := verify(); err != nil || r.Verdict != audit.WrongKey {
			t.Errorf("another key: %s: %v\n%s", of, err, r)
		}
	}
}

// After one of two servers has stopped, the other cannot prove the end of the ledger alone: not with a key that
// it introduces, and not by retiring the other.
func TestOneSignerIsNotTwo(t *testing.T) {
	t.Parallel()
	x := newCluster(t)
	a, b := x.a.VKey(), x.b.VKey()
	both := []string{a, b}
	if err := x.b.Close(); err != nil {
		t.Fatal(err)
	}
	x.settle(t, x.a)
	covered, _ := x.b.Latest()
	n := uint64(0) // the largest recorded checkpoint of b
	for _, m := range x.read(t) {
		if c, err := proof.OpenCheckpoint([]byte(m), b); err == nil {
			n = max(n, c.Size)
		}
	}
	if n == 0 || n > covered.Size {
		t.Fatalf("the second server recorded a checkpoint of %d events and signed %d", n, covered.Size)
	}
	x.expect(t, "stopped", 2, both, audit.Intact, 0)
	first := fill(t, x.store, 3)
	x.settle(t, x.a)
	x.expect(t, "stopped long ago", 2, both, audit.IntactUpTo, n, fmt.Sprintf("fewer cover positions %d to ", n+1), "the oldest event of them is of", "a signer is stopped")
	x.expect(t, "stopped long ago, one", 1, both, audit.Intact, 0)

	signer, made := translogtest.NewSigner(t, x.a.Origin())
	x.change(t, proof.IntroduceSigner, made)
	x.settle(t, x.a)
	x.forge(t, signer)
	x.settle(t, x.a)
	x.expect(t, "a key that a thief made", 2, both, audit.IntactUpTo, n)
	x.expect(t, "a key that a thief made, with the root key", 2, []string{x.root}, audit.IntactUpTo, n)
	x.expect(t, "a given key", 2, []string{a, made}, audit.Intact, 0)

	// A part has no tree, but a kept checkpoint of its own counts.
	out := filepath.Join(t.TempDir(), "part")
	if _, err := audit.Export(t.Context(), x.local(), audit.ExportOptions{Dir: out, Selection: proof.ExportSelection{From: first}}); err != nil {
		t.Fatal(err)
	}
	r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{a, made}, MinSigners: 2})
	if err != nil || r.Verdict != audit.IntactUpTo || r.Quorum.Size != 0 || !strings.Contains(r.String(), "only the signatures on its own checkpoint count") {
		t.Errorf("a part: %v\n%s", err, r)
	}
	c, _ := x.a.Latest()
	kept, err := proof.Checkpoint{Origin: c.Origin, Size: c.Size, Root: c.Root}.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	r, err = audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{a, made}, MinSigners: 2, Known: []proof.Checkpoint{kept}})
	if err != nil || r.Verdict != audit.Intact || r.Quorum.Size != c.Size {
		t.Errorf("a part with a checkpoint: %v\n%s", err, r)
	}

	x.change(t, proof.RetireSigner, b)
	x.settle(t, x.a)
	x.expect(t, "retired", 2, both, audit.IntactUpTo, 0, "may sign than --signers requires: others were retired")
}

// read returns the notes of the recorded checkpoints.
func (x *cluster) read(t *testing.T) (notes []string) {
	t.Helper()
	err := x.store.EachMatching(t.Context(), events.CheckpointSubject(events.LedgerTenant), func(e events.Event) error {
		if d, ok := e.Data.(*events.LedgerCheckpointed); ok {
			notes = append(notes, d.Note)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

// A server that records events all the time is intact: the verification waits for the checkpoints of the other signer.
func TestSignersOfABusyLedger(t *testing.T) {
	t.Parallel()
	x := newCluster(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if _, err := x.store.Append(t.Context(), translogtest.Request(events.NewID(time.Now())), 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	all := x.verifyAll(t, audit.VerifyOptions{Keys: []string{x.a.VKey(), x.b.VKey()}, MinSigners: 2})
	for range 5 {
		for _, of := range []string{"a server", "a sample"} {
			if r, err := all[of](); err != nil || r.Verdict != audit.Intact {
				t.Errorf("%s: %v\n%s", of, err, r)
			}
		}
	}
	close(stop)
	<-stopped
}

// A monitor of a ledger with accepted losses samples around them, and finds the checkpoints of both signers after them.
func TestWatchAfterALoss(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 5)
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.OpenVolume(t.Context(), last+4, "three were lost", events.Actor{Principal: "operator"}); err != nil {
		t.Fatal(err)
	}
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	mustCheckpoint(t, log, fill(t, store, 3))
	server := &liar{local: audit.Local{Log: log.Log, Stream: store, Blobs: store}}
	server.change = func(answer map[string]any) {
		answer["lost"] = events.Lost{{From: last + 1, To: last + 3, NamedAt: last + 4}}
	}
	for _, n := range []int{1, 2} {
		signer, vkey := translogtest.NewSigner(t, log.Origin())
		c, _ := log.Latest()
		known, err := proof.Checkpoint{Origin: c.Origin, Size: c.Size, Root: c.Root}.Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		opts := audit.VerifyOptions{Keys: []string{log.VKey(), vkey}, MinSigners: n, Known: []proof.Checkpoint{known}}
		r, err := audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 50})
		if err != nil || r.Verdict != audit.Intact {
			t.Errorf("%d signers: %v\n%s", n, err, r)
		}
	}
}
