package verifypython_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// sharedLedger is a ledger that two servers sign.
type sharedLedger struct {
	store *jetstream.Store
	a, b  *translogtest.Running
	dir   string // the audit directory of a
}

func newSharedLedger(t *testing.T) *sharedLedger {
	t.Helper()
	l := &sharedLedger{store: storetest.Start(t), dir: t.TempDir()}
	l.a = translogtest.Start(t, l.store, translog.Options{Dir: l.dir, Shared: true, Every: time.Millisecond})
	translogtest.Checkpoint(t, l.a, translogtest.Fill(t, l.store, 3))
	l.b = translogtest.Start(t, l.store, translog.Options{Dir: t.TempDir(), Shared: true, Every: time.Millisecond})
	l.await(t, func() bool { return l.b.Origin() == l.a.Origin() })
	l.change(t, proof.IntroduceSigner, l.b.VKey(), nil)
	l.fill(t, 2, l.a, l.b)
	return l
}

func (l *sharedLedger) await(t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case err := <-l.a.Ended:
			t.Fatalf("the first server ended: %v", err)
		case <-t.Context().Done():
			t.Fatal("too late")
		case <-time.After(time.Millisecond):
		}
	}
}

// fill appends requests and waits until some servers have signed all events.
func (l *sharedLedger) fill(t *testing.T, n int, servers ...*translogtest.Running) {
	t.Helper()
	translogtest.Fill(t, l.store, n)
	l.await(t, func() bool {
		last, err := l.store.LastSeq(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			if c, _ := s.Latest(); c.Size != last || s.Size() != last {
				return false
			}
		}
		return true
	})
}

