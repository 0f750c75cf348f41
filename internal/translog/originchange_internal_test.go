package translog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/internal/keyfile"
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
			opts := Options{Dir: t.TempDir()}
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

// If only the key cannot be used, the message does not say that the data is to be restored.
func TestAdviceForALostKey(t *testing.T) {
	t.Parallel()
	text := breakOf(keyLost, "put the key of a signer in the place of this one").Error()
	if strings.Contains(text, "restore the data directory") || !strings.Contains(text, "if no such key exists") {
		t.Error(text)
	}
}
