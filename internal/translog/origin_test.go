package translog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// statements returns the events about the signers of a ledger.
func statements(t *testing.T, store *jetstream.Store) (list []events.LedgerSignersChanged) {
	t.Helper()
	err := store.EachMatching(t.Context(), events.SignersSubject(events.LedgerTenant), func(e events.Event) error {
		list = append(list, *e.Data.(*events.LedgerSignersChanged))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// awaitSigners waits until a log has read that the keys of the signers are want, in any order.
func awaitSigners(t *testing.T, log *translogtest.Running, want ...string) {
	t.Helper()
	slices.Sort(want)
	untilIn(t, log, "the signers", func() bool {
		got := log.Signers().Keys()
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// untilIn waits for a condition, and fails if the log ends before.
func untilIn(t *testing.T, log *translogtest.Running, what string, ok func() bool) {
	t.Helper()
	until(t, what, func() bool {
		select {
		case err := <-log.Ended:
			t.Fatalf("Run ended with %v before %s", err, what)
		default:
		}
		return ok()
	})
}

// The origin starts before the first checkpoint, once. A new audit directory is not enough to sign.
func TestOriginStarts(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 3)
	dir := t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	c := mustCheckpoint(t, log, 3)
	if c.Size < 4 {
		t.Errorf("the first checkpoint covers %d events, without the start of the origin", c.Size)
	}
	closeLog(t, log)
	log = start(t, store, translog.Options{Dir: dir})
	mustCheckpoint(t, log, fill(t, store, 2))
	closeLog(t, log)
	list := statements(t, store)
	if len(list) != 1 || list[0].Action != "start" || list[0].Origin != c.Origin || list[0].Key != log.VKey() || list[0].Ended != nil {
		t.Errorf("statements %+v", list)
	}
	signers, err := proof.ParseSigners(mustRead(t, filepath.Join(dir, "signers")))
	if err != nil || signers.Origin() != c.Origin || !signers.Signs(log.VKey()) {
		t.Errorf("the file of signers: %+v, %v", signers, err)
	}

	other := start(t, store, translog.Options{Dir: t.TempDir()})
	if err := other.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), c.Origin) || !strings.Contains(err.Error(), "--accept-damage") {
		t.Errorf("Run with a new directory: %v", err)
	}
	if len(statements(t, store)) != 1 {
		t.Error("another origin started")
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// If a ledger differs from what was signed, it is damage. If the operator accepts that, the origin ends, and
// a successor starts, which confirms what still matches.
func TestOriginEnds(t *testing.T) {
	t.Parallel()
	first, later := requests(4), requests(6)
	for _, tt := range []struct {
		name string
		// change changes the copy of the audit directory, and returns the events of the ledger after first.
		change func(t *testing.T, dir, key string) []events.Event
		// reason is a part of the reason in the event of the successor. unconfirmed is true if the event
		// names the newest checkpoint, which the successor does not confirm.
		reason      string
		unconfirmed bool
	}{
		{"set back", func(*testing.T, string, string) []events.Event { return nil }, "set back", true},
		{"set back, with rotated checkpoints", func(t *testing.T, dir, _ string) []events.Event { splitFiles(t, dir); return nil }, "set back", true},
		{"changed", func(*testing.T, string, string) []events.Event { return requests(30) }, "changed", true},
		{"the key lost", func(t *testing.T, _, key string) []events.Event { remove(t, key, ""); return nil }, "set back", true},
		{"the tree and the checkpoints lost too", func(t *testing.T, dir, key string) []events.Event {
			remove(t, key, "")
			remove(t, key+".signed", "")
			for _, name := range []string{"durable", "tile", "checkpoints", "signers", "ledger.json"} {
				remove(t, dir, name)
			}
			return nil
		}, "proofs were lost", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
			store := newStore(t)
			appendAll(t, store, first)
			log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
			held := mustCheckpoint(t, log, 4)
			closeLog(t, log)
			raw, err := store.ReadRaw(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			appendAll(t, store, later)
			log = start(t, store, translog.Options{Dir: dir, KeyFile: key})
			mustCheckpoint(t, log, 12)
			closeLog(t, log)
			newest, _ := log.Latest()

			// The ledger is set back to the state after first.
			other := newStore(t)
			for _, m := range raw {
				e, err := events.Decode(m.Seq, m.Message())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.Append(t.Context(), e, -1); err != nil {
					t.Fatal(err)
				}
			}
			appendAll(t, other, tt.change(t, dir, key))
			before := map[string]string{} // the files beside the key
			for _, path := range []string{key, key + ".signed"} {
				if raw, err := os.ReadFile(path); err == nil {
					before[path] = string(raw)
				}
			}
			opts := translog.Options{Dir: dir, KeyFile: key}
			damaged := start(t, other, opts)
			if err := damaged.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "--accept-damage") {
				t.Fatalf("Run: %v", err)
			}
			if err := translog.AcceptDamage(dir, key, ""); err != nil {
				t.Fatal(err)
			}
			again := start(t, other, opts)
			untilIn(t, again, "the start of the successor", func() bool { o := again.Signers().Origin(); return o != held.Origin && o != "" })
			c := mustCheckpoint(t, again, fill(t, other, 2))
			if c.Origin == held.Origin || again.VKey() == log.VKey() || again.Origin() != c.Origin {
				t.Errorf("the successor signs as %s with %s", c.Origin, again.VKey())
			}
			list := statements(t, other)
			if len(list) != 2 || list[1].Ended == nil {
				t.Fatalf("statements %+v", list)
			}
			ended := *list[1].Ended
			if ended.Origin != held.Origin || ended.Size < 5 || ended.Size > uint64(len(raw)) || !strings.Contains(ended.Reason, tt.reason) {
				t.Errorf("the successor states %+v; want the end of %s at up to %d events", ended, held.Origin, len(raw))
			}
			if got := ended.Unconfirmed; (got != nil) != tt.unconfirmed || got != nil && got.Size != newest.Size {
				t.Errorf("the successor states the unconfirmed checkpoint %+v, want that of %d events", got, newest.Size)
			}
			closeLog(t, again)

			// The permission has ended, the old key is kept, and the next start continues.
			if _, err := os.Stat(key + ".signed.accepted"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the permission: %v", err)
			}
			if strings.Contains(string(mustRead(t, key)), held.Origin+"+") {
				t.Error("the old key is still in use")
			}
			for path, content := range before {
				if string(mustRead(t, path+".ended1")) != content {
					t.Errorf("%s was not kept", path)
				}
			}
			again = start(t, other, opts)
			if c := mustCheckpoint(t, again, fill(t, other, 1)); c.Origin != again.Origin() {
				t.Errorf("signed as %s", c.Origin)
			}
			closeLog(t, again)
			if n := len(statements(t, other)); n != 2 {
				t.Errorf("%d statements", n)
			}

			// Only an auditor who knows the new key trusts the successor.
			signers := again.Signers()
			if _, err := signers.Trust([]string{log.VKey()}).Open(c.Note); !errors.Is(err, proof.ErrUnknownKey) {
				t.Errorf("with the old key: %v", err)
			}
			both := signers.Trust([]string{log.VKey(), again.VKey()})
			if _, err := both.Open(c.Note); err != nil || !both.Superseded(newest) || both.Superseded(proof.Checkpoint{Origin: held.Origin, Size: ended.Size}) {
				t.Errorf("with both keys: %v", err)
			}
		})
	}
}

// A server of a shared ledger takes over its origin, and signs when it is introduced. Until then it
// serves the checkpoints of the others.
func TestServersOfOneLedger(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := start(t, store, translog.Options{Dir: t.TempDir(), Shared: true, Every: time.Millisecond})
	second := start(t, store, translog.Options{Dir: t.TempDir(), Shared: true, Every: time.Millisecond})
	mustCheckpoint(t, first, fill(t, store, 3))
	mustCheckpoint(t, second, 3)
	signer, other := first, second
	if first.Signers().Keys()[0] != first.VKey() {
		signer, other = second, first
	}
	untilIn(t, other, "the origin of the ledger", func() bool { return other.Origin() == signer.Origin() })
	if c := mustCheckpoint(t, other, fill(t, store, 1)); c.Origin != signer.Origin() {
		t.Errorf("a checkpoint of %s", c.Origin)
	} else if _, err := proof.OpenCheckpoint(c.Note, signer.VKey()); err != nil {
		t.Error(err)
	}
	if _, err := other.ChangeSigners(t.Context(), store, proof.IntroduceSigner, other.VKey(), events.Actor{}); !errors.Is(err, translog.ErrNotSigner) {
		t.Errorf("a server introduces itself: %v", err)
	}
	if _, err := signer.ChangeSigners(t.Context(), store, proof.IntroduceSigner, other.VKey(), events.Actor{}); err != nil {
		t.Fatal(err)
	}
	awaitSigners(t, other, signer.VKey(), other.VKey())
	until(t, "a checkpoint of the second server", func() bool { // either of them signs first
		c := mustCheckpoint(t, other, fill(t, store, 1))
		_, err := proof.OpenCheckpoint(c.Note, other.VKey())
		return err == nil
	})
	if len(statements(t, store)) > 3 {
		t.Errorf("statements %+v", statements(t, store))
	}
	closeLog(t, first)
	closeLog(t, second)
}

// startTwo starts a server that signs a ledger, and a second one that follows it. dirs are their audit directories, and open
// starts one of them again.
func startTwo(t *testing.T, store *jetstream.Store) (dirs [2]string, open func(i int) *translogtest.Running, first, second *translogtest.Running) {
	t.Helper()
	dirs = [2]string{t.TempDir(), t.TempDir()}
	open = func(i int) *translogtest.Running {
		return start(t, store, translog.Options{Dir: dirs[i], Shared: true, Every: time.Millisecond})
	}
	first = open(0)
	mustCheckpoint(t, first, fill(t, store, 3))
	second = open(1)
	untilIn(t, second, "the origin of the ledger", func() bool { return second.Origin() == first.Origin() })
	return dirs, open, first, second
}

// If one of two servers ends the origin, the other one follows it without signing. When its operator accepts
// that too, it takes over the successor, and signs when it is introduced.
func TestServerTakesOverASuccessor(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dirs, open, first, second := startTwo(t, store)
	before := second.VKey()
	if _, err := first.ChangeSigners(t.Context(), store, proof.IntroduceSigner, before, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	awaitSigners(t, second, first.VKey(), before)
	until(t, "a checkpoint of the second server", func() bool { // either of them signs first
		c := mustCheckpoint(t, second, fill(t, store, 1))
		_, err := proof.OpenCheckpoint(c.Note, before)
		return err == nil
	})
	for range 2 { // the second time, the second server is two origins behind
		closeLog(t, first)
		remove(t, dirs[0], "key")
		if err := translog.AcceptDamage(dirs[0], "", ""); err != nil {
			t.Fatal(err)
		}
		first = open(0)
		mustCheckpoint(t, first, fill(t, store, 1))
	}
	untilIn(t, second, "the successor", func() bool { return second.Signers().Origin() == first.Origin() })
	if second.Origin() == first.Origin() || second.VKey() != before {
		t.Fatalf("the second server changed its origin to %s without its operator", second.Origin())
	}
	untilIn(t, second, "the reason why it does not sign", func() bool {
		return strings.Contains(second.SigningProblem(), "another server started the origin "+first.Origin())
	})
	closeLog(t, second)
	second = open(1) // without the permission
	end := fill(t, store, 1)
	untilIn(t, second, "the end", func() bool { return second.Size() >= end })
	if second.VKey() != before {
		t.Fatalf("the second server changed its key to %s without its operator", second.VKey())
	}
	closeLog(t, second)
	if err := translog.AcceptDamage(dirs[1], "", ""); err != nil {
		t.Fatal(err)
	}
	second = open(1)
	untilIn(t, second, "the origin of the ledger", func() bool { return second.Origin() == first.Origin() })
	if _, err := os.Stat(translog.SignedPath(dirs[1], "", "") + ".accepted"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the permission of the operator stays although this server may never sign: %v", err)
	}
	if _, err := first.ChangeSigners(t.Context(), store, proof.IntroduceSigner, second.VKey(), events.Actor{}); err != nil {
		t.Fatal(err)
	}
	until(t, "a checkpoint of the second server", func() bool {
		c := mustCheckpoint(t, second, fill(t, store, 1))
		_, err := proof.OpenCheckpoint(c.Note, second.VKey())
		return err == nil
	})
	if _, err := os.Stat(translog.SignedPath(dirs[1], "", "") + ".accepted"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the permission of the operator stays: %v", err)
	}
	if list := statements(t, store); len(list) != 5 {
		t.Errorf("statements %+v", list)
	}
	closeLog(t, first)
	closeLog(t, second)
}

// A server that has taken over an origin and has seen no checkpoint of it follows a successor too, and takes over
// that when its operator accepts it.
func TestFollowerWithoutCheckpointsOfAnEndedOrigin(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dirs, open, first, second := startTwo(t, store)
	closeLog(t, second)
	remove(t, dirs[1], "checkpoints")
	closeLog(t, first)
	remove(t, dirs[0], "key")
	if err := translog.AcceptDamage(dirs[0], "", ""); err != nil {
		t.Fatal(err)
	}
	first = open(0)
	mustCheckpoint(t, first, fill(t, store, 1))
	second = open(1)
	end := fill(t, store, 1)
	untilIn(t, second, "the end", func() bool { return second.Size() >= end })
	if second.Origin() == first.Origin() {
		t.Error("the second server changed its origin without its operator")
	}
	closeLog(t, second)
	if err := translog.AcceptDamage(dirs[1], "", ""); err != nil {
		t.Fatal(err)
	}
	second = open(1)
	untilIn(t, second, "the successor", func() bool { return second.Origin() == first.Origin() })
	closeLog(t, first)
	closeLog(t, second)
}

// A rotated key is introduced by the one before it, which is then retired. An auditor who knows the first
// one trusts the second, and nothing that the first one signs later.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	mustCheckpoint(t, log, fill(t, store, 3))
	old, oldFile := log.VKey(), mustRead(t, filepath.Join(dir, "key"))
	vkey, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"})
	if err != nil || vkey == old || log.VKey() != vkey {
		t.Fatalf("RotateKey: %s, %v", vkey, err)
	}
	c := mustCheckpoint(t, log, fill(t, store, 1))
	trust := log.Signers().Trust([]string{old})
	if _, err := trust.Open(c.Note); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := proof.OpenCheckpoint(c.Note, vkey); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := log.ChangeSigners(t.Context(), store, proof.RetireSigner, vkey, events.Actor{}); err == nil {
		t.Error("a server retired its only key")
	}
	closeLog(t, log)

	// With the old key, the server does not sign.
	if err := os.WriteFile(filepath.Join(dir, "key"), oldFile, 0o600); err != nil {
		t.Fatal(err)
	}
	log = start(t, store, translog.Options{Dir: dir})
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Run with the old key: %v", err)
	}
	if list := statements(t, store); len(list) != 3 || list[1].Actor.Principal != "alice" {
		t.Errorf("statements %+v", list)
	}
}

// A rotation that was interrupted after the new key was introduced is continued by the next start.
func TestRotationIsContinued(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		store := newStore(t)
		dir := t.TempDir()
		log := start(t, store, translog.Options{Dir: dir})
		mustCheckpoint(t, log, fill(t, store, 3))
		before := mustRead(t, filepath.Join(dir, "key"))
		vkey, err := log.RotateKey(t.Context(), store, events.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		closeLog(t, log)
		if err := os.Rename(filepath.Join(dir, "key"), filepath.Join(dir, "key.next")); err != nil {
			t.Fatal(err)
		}
		if !moved {
			if err := os.WriteFile(filepath.Join(dir, "key"), before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		log = start(t, store, translog.Options{Dir: dir})
		mustCheckpoint(t, log, fill(t, store, 1))
		if log.VKey() != vkey {
			t.Errorf("the key is %s, want %s", log.VKey(), vkey)
		}
		closeLog(t, log)
	}
}

// Who can change the data, and not what is beside the key, cannot accept a loss for the operator.
func TestForeignAcceptanceIsDamage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	mustCheckpoint(t, log, fill(t, store, 3))
	closeLog(t, log)
	last, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opening := &events.LedgerVolumeOpened{Volume: 2, First: last + 1, Reason: events.VolumeDamaged, Lost: events.Lost{{From: 2, To: 2, NamedAt: last + 1, Hashes: []string{proof.EncodeHash(proof.Hash{})}, Unreadable: true}}}
	if _, err := store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), opening), -1); err != nil {
		t.Fatal(err)
	}
	opts := translog.Options{Dir: dir, KeyFile: key}
	log = start(t, store, opts)
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "not by the operator of this server") {
		t.Errorf("Run: %v", err)
	}
	if err := translog.AcceptDamage(dir, key, ""); err != nil {
		t.Fatal(err)
	}
	log = start(t, store, opts)
	mustCheckpoint(t, log, last+1)
}

