package translog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/proof"
)

// runShared runs a log of a shared ledger until stop is called or the test ends.
func runShared(t *testing.T, ledger *memoryLedger, opts Options) (l *Log, stop func()) {
	t.Helper()
	opts.Shared, opts.NoSync, opts.Every = true, true, time.Hour
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger); close(ended) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return l, stop
}

// awaitChange waits until a log is in a state. ok is called with mu held.
func awaitChange(t *testing.T, l *Log, what string, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for {
		l.mu.Lock()
		done, changed := ok(), l.changedCh
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Second): // a new origin of the server wakes no waiter
		case <-ctx.Done():
			t.Fatalf("no %s", what)
		}
	}
}

// twoServers runs a server that signs a ledger, and another one that follows it and has its newest checkpoint.
func twoServers(t *testing.T, dir string) (ledger *memoryLedger, first, second *Log, stop func()) {
	t.Helper()
	ledger = newMemoryLedger()
	ledger.fill(t, 10)
	first = follow(t, ledger, Options{Dir: t.TempDir(), Shared: true})
	second, stop = runShared(t, ledger, Options{Dir: dir})
	awaitChange(t, second, "origin of the ledger", func() bool { return second.keys.Origin == first.Origin() })
	ledger.fill(t, 1)
	last, _ := ledger.LastSeq(t.Context())
	sign(t, first, ledger)
	awaitChange(t, second, "checkpoint of the first server", func() bool { return second.latest.Size >= last })
	return ledger, first, second, stop
}

// A key of another server that is retired during a pass of the scrub signed the checkpoints before that.
func TestScrubKnowsRetiredKeysOfOtherServers(t *testing.T) {
	t.Parallel()
	ledger, first, second, _ := twoServers(t, t.TempDir())
	pass := second.NewScrub(ScrubOptions{Found: func(first, last uint64, what string) { t.Errorf("found %d to %d: %s", first, last, what) }}).newPass()
	if _, err := first.RotateKey(t.Context(), ledger, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, second, "rotated key", func() bool { return len(second.signers.Statements()) == 3 })
	if c := pass.newest[0]; c.Note == nil {
		t.Fatal("the pass has no checkpoint")
	} else if err := pass.compareCheckpoint(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// A server that follows others starts again and again. Its signed file contains only what it signed itself;
// one with a checkpoint of another server, of an earlier build, is read.
func TestFollowerStartsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _, second, stop := twoServers(t, dir)
	newest, _ := second.Latest()
	stop()
	path := SignedPath(dir, "", "")
	for i, ofOther := range []bool{false, false, true} {
		if ofOther {
			if err := os.WriteFile(path, newest.Note, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(Options{Dir: dir, Shared: true, NoSync: true})
		if err != nil {
			t.Fatalf("start %d: %v", i+2, err)
		}
		if l.latest.Size != newest.Size {
			t.Errorf("start %d knows a checkpoint of %d events, want %d", i+2, l.latest.Size, newest.Size)
		}
		if _, err := os.Stat(path); !ofOther && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("start %d made the signed file: %v", i+2, err)
		}
	}
}

// A server whose key a root key retires does not stop signing silently: alone it is damage that another
// key ends, and with other servers it is logged.
func TestRootKeyRetiresTheRunningKey(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		ledger := newMemoryLedger()
		ledger.fill(t, 10)
		var logged bytes.Buffer
		opts := Options{Dir: t.TempDir(), NoSync: true, Every: time.Hour, Shared: shared, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		l, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, ledger, ledger) }()
		sign(t, l, ledger)
		rootKey, root, err := proof.NewKey(proof.RootKeyPrefix + "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.ChangeSigners(t.Context(), ledger, proof.AddRoot, root, events.Actor{}); err != nil {
			t.Fatal(err)
		}
		signer, _, err := proof.ParseKey(rootKey)
		if err != nil {
			t.Fatal(err)
		}
		_, other, err := proof.NewKey(l.Origin())
		if err != nil {
			t.Fatal(err)
		}
		own := l.VKey()
		for _, change := range []struct {
			action proof.Action
			vkey   string
		}{{proof.IntroduceSigner, other}, {proof.RetireSigner, own}} {
			st, err := l.Signers().Next(change.action, change.vkey, 5).Sign(signer)
			if err == nil {
				_, err = l.AddStatement(t.Context(), ledger, st.Note, events.Actor{})
			}
			if err != nil {
				t.Fatalf("%s: %v", change.action, err)
			}
		}
		if !shared {
			if err := <-ended; !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "retires the key of this server") || !IsKeyLost(l.Damage()) {
				t.Errorf("Run: %v", err)
			}
			if _, err := l.Checkpoint(ctx, ledger.last+1); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("a request for a checkpoint: %v", err)
			}
			continue
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(logged.String(), "signs no more") {
			t.Errorf("Run: %v; logged: %s", err, logged.String())
		}
	}
}

