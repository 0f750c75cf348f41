package translog

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/keyfile"
	"daybook/proof"
)

// A change to another origin continues at the next start, wherever it was interrupted.
func TestInterruptedChangeOfTheOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ended bool
		// steps is the number of steps after the identity was written.
		steps int
	}{
		{"adopted: the identity", false, 0},
		{"adopted: the key is set aside", false, 1},
		{"adopted: the key is made", false, 2},
		{"ended: the identity", true, 0},
		{"ended: the key is set aside", true, 1},
		{"ended: the key is made", true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ledger := newMemoryLedger()
			ledger.fill(t, 10)
			opts := Options{Dir: t.TempDir(), Shared: !tt.ended}
			l := follow(t, ledger, opts)
			sign(t, l, ledger)
			if err := l.makeDurable(); err != nil {
				t.Fatal(err)
			}
			key := filepath.Join(opts.Dir, fileKey)
			k := keys{identity: identity{ID: l.keys.ID, Origin: "example.org/log", Unfinished: true}}
			if tt.ended {
				k.Origin = successorOf(l.Origin())
				k.Ended = &endedOrigin{Origin: l.Origin(), Reason: wasChanged, Signed: string(l.signed.Note)}
				if err := AcceptDamage(opts.Dir, "", ""); err != nil {
					t.Fatal(err)
				}
			} else { // this server has signed nothing
				for _, name := range []string{fileKey + signedSuffix, fileCheckpoints} {
					if err := os.Remove(filepath.Join(opts.Dir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			err := k.writeIdentity(opts.Dir)
			if err == nil { // that of an interrupted rotation
				_, _, err = keyfile.Create(key+nextKeySuffix, l.Origin())
			}
			if err == nil && tt.steps > 0 {
				err = setAside(key)
			}
			if err == nil && tt.steps > 1 {
				err = k.use(key)
			}
			if err != nil {
				t.Fatal(err)
			}
			again, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			if again.keys.lost != "" || again.Origin() != k.Origin || again.keys.signer.Name() != k.Origin || again.keys.Unfinished {
				t.Errorf("the keys are %+v", again.keys)
			}
			if _, err := os.Stat(key + nextKeySuffix); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the next key of the former origin: %v", err)
			}
			if tt.steps > 1 && again.VKey() != k.vkey {
				t.Errorf("another key was made: %s", again.VKey())
			}
			if tt.ended && (again.signed.Note != nil || again.durable != 0 || again.keys.Ended.Signed != k.Ended.Signed) {
				t.Errorf("signed %d, on disk %d, ended %+v", again.signed.Size, again.durable, again.keys.Ended)
			}
			third, err := Open(opts)
			if err != nil || third.VKey() != again.VKey() {
				t.Errorf("the next start: %v", err)
			}
		})
	}
}

// A crash can leave the first key of a directory without the identity. The next start knows that it is a key that
// Open made, so that a server of a shared ledger can replace it.
func TestKeyBeforeTheIdentity(t *testing.T) {
	t.Parallel()
	opts := Options{Dir: t.TempDir(), NoSync: true, Shared: true}
	first, err := Open(opts)
	if err == nil {
		err = os.Remove(filepath.Join(opts.Dir, fileIdentity))
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if again.VKey() != first.VKey() || again.keys.ID != first.keys.ID {
		t.Errorf("the keys are %+v, want %+v", again.keys, first.keys)
	}
	if err := again.keys.adopt(opts, "daybook/another"); err != nil || again.Origin() != "daybook/another" {
		t.Errorf("the origin is %s, %v", again.Origin(), err)
	}
}

// If only the key cannot be used, the message does not say that the data is to be restored.
func TestAdviceForALostKey(t *testing.T) {
	t.Parallel()
	text := breakOf(keyLost, "put the key of a signer in the place of this one").Error()
	if strings.Contains(text, "restore the data directory") || !strings.Contains(text, "if no such key exists") {
		t.Error(text)
	}
}

// What was under way for an origin when it ended does not replace the files of its successor.
func TestNothingFollowsTheEndOfAnOrigin(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	opts := Options{Dir: t.TempDir(), NoSync: true, Logger: slog.New(slog.DiscardHandler)}
	sign(t, follow(t, ledger, opts), ledger)
	opts.Dir = copyOf(t, opts.Dir)
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	closing, err := proof.Checkpoint{Origin: l.Origin(), Size: 5}.Sign(l.keys.signer)
	if err != nil {
		t.Fatal(err)
	}
	skey, vkey, err := proof.NewKey(l.Origin())
	if err != nil {
		t.Fatal(err)
	}
	st, err := l.signers.Next(proof.IntroduceSigner, vkey, 10).Sign(l.keys.signer)
	if err == nil {
		_, err = l.signers.Add(st.Note)
	}
	if err == nil {
		err = l.endOrigin("a test")
	}
	if err != nil {
		t.Fatal(err)
	}

	// A signature of a checkpoint, and a rotation, are completed now.
	if err := l.remember(closing); err == nil || l.signed.Note != nil {
		t.Errorf("the signed file has a checkpoint of the ended origin: %v", err)
	}
	if err := l.storeCheckpoint(closing); err != nil || l.latest.Note != nil {
		t.Errorf("the newest checkpoint is that of the ended origin: %v", err)
	}
	key := filepath.Join(opts.Dir, fileKey)
	if err := os.WriteFile(key+nextKeySuffix, []byte(skey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := l.VKey()
	if err := l.useNextKey(); err != nil || l.VKey() != own {
		t.Errorf("the key of the ended origin is used: %v", err)
	}
	if err := (&keys{identity: l.keys.identity}).read(key); err != nil {
		t.Error(err)
	}
}

// copyOf copies an audit directory with its key.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "audit")
	if err := errors.Join(os.CopyFS(copied, os.DirFS(dir)), os.Chmod(filepath.Join(copied, fileKey), 0o600)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// A file of statements that starts with another one than the ledger is no copy: what it says would count for
// this server, and the next statement would contradict the ledger.
func TestForgedFileOfStatements(t *testing.T) {
	t.Parallel()
	ledger := newMemoryLedger()
	ledger.fill(t, 10)
	opts := Options{Dir: t.TempDir(), NoSync: true, Logger: slog.New(slog.DiscardHandler)}
	genuine := follow(t, ledger, opts)
	opts.Dir = copyOf(t, opts.Dir)
	forger, vkey, err := proof.NewKey(genuine.Origin())
	if err != nil {
		t.Fatal(err)
	}
	signer, _, err := proof.ParseKey(forger)
	if err != nil {
		t.Fatal(err)
	}
	list := &proof.Signers{}
	for _, st := range []proof.Statement{{Action: proof.StartOrigin, Key: vkey}, {Action: proof.IntroduceSigner, Key: genuine.VKey()}} {
		st = list.Next(st.Action, st.Key, 0)
		st.Origin = genuine.Origin()
		if st, err = st.Sign(signer); err == nil {
			_, err = list.Add(st.Note)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(opts.Dir, fileSigners)
	if err := os.WriteFile(path, list.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	within, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := l.Run(within, ledger, ledger); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("Run: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	follow(t, ledger, opts)
}
