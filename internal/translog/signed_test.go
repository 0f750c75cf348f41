package translog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// requests returns n events that request runs.
func requests(n int) []events.Event {
	list := make([]events.Event, n)
	for i := range list {
		list[i] = translogtest.Request(events.NewID(time.Now()))
	}
	return list
}

func appendAll(t *testing.T, store *jetstream.Store, list []events.Event) {
	t.Helper()
	for _, e := range list {
		if _, err := store.Append(t.Context(), e, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// With the signing key elsewhere, a log refuses a ledger that was set back or changed after the
// newest signed checkpoint, even if all files of the audit directory agree with it. It signs nothing.
func TestLogRefusesWhatItDidNotSign(t *testing.T) {
	t.Parallel()
	first, later, forged := requests(4), requests(4), requests(4)
	key := filepath.Join(t.TempDir(), "key")
	store := newStore(t)
	dir, early := t.TempDir(), t.TempDir()
	appendAll(t, store, first)
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	mustCheckpoint(t, log, 4)
	closeLog(t, log)
	if err := os.CopyFS(early, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	appendAll(t, store, later)
	log = start(t, store, translog.Options{Dir: dir, KeyFile: key})
	newest := mustCheckpoint(t, log, 9)
	closeLog(t, log)

	// The newest checkpoint covers 9 to 11 events, with those of the log itself.
	for _, tt := range []struct {
		name string
		list []events.Event
		want string // a part of the error
	}{
		{"set back", first, "but a checkpoint of"},
		{"other events at the end", append(first[:4:4], append(forged, later...)...), "have the tree hash"},
		{"the end changed", append(append(first[:4:4], requests(4)...), later...), "have the tree hash"},
		{"all changed", requests(12), "have the tree hash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, proofs := range []string{"as they were", "none", "of the changed ledger"} {
				audit, other := filepath.Join(t.TempDir(), "audit"), newStore(t)
				appendAll(t, other, tt.list)
				switch proofs {
				case "as they were":
					if err := os.CopyFS(audit, os.DirFS(early)); err != nil {
						t.Fatal(err)
					}
				case "none":
					keepIdentity(t, early, audit)
				default:
					keepIdentity(t, early, audit)
					saveTree(t, other, audit)
				}
				log := start(t, other, translog.Options{Dir: audit, KeyFile: key, SignedFile: copyOf(t, key+".signed")})
				err := log.AwaitEnd(t)
				if !errors.Is(err, events.ErrDamaged) || log.Damage() == nil {
					t.Fatalf("proofs %s: Run: %v", proofs, err)
				}
				if proofs != "as they were" && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("proofs %s: Run: %v, want %q", proofs, err, tt.want)
				}
				if last, err := other.LastSeq(t.Context()); err != nil || last != uint64(len(tt.list)) {
					t.Errorf("the log appended to the ledger: it ends at %d, %v", last, err)
				}
				if c, _ := log.Latest(); c.Size > newest.Size {
					t.Errorf("signed %+v", c)
				}
			}
		})
	}
}

// saveTree writes the files of the tree over all events of a ledger.
func saveTree(t *testing.T, store *jetstream.Store, dir string) {
	t.Helper()
	stored, err := store.ReadRaw(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	tree := translog.NewFileTree(dir)
	for _, m := range stored {
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.SaveAsDurable(); err != nil {
		t.Fatal(err)
	}
}

// keepIdentity copies the files that are no proofs from one audit directory to another.
func keepIdentity(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ledger.json", "vkey"} {
		if err := os.Rename(copyOf(t, filepath.Join(from, name)), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// copyOf copies a file and returns the path of the copy.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func closeLog(t *testing.T, log *translogtest.Running) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// Events that follow a checkpoint with a foreign signature in the name of this ledger are damage.
func TestLogRefusesForeignSignatures(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	appendAll(t, store, requests(3))
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	mustCheckpoint(t, log, 3)
	closeLog(t, log)

	// A forger who can write the streams appends, and signs with a key of the same name.
	translogtest.Forge(t, store, log.Origin(), fill(t, store, 3))

	log = start(t, store, translog.Options{Dir: dir, KeyFile: key})
	if err := log.AwaitEnd(t); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "none of its keys signed it") {
		t.Errorf("Run: %v", err)
	}
}

// A signed file that cannot be used stops the start, with its name and the way out. A new file
// starts with the newest known checkpoint.
func TestSignedFile(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	last := fill(t, store, 3)
	dir := t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	if err := log.FinalCheckpoint(t.Context(), store); err != nil { // covers the event of the recorded one
		t.Fatal(err)
	}
	c, _ := log.Latest()
	closeLog(t, log)
	path := translog.SignedPath(dir, "", "")
	signed := func() string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got := signed(); got != string(c.Note) {
		t.Errorf("the signed file holds\n%s\nwant\n%s", got, c.Note)
	}

	for name, content := range map[string]string{"empty": "", "cut": string(c.Note[:len(c.Note)/2]), "changed": strings.Replace(string(c.Note), fmt.Sprintf("\n%d\n", c.Size), "\n3\n", 1)} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := translog.Open(translog.Options{Dir: dir, NoSync: true})
		if _, ok := errors.AsType[*translog.SignedFileError](err); !ok || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	remove(t, path, "")
	_, err := translog.Open(translog.Options{Dir: dir, NoSync: true, SignedFile: filepath.Join(t.TempDir(), "none", "signed")})
	if _, ok := errors.AsType[*translog.SignedFileError](err); !ok || !strings.Contains(err.Error(), "--audit-signed") {
		t.Errorf("no directory: %v", err)
	}
	closeLog(t, start(t, store, translog.Options{Dir: dir}))
	if got := signed(); got != string(c.Note) {
		t.Errorf("the new signed file holds\n%s\nwant\n%s", got, c.Note)
	}

	// A checkpoint that was signed and not stored is stored by the next start.
	remove(t, dir, "checkpoints")
	log = start(t, store, translog.Options{Dir: dir})
	mustCheckpoint(t, log, last)
	closeLog(t, log)
	if kept := translogtest.Checkpoints(t, dir); len(kept) == 0 || string(kept[0].Note) != string(c.Note) {
		t.Errorf("the file of checkpoints holds %d", len(kept))
	}
}