// Changes of the signers at the same time do not damage the ledger: one of them is recorded, and the
// others fail.
func TestChangesOfTheSignersAtTheSameTime(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	mustCheckpoint(t, log, fill(t, store, 3))
	addRoots(t, store, 8, log)
	mustCheckpoint(t, log, fill(t, store, 1))
	if n := len(statements(t, store)); n != 9 || log.Damage() != nil {
		t.Errorf("%d statements, damage %v", n, log.Damage())
	}
}

// Two servers of one ledger that change the signers at the same time do not damage it either.
func TestChangesOfTwoServers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := start(t, store, translog.Options{Dir: t.TempDir(), Shared: true})
	mustCheckpoint(t, first, fill(t, store, 3))
	second := start(t, store, translog.Options{Dir: t.TempDir(), Shared: true})
	untilIn(t, second, "the origin of the ledger", func() bool { return second.Origin() == first.Origin() })
	if _, err := first.ChangeSigners(t.Context(), store, proof.IntroduceSigner, second.VKey(), events.Actor{}); err != nil {
		t.Fatal(err)
	}
	awaitSigners(t, second, first.VKey(), second.VKey())
	addRoots(t, store, 30, first, second)
	for _, log := range []*translogtest.Running{first, second} {
		mustCheckpoint(t, log, fill(t, store, 1))
		if n := len(statements(t, store)); n != 32 || log.Damage() != nil {
			t.Errorf("%d statements, damage %v", n, log.Damage())
		}
	}
}

