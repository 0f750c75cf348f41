package embed_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/proof"
)

// stepOfRemoval is the last step of a removal before a crash.
type stepOfRemoval int

const (
	stepAnnounced stepOfRemoval = iota
	stepRecorded
	stepRemembered // in removed.json
	stepDeleted
)

// removeWithoutSigning removes volume 1 of a stopped server up to a step, and signs nothing. Without an announcement
// it does what a person can do who can write the data directory, and not beside the key.
func removeWithoutSigning(t *testing.T, opts embed.Options, announce bool, until stepOfRemoval) {
	t.Helper()
	server := storetest.StartServer(t, filepath.Join(opts.DataDir, "jetstream"))
	defer server.Close()
	store := storetest.Open(t, server, jetstream.Options{Exclusive: true})
	log, err := translog.Open(translog.Options{Dir: filepath.Join(opts.DataDir, "audit"), KeyFile: opts.Proof.KeyFile, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := store.Removable(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.ReadRaw(t.Context(), 0, int(v.Last))
	if err != nil || uint64(len(list)) != v.Last {
		t.Fatalf("%d events of %d: %v", len(list), v.Last, err)
	}
	tree := proof.NewTree(noTiles{})
	for _, m := range list {
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	crash := errors.New("crash")
	stopAfter := func(step stepOfRemoval) error {
		if until == step {
			return crash
		}
		return nil
	}
	_, err = store.Remove(t.Context(), stream.RemoveOptions{
		Volume: 1, RootHash: proof.EncodeHash(tree.Root()), Export: events.VolumeExport{SHA256: events.Hash([]byte("export")), Events: v.Last}, Actor: events.Actor{Principal: "operator"},
		OnPlanned: func(d *events.LedgerVolumeRemoved) error {
			if announce {
				if err := log.AnnounceRemoval(d); err != nil {
					return err
				}
			}
			return stopAfter(stepAnnounced)
		},
		OnRecorded: func(d *events.LedgerVolumeRemoved) error {
			if err := stopAfter(stepRecorded); err != nil {
				return err
			}
			raw := fmt.Sprintf("{\"volume\":%d,\"last\":%d}\n", d.Volume, d.Last)
			if err := os.WriteFile(filepath.Join(opts.DataDir, "removed.json"), []byte(raw), 0o600); err != nil {
				return err
			}
			return stopAfter(stepRemembered)
		},
	})
	if want := until != stepDeleted; errors.Is(err, crash) != want || err != nil && !want {
		t.Fatal(err)
	}
}

// noTiles stores no tiles: the tree of a test has only one that is not full.
type noTiles struct{}

func (noTiles) Put(proof.Tile, []proof.Hash) error { return errors.New("the tree is too large") }

func (noTiles) Get(proof.Tile, int) ([]byte, error) { return nil, os.ErrNotExist }

// A crash at any step of a removal leaves a ledger that starts, and the removal continues. The same steps by a person
// who cannot write beside the signing key are damage: nothing is signed or deleted, until the operator accepts it.
func TestRemovalThatIsNotSigned(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	sealed := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Proof: embed.ProofOptions{KeyFile: key}}
	book := start(t, sealed)
	run(t, book, embed.Script{Code: "1"})
	ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, nil)
	run(t, book, embed.Script{Code: "2"})
	vkey := book.AuditKey()
	closeBook(t, book)
	for name, tt := range map[string]struct {
		until    stepOfRemoval
		announce bool
	}{
		"crash before the event is recorded":         {stepAnnounced, true},
		"crash after the event is recorded":          {stepRecorded, true},
		"crash before the volume is deleted":         {stepRemembered, true},
		"crash after the volume is deleted":          {stepDeleted, true},
		"an event of another person":                 {stepRecorded, false},
		"an event and a note of another person":      {stepRemembered, false},
		"a removal by another person":                {stepDeleted, false},
		"nothing is recorded, and nothing announced": {stepAnnounced, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Proof: embed.ProofOptions{KeyFile: filepath.Join(t.TempDir(), "key")}}
			copyData(t, sealed.DataDir, opts.DataDir)
			signedFile := opts.Proof.KeyFile + ".signed"
			for _, suffix := range []string{"", ".signed"} {
				raw, err := os.ReadFile(key + suffix)
				if err == nil {
					err = os.WriteFile(opts.Proof.KeyFile+suffix, raw, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			signed, err := os.ReadFile(signedFile)
			if err != nil {
				t.Fatal(err)
			}
			volume := filepath.Join(opts.DataDir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001")
			isThere := func() bool { _, err := os.Stat(volume); return err == nil }
			if !isThere() {
				t.Fatal("the volume is elsewhere")
			}
			removeWithoutSigning(t, opts, tt.announce, tt.until)
			removed := tt.until > stepAnnounced
			if removed && !tt.announce {
				book := start(t, opts)
				untilNotReady(t, book)
				if _, body := request(book, "GET", "/api/ledger/damage", ""); !strings.Contains(body, "this server did not begin a removal") {
					t.Errorf("the damage is %s", body)
				}
				closeBook(t, book)
				if now, err := os.ReadFile(signedFile); err != nil || string(now) != string(signed) {
					t.Errorf("the signed file was changed, %v", err)
				}
				if isThere() != (tt.until < stepDeleted) {
					t.Errorf("the volume is there: %t", isThere())
				}
				opts.Storage.AcceptDamage = true
			}
			book := start(t, opts)
			run(t, book, embed.Script{Code: "3"})
			if list, _ := book.Damage(); len(list) > 0 {
				t.Errorf("found %v", list)
			}
			closeBook(t, book)
			if isThere() == removed {
				t.Errorf("the volume is there: %t", isThere())
			}
			r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{vkey}})
			if err != nil || !r.OK || len(r.Removed) > 0 != removed {
				t.Errorf("%v\n%s", err, r)
			}
		})
	}
}