// change makes a statement that the first server signs, or another signer.
func (l *sharedLedger) change(t *testing.T, action proof.Action, key string, signer note.Signer) {
	t.Helper()
	if signer == nil {
		if _, err := l.a.ChangeSigners(t.Context(), l.store, action, key, events.Actor{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	st, err := l.a.Signers().Next(action, key, l.a.Size()).Sign(signer)
	if err == nil {
		_, err = l.a.AddStatement(t.Context(), l.store, st.Note, events.Actor{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *sharedLedger) export(t *testing.T, s proof.ExportSelection) string {
	t.Helper()
	return exportTo(t, l.a, l.store, s)
}

// Both verifiers count the same signers.
func TestExportsWithSeveralSigners(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSharedLedger(t)
	a, b := l.a.VKey(), l.b.VKey()
	rootSigner, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	_, other := translogtest.NewSigner(t, l.a.Origin())
	check := func(dir, name, want string, size uint64, opts audit.VerifyOptions) {
		t.Helper()
		python, r := agree(t, name, dir, want, opts)
		if want == "usage" || want == "WRONG KEY" || want == "UNAUTHENTICATED" {
			return
		}
		if (r.Quorum == nil) != (python.Quorum == nil) || r.Quorum != nil && r.Quorum.Size != python.Quorum.Size {
			t.Errorf("%s: package audit says %+v, verify.py %+v", name, r.Quorum, python.Quorum)
		} else if r.Quorum != nil && size > 0 && r.Quorum.Size != size {
			t.Errorf("%s: the signers cover %d events, want %d", name, r.Quorum.Size, size)
		}
	}
	of := func(n int, keys ...string) audit.VerifyOptions { return audit.VerifyOptions{Keys: keys, MinSigners: n} }
	aged := func(age time.Duration) audit.VerifyOptions {
		opts := of(2, a, b)
		opts.MaxAge = age
		return opts
	}
	dir := l.export(t, proof.ExportSelection{})
	check(dir, "both", "INTACT", 0, of(2, a, b))
	check(dir, "both, young", "INTACT", 0, aged(time.Hour))
	check(dir, "both, old", "INTACT UP TO", 0, aged(time.Microsecond))
	check(dir, "one", "INTACT", 0, of(1, a))
	check(dir, "three", "usage", 0, of(3, a, b))
	check(dir, "one of two", "usage", 0, of(2, a))
	check(dir, "one key twice", "usage", 0, of(2, a, a))
	check(dir, "one and an unknown one", "INTACT UP TO", 0, of(2, a, other))
	check(dir, "no key", "UNAUTHENTICATED", 0, of(2))
	check(dir, "another key", "WRONG KEY", 0, of(2, other))
	check(dir, "a root key that is not in the list", "WRONG KEY", 0, of(2, root))

	l.change(t, proof.AddRoot, root, nil)
	for _, key := range []string{a, b} {
		l.change(t, proof.IntroduceSigner, key, rootSigner)
	}
	l.fill(t, 1, l.a, l.b)
	dir = l.export(t, proof.ExportSelection{})
	check(dir, "a root key", "INTACT", 0, of(2, root))
	check(dir, "a root key and another", "INTACT", 0, of(2, root, a))
	check(dir, "one that added a root key", "usage", 0, of(2, a))

	part := l.export(t, proof.ExportSelection{From: 2})
	check(part, "a part", "INTACT UP TO", 0, of(2, a, b))
	check(part, "a part, one", "INTACT", 0, of(1, a, b))
	if kept, _ := l.b.Latest(); true {
		opts := of(2, a, b)
		opts.Known = []proof.Checkpoint{kept}
		check(part, "a part, and a checkpoint of the other", "INTACT", kept.Size, opts)
	}

	for range 2 { // one after the other: statements are numbered
		for _, s := range []*translogtest.Running{l.a, l.b} {
			if _, err := s.RotateKey(t.Context(), l.store, events.Actor{}); err != nil {
				t.Fatal(err)
			}
			l.fill(t, 1, l.a, l.b)
		}
	}
	dir = l.export(t, proof.ExportSelection{})
	check(dir, "after rotations", "INTACT", 0, of(2, a, b))
	check(dir, "after rotations, one", "usage", 0, of(2, a))
	check(dir, "after rotations, with the root key", "INTACT", 0, of(2, root))

	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	l.fill(t, 1, l.a)
	covered := uint64(0)
	err := l.store.EachMatching(t.Context(), events.CheckpointSubject(events.LedgerTenant), func(e events.Event) error {
		d := e.Data.(*events.LedgerCheckpointed)
		if _, err := proof.OpenCheckpoint([]byte(d.Note), l.b.VKey()); err == nil {
			covered = max(covered, d.Size)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check(l.export(t, proof.ExportSelection{}), "one stopped", "INTACT UP TO", covered, of(2, a, b))
	signer, made := translogtest.NewSigner(t, l.a.Origin())
	l.change(t, proof.IntroduceSigner, made, nil)
	l.fill(t, 1, l.a)
	c, _ := l.a.Latest()
	if c, err = (proof.Checkpoint{Origin: c.Origin, Size: c.Size, Root: c.Root}).Sign(signer); err != nil {
		t.Fatal(err)
	}
	if _, err := l.store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
		LedgerID: "x", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note),
	}), -1); err != nil {
		t.Fatal(err)
	}
	l.fill(t, 0, l.a)
	dir = l.export(t, proof.ExportSelection{})
	check(dir, "a key that one server introduced", "INTACT UP TO", covered, of(2, a, b))
	check(dir, "a key that one server introduced, with the root key", "INTACT UP TO", covered, of(2, root))
	check(dir, "a given key", "INTACT", 0, of(2, a, made))
	check(dir, "three", "INTACT UP TO", covered, of(3, a, b, made))

	l.change(t, proof.RetireSigner, l.b.VKey(), nil)
	l.fill(t, 1, l.a)
	check(l.export(t, proof.ExportSelection{}), "retired", "INTACT UP TO", 0, of(2, a, b))
}

// Both verifiers give the same verdict on edits of an export that must have two signers and two witnesses, and it is
// INTACT only if a reader sees what was exported.
func TestEditsWithSignersAndWitnesses(t *testing.T) {
	verdicts.PathOfPython(t)
	l := newSharedLedger(t)
	for i := range 4 {
		source := putText(t, l.store, events.DefaultTenant, fmt.Sprintf("console.log(%d) // %s", i, strings.Repeat("long ", 100)))
		if i == 0 {
			source = &events.Body{Text: "console.log(1)"}
		}
		if _, err := l.store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
			ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: *source}),
		}), 0); err != nil {
			t.Fatal(err)
		}
	}
	l.fill(t, 1, l.a, l.b)
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := audit.Export(t.Context(), audit.Local{Log: l.a.Log, Stream: l.store, Blobs: l.store}, audit.ExportOptions{Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	witnesses, lines := newWitnesses(t, "a", "b", "c")
	dir = withCheckpoint(t, dir, func(n *proof.Note) {
		for _, name := range []string{"a", "b", "c"} {
			cosign(t, n, witnesses[name], time.Now())
		}
	})
	text := lines + "group g 2 a b c\nquorum g\n"
	policy, err := proof.ParsePolicy([]byte(text))
	path := filepath.Join(t.TempDir(), "policy")
	if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	keys := []string{l.a.VKey(), l.b.VKey()}
	python := verdicts.StartPython(t, "--key", keys[0], "--key", keys[1], "--signers", "2", "--witness-policy", path)
	x := readOriginal(t, "a ledger that two servers sign", dir)
	signer := translogtest.SignerOf(t, filepath.Join(l.dir, "key"))
	forger := verdicts.NewForger(t, signer.Name())
	copied := filepath.Join(t.TempDir(), "edited")
	counts := map[string]int{}
	for i := range *editCount {
		seed := *editSeed + uint64(i)
		e := &editor{original: x, rng: rand.New(rand.NewPCG(seed, 2)), signer: signer, forger: forger}
		if i == 0 {
			e.files, e.what = x.files, "nothing"
		} else if err := e.edit(); err != nil {
			t.Fatal(err)
		}
		if err := writeExport(copied, x.files, e.files); err != nil {
			t.Fatal(err)
		}
		report, err := audit.VerifyExport(t.Context(), copied, audit.VerifyOptions{Keys: keys, MinSigners: 2, Policy: policy})
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, e.what, err)
		}
		got := verdicts.Words(report.Verdict)
		counts[got]++
		if other, line, err := python.Verdict(copied); err != nil || other != got {
			t.Errorf("seed %d: %s: package audit says %s, verify.py %s (%v):\n%s\n%s", seed, e.what, got, other, err, report, line)
		}
		if got == "INTACT" {
			if err := x.seen.comparesWith(e.files, false); err != nil {
				t.Errorf("seed %d: %s: the verdict is %s, but %v:\n%s", seed, e.what, got, err, report)
			}
		} else if i == 0 {
			t.Errorf("without an edit: %s", report)
		}
		if err := writeExport(copied, e.files, x.files); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v", counts)
}
