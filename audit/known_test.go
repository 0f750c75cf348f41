package audit_test

import (
	"errors"
	"path/filepath"
	"testing"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// A kept checkpoint counts if a key signed it that the given key introduced, everywhere where the statements are
// known. One of a key that nothing introduces is refused.
func TestKnownCheckpointOfAnIntroducedKey(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	first := log.VKey()
	if _, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"}); err != nil {
		t.Fatal(err)
	}
	kept := translogtest.Checkpoint(t, log, fill(t, store, 2))
	out := exported(t, log, store)
	server := &liar{local: audit.Local{Log: log.Log, Stream: store, Blobs: store}}
	server.change = func(answer map[string]any) { answer["signers"] = server.state.Signers }
	thief, _ := translogtest.NewSigner(t, log.Origin())
	foreign, err := proof.Checkpoint{Origin: kept.Origin, Size: kept.Size, Root: kept.Root}.Sign(thief)
	if err != nil {
		t.Fatal(err)
	}
	type verify func(opts audit.VerifyOptions) (*audit.Report, error)
	check := func(of string, verify verify) {
		t.Helper()
		opts := audit.VerifyOptions{Keys: []string{first}, Known: []proof.Checkpoint{kept}, SkipBlobs: true}
		if r, err := verify(opts); err != nil || r.Verdict != audit.Intact || r.Known != 1 {
			t.Errorf("%s: %v\n%s", of, err, r)
		}
		opts.Known = []proof.Checkpoint{foreign}
		if _, err := verify(opts); !isKnownError(err) {
			t.Errorf("%s: a checkpoint of a foreign key: %v", of, err)
		}
	}
	check("a server", func(opts audit.VerifyOptions) (*audit.Report, error) {
		return audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), opts)
	})
	check("a sample", func(opts audit.VerifyOptions) (*audit.Report, error) {
		return audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 2})
	})
	check("an export", func(opts audit.VerifyOptions) (*audit.Report, error) {
		return audit.VerifyExport(t.Context(), out, opts)
	})
	finish(t, log, store)
	check("at rest", func(opts audit.VerifyOptions) (*audit.Report, error) {
		opts.Dir = translog.Dir(dir)
		return audit.Verify(t.Context(), store, store, opts)
	})
}

// A checkpoint that earlier verifications kept is compared although its key was retired at a smaller size since.
// One that is only given is refused then.
func TestRememberedCheckpointOfARetiredKey(t *testing.T) {
	t.Parallel()
	store, dir, key := newStore(t), t.TempDir(), filepath.Join(t.TempDir(), "key")
	log := start(t, store, translog.Options{Dir: dir, KeyFile: key})
	fill(t, store, 3)
	translogtest.Checkpoint(t, log, 3)
	first := log.VKey()
	if _, err := log.RotateKey(t.Context(), store, events.Actor{Principal: "alice"}); err != nil {
		t.Fatal(err)
	}
	holds := translogtest.Checkpoint(t, log, fill(t, store, 4))
	finish(t, log, store)
	retired := keySigner(t, key+".ended1")
	for root, want := range map[proof.Hash]audit.Verdict{holds.Root: audit.Intact, {1}: audit.Forked} {
		kept, err := proof.Checkpoint{Origin: holds.Origin, Size: holds.Size, Root: root}.Sign(retired)
		if err != nil {
			t.Fatal(err)
		}
		opts := audit.VerifyOptions{Keys: []string{first}, Signers: log.Signers(), Known: []proof.Checkpoint{kept}, Remembered: 1, Dir: translog.Dir(dir)}
		if r, err := audit.Verify(t.Context(), store, store, opts); err != nil || r.Verdict != want {
			t.Errorf("want %s: %v\n%s", want, err, r)
		}
		opts.Remembered = 0
		if _, err := audit.Verify(t.Context(), store, store, opts); !isKnownError(err) {
			t.Errorf("not remembered: %v", err)
		}
	}
}

func isKnownError(err error) bool {
	_, ok := errors.AsType[*audit.KnownError](err)
	return ok
}
