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
	"daybook/internal/eventproof"
	"daybook/proof"
)

// stoppedLog returns a ledger of 768 events at least with its log, which was stopped. Event 51 records a
// removal. If all is false, only the first events are signed: the newest checkpoint ends in the first tile.
func stoppedLog(t *testing.T, all bool) (ledger *memoryLedger, opts Options) {
	t.Helper()
	ledger = newMemoryLedger()
	ledger.fill(t, 50)
	removal := &events.LedgerVolumeRemoved{Volume: 1, First: 1, Last: 2, RootHash: "root", Actor: systemActor}
	if err := ledger.add(events.New(events.LedgerTenant, time.Now(), removal)); err != nil {
		t.Fatal(err)
	}
	ledger.fill(t, 50)
	opts = Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key"), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger) }()
	sign(t, l, ledger)
	ledger.fill(t, 3*proof.TileWidth-int(ledger.last))
	if all {
		sign(t, l, ledger)
	} else if !l.awaitHashed(t.Context(), ledger.last) {
		t.Fatal("the events are not hashed")
	}
	stop()
	<-ended
	if all != (l.signed.Size > proof.TileWidth) || l.durable != ledger.last {
		t.Fatalf("%d events are signed, and the files cover %d of %d", l.signed.Size, l.durable, ledger.last)
	}
	return ledger, opts
}

// runDamaged runs a log that must find damage.
func runDamaged(t *testing.T, ledger *memoryLedger, opts Options, want string) {
	t.Helper()
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	signed := l.signed.Size
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := l.Run(ctx, ledger, ledger); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("Run: %v, want %q", err, want)
	}
	if l.signed.Size != signed {
		t.Errorf("%d events were signed", l.signed.Size)
	}
}

// The file of a tile that the comparison with the newest checkpoint needs is computed again from the events if it is
// missing or incomplete. If the events were removed, that is damage, which names the file.
func TestMissingTileOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, dir, tile string){"missing": remove, "incomplete": cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger, opts := stoppedLog(t, false)
			const tile = "0/000"
			before, err := os.ReadFile(filepath.Join(opts.Dir, "tile", tile))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, opts.Dir, tile)
			rest := newMemoryLedger()
			rest.list, rest.last = ledger.list[300:], ledger.last
			removed := opts
			removed.Dir = filepath.Join(t.TempDir(), "audit")
			if err := os.CopyFS(removed.Dir, os.DirFS(opts.Dir)); err != nil {
				t.Fatal(err)
			}
			removed.Removed = func() events.Removal {
				return events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{Last: 300}}
			}
			runDamaged(t, rest, removed, "tile/"+tile)
			follow(t, ledger, opts)
			if after, err := os.ReadFile(filepath.Join(opts.Dir, "tile", tile)); err != nil || string(after) != string(before) {
				t.Errorf("the file is another one: %v", err)
			}
		})
	}
}

// A statement or a removal that was signed and then changed is damage at the start, although no other signed event is
// compared before the scrub reads it.
func TestSignedStatementsAreCompared(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, ledger *memoryLedger, dir string, seq uint64) (want string){
		"the event": func(_ *testing.T, ledger *memoryLedger, _ string, seq uint64) string {
			ledger.list[seq-1] = backdated(ledger.list[seq-1])
			return "does not match the hash that was computed when it was recorded"
		},
		"the event and its leaf": func(t *testing.T, ledger *memoryLedger, dir string, seq uint64) string {
			ledger.list[seq-1] = backdated(ledger.list[seq-1])
			leaf, err := proof.LeafHash(eventproof.RecordOf(ledger.list[seq-1]))
			if err != nil {
				t.Fatal(err)
			}
			putHash(t, dir, proof.Tile{Width: proof.TileWidth}, int(seq-1), leaf)
			return "have the tree hash"
		},
		"its leaf": func(t *testing.T, _ *memoryLedger, dir string, seq uint64) string {
			putHash(t, dir, proof.Tile{Width: proof.TileWidth}, int(seq-1), proof.Hash{1})
			return ""
		},
		"another event": func(_ *testing.T, ledger *memoryLedger, _ string, seq uint64) string {
			ledger.list[seq-3] = backdated(ledger.list[seq-3])
			return "" // the scrub finds it
		},
	} {
		for _, kind := range []events.Type{events.TypeLedgerSignersChanged, events.TypeLedgerVolumeRemoved} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				ledger, opts := stoppedLog(t, true)
				var seq uint64
				for _, m := range ledger.list {
					if eventproof.HasType(m, kind) {
						seq = m.Seq
					}
				}
				if seq < 3 || seq > proof.TileWidth {
					t.Fatalf("the event is at position %d", seq)
				}
				if want := harm(t, ledger, opts.Dir, seq); want != "" {
					runDamaged(t, ledger, opts, want)
				} else {
					follow(t, ledger, opts)
				}
			})
		}
	}
}

// backdated changes the time of an event, and nothing that a reader of its payload sees.
func backdated(m events.Stored) events.Stored {
	header := map[string][]string{}
	for name, values := range m.Header {
		header[name] = values
	}
	header["ce-time"] = []string{"2020-01-01T00:00:00.000Z"}
	m.Header = header
	return m
}

// Files of the tree that the signed file contradicts prove no leaf, also if every file in the audit directory agrees
// with them: a person who can write only the directory cannot make genuine events look changed when damage is
// accepted.
func TestSignedFileContradictsTheTree(t *testing.T) {
	t.Parallel()
	_, opts := stoppedLog(t, true)
	signed := SignedPath(opts.Dir, opts.KeyFile, "")
	d, err := readDurable(opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := OpenProvenLeaves(opts.Dir, signed).Leaf(5); !ok {
		t.Fatal("the genuine files prove nothing")
	}
	files := &tileFiles{dir: opts.Dir}
	tree := proof.NewTree(files)
	for tree.Size() < d.size {
		if err := tree.Add(proof.Hash{1}); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(files.save(tree), writeDurable(opts.Dir, durableTree{tree.Size(), tree.Size(), tree.Root()}, false), os.Remove(filepath.Join(opts.Dir, fileCheckpoints)))
	if err != nil {
		t.Fatal(err)
	}
	if leaf, ok := OpenProvenLeaves(opts.Dir, "").Leaf(5); !ok || leaf != (proof.Hash{1}) {
		t.Fatal("the files in the directory contradict each other")
	}
	if known := OpenProvenLeaves(opts.Dir, signed); known.Size() > 0 {
		t.Errorf("forged leaves of %d events are believed", known.Size())
	}
	vkeys := filepath.Join(opts.Dir, fileVKey) // nor do they count if the key in the directory was replaced
	_, other, err := proof.NewKey(strings.Split(string(readFile(t, signed)), "\n")[0])
	if err == nil {
		err = os.WriteFile(vkeys, []byte(other+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if known := OpenProvenLeaves(opts.Dir, signed); known.Size() > 0 {
		t.Errorf("with another key, forged leaves of %d events are believed", known.Size())
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