// One of several servers signs no closing checkpoint before a statement in the ledger names its key: its
// origin may not become that of the ledger.
func TestClosingBeforeTheOriginStarts(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		ledger := newMemoryLedger()
		ledger.fill(t, 10)
		l, err := Open(Options{Dir: t.TempDir(), NoSync: true, Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		list, err := ledger.ReadRaw(t.Context(), 0, 100)
		if err == nil {
			err = l.appendBatch(list, 10)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.started = true
		if c, err := l.SignClosing(t.Context(), 10); (c == nil) != shared || (err != nil) != shared || (l.signed.Note == nil) != shared {
			t.Errorf("shared %v, nothing started: %+v, %v", shared, c, err)
		}
		l.starting = true // the statement is recorded, and may be that of another server
		ctx, stop := context.WithCancelCause(t.Context())
		waits := errors.New("it waits")
		stop(waits)
		if c, err := l.SignClosing(ctx, 10); (c == nil) != shared || errors.Is(err, waits) != shared {
			t.Errorf("shared %v, starting: %+v, %v", shared, c, err)
		}
	}
}

// Statements about more events than there are are refused: they would take effect later, or never.
func TestStatementsAboutLaterEventsAreRefused(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	l := follow(t, ledger, Options{Dir: t.TempDir()})
	_, vkey, err := proof.NewKey(l.Origin())
	if err != nil {
		t.Fatal(err)
	}
	add := func(action proof.Action, vkey string, size uint64) error {
		st, err := l.Signers().Next(action, vkey, size).Sign(l.keys.signer)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.AddStatement(t.Context(), ledger, st.Note, events.Actor{})
		return err
	}
	if err := add(proof.IntroduceSigner, vkey, 10); err != nil {
		t.Fatal(err)
	}
	_, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	for action, vkey := range map[proof.Action]string{proof.IntroduceSigner: vkey, proof.RetireSigner: vkey, proof.AddRoot: root} {
		if err := add(action, vkey, 1<<62); err == nil || !strings.Contains(err.Error(), "but it has") {
			t.Errorf("%s: %v", action, err)
		}
	}
	if n := len(l.Signers().Statements()); n != 2 {
		t.Errorf("%d statements", n)
	}
}

// An event about the signers that differs from its statement is damage for the server as for verifiers.
func TestEventDiffersFromItsStatement(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	l := follow(t, ledger, Options{Dir: t.TempDir()})
	_, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	st, err := l.Signers().Next(proof.AddRoot, root, 10).Sign(l.keys.signer)
	if err != nil {
		t.Fatal(err)
	}
	genuine := events.LedgerSignersChanged{Origin: st.Origin, Number: st.Number, Action: string(st.Action), Key: st.Key, Note: string(st.Note)}
	for _, change := range []func(d *events.LedgerSignersChanged){
		func(d *events.LedgerSignersChanged) { d.Origin += "/2" },
		func(d *events.LedgerSignersChanged) { d.Number++ },
		func(d *events.LedgerSignersChanged) { d.Action = string(proof.RetireSigner) },
		func(d *events.LedgerSignersChanged) { d.Key = l.VKey() },
		func(d *events.LedgerSignersChanged) { d.Ended = &events.EndedOrigin{Origin: "another"} },
		nil,
	} {
		d := genuine
		if change != nil {
			change(&d)
		}
		l.mu.Lock()
		err := l.addStatement(1, &d)
		l.mu.Unlock()
		if errors.Is(err, events.ErrDamaged) != (change != nil) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// A follower does not publish a checkpoint that a retired key signed later, neither when it reads it nor
// after a start.
func TestFollowerIgnoresARetiredKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, first, second, stop := twoServers(t, dir)
	first.mu.Lock()
	thief := first.keys.signer
	first.mu.Unlock()
	if _, err := first.RotateKey(t.Context(), ledger, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	awaitChange(t, second, "rotated key", func() bool { return len(second.signers.Statements()) == 3 })
	sign(t, first, ledger)
	ledger.fill(t, 5)
	last, _ := ledger.LastSeq(t.Context())
	awaitChange(t, second, "event", func() bool { return second.tree.Size() >= last })
	before, _ := second.Latest()
	second.mu.Lock()
	c, err := proof.Checkpoint{Origin: second.keys.Origin, Size: last, Root: second.tree.Root()}.Sign(thief)
	second.mu.Unlock()
	if err == nil {
		err = ledger.add(events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{LedgerID: "x", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note)}))
	}
	if err != nil {
		t.Fatal(err)
	}
	awaitChange(t, second, "checkpoint of the thief", func() bool { return second.tree.Size() > last })
	second.mu.Lock()
	unstored := second.unstored
	second.mu.Unlock()
	if newest, _ := second.Latest(); newest.Size >= c.Size || newest.Size < before.Size || unstored != nil && unstored.Size >= c.Size {
		t.Errorf("the follower publishes the checkpoint of a retired key: %+v", newest)
	}
	stop()
	if err := keepCheckpoint(dir, c.Note, checkpointsFileBytes); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Options{Dir: dir, Shared: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if newest, _ := again.Latest(); newest.Size >= c.Size {
		t.Errorf("after a start, the follower publishes the checkpoint of a retired key: %+v", newest)
	}
}