// addRoots adds n root keys at the same time, with each log in turn, and tries again after a conflict.
func addRoots(t *testing.T, store *jetstream.Store, n int, logs ...*translogtest.Running) {
	t.Helper()
	var changes sync.WaitGroup
	for i := range n {
		_, vkey, err := proof.NewKey(proof.RootKeyPrefix + "1")
		if err != nil {
			t.Fatal(err)
		}
		changes.Go(func() {
			for {
				_, err := logs[i%len(logs)].ChangeSigners(t.Context(), store, proof.AddRoot, vkey, events.Actor{})
				if err == nil {
					return
				}
				// The statement of another server can be read between the signature and the check of this one.
				if _, ok := errors.AsType[*translog.StatementError](err); !ok || !strings.Contains(err.Error(), "try again") && !errors.Is(err, proof.ErrNotNext) {
					t.Error(err)
					return
				}
			}
		})
	}
	changes.Wait()
}

// A root key introduces another key after the key of the server was lost.
func TestRootKeyIntroducesAKeyAfterTheLoss(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	opts := translog.Options{Dir: dir}
	log := start(t, store, opts)
	c := mustCheckpoint(t, log, fill(t, store, 3))
	old := log.VKey()
	rootKey, root, err := proof.NewKey(proof.RootKeyPrefix + "1")
	if err != nil {
		t.Fatal(err)
	}
	rootSigner, err := note.NewSigner(rootKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.ChangeSigners(t.Context(), store, proof.AddRoot, root, events.Actor{}); err != nil {
		t.Fatal(err)
	}
	closeLog(t, log)
	remove(t, dir, "key")
	log = start(t, store, opts)
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !translog.IsKeyLost(log.Damage()) {
		t.Fatalf("Run without the key: %v", err)
	}
	if log.VKey() != old {
		t.Errorf("the key is %s", log.VKey())
	}
	add := func(action proof.Action, vkey string, signer note.Signer) error {
		st, err := log.Signers().Next(action, vkey, c.Size).Sign(signer)
		if err != nil {
			t.Fatal(err)
		}
		_, err = log.AddStatement(t.Context(), store, st.Note, events.Actor{})
		return err
	}
	skey, vkey, err := proof.NewKey(c.Origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	if err := add(proof.IntroduceSigner, vkey, signer); err == nil {
		t.Error("a key introduced itself")
	}
	if err := errors.Join(add(proof.IntroduceSigner, vkey, rootSigner), add(proof.RetireSigner, old, rootSigner)); err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(skey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = start(t, store, opts)
	c = mustCheckpoint(t, log, fill(t, store, 1))
	if _, err := log.Signers().Trust([]string{root}).Open(c.Note); err != nil {
		t.Errorf("the root key: %v", err)
	}
}

// The key before an interrupted rotation is retired by the next start.
func TestInterruptedRotationRetiresTheOldKey(t *testing.T) {
	t.Parallel()
	for _, unsaved := range []bool{false, true} { // the process was killed before the statements were saved
		store := newStore(t)
		dir := t.TempDir()
		log := start(t, store, translog.Options{Dir: dir})
		mustCheckpoint(t, log, fill(t, store, 3))
		old := log.VKey()
		// RotateKey ends after the new key was introduced.
		skey, vkey, err := proof.NewKey(log.Origin())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "key.next"), []byte(skey+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := log.ChangeSigners(t.Context(), store, proof.IntroduceSigner, vkey, events.Actor{}); err != nil {
			t.Fatal(err)
		}
		awaitSigners(t, log, old, vkey)
		signed := mustCheckpoint(t, log, fill(t, store, 3))
		closeLog(t, log)
		if unsaved {
			remove(t, dir, "signers")
		}
		remove(t, dir, "durable") // a killed process leaves a tree that is behind what it signed
		for range 2 {             // the second start retires nothing
			log = start(t, store, translog.Options{Dir: dir})
			awaitSigners(t, log, vkey)
			mustCheckpoint(t, log, fill(t, store, 1))
			closeLog(t, log)
		}
		if list := statements(t, store); log.VKey() != vkey || len(list) != 3 || list[2].Action != "retire" || list[2].Key != old {
			t.Errorf("statements %+v", list)
		}
		if _, err := log.Signers().Trust([]string{old}).Open(signed.Note); err != nil {
			t.Errorf("the old key was retired before the %d events that it signed: %v", signed.Size, err)
		}
	}
}
