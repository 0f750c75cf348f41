package translog

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/proof"
)

// A checkpoint that a witness shows is compared with the events, and not with files of the tree that are wrong:
// it is no proof against an intact ledger.
func TestWitnessAndWrongFiles(t *testing.T) {
	t.Parallel()
	signer, err := proof.NewWitnessSigner("example.com/w", make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	ledger := newMemoryLedger()
	ledger.fill(t, 100)
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	l, err := Open(Options{Dir: dir, KeyFile: key, NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger) }()
	sign(t, l, ledger) // a start compares the statement, which is in the first tile
	ledger.fill(t, 200)
	sign(t, l, ledger)
	witnessed, _ := l.Latest()
	ledger.fill(t, 400)
	sign(t, l, ledger)
	stop()
	<-ended
	if witnessed.Size <= 256 || witnessed.Size >= 512 || l.durable <= 512 {
		t.Fatalf("the witness knows %d events of %d", witnessed.Size, l.durable)
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.Method != http.MethodGet {
			http.Error(out, "not now", http.StatusServiceUnavailable)
			return
		}
		_, _ = out.Write(witnessed.Note)
	}))
	t.Cleanup(server.Close)
	copied := func(t *testing.T) Options {
		opts := Options{Dir: filepath.Join(t.TempDir(), "audit"), KeyFile: filepath.Join(t.TempDir(), "key"), WitnessPolicy: filepath.Join(t.TempDir(), "policy"), NoSync: true, Every: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		err := os.CopyFS(opts.Dir, os.DirFS(dir))
		for _, suffix := range []string{"", signedSuffix} {
			raw, readErr := os.ReadFile(key + suffix)
			err = errors.Join(err, readErr, os.WriteFile(opts.KeyFile+suffix, raw, 0o600))
		}
		policy := "witness w " + signer.Key().String() + " " + server.URL + "\nquorum w\n"
		if err = errors.Join(err, os.WriteFile(opts.WitnessPolicy, []byte(policy), 0o600)); err != nil {
			t.Fatal(err)
		}
		return opts
	}

	t.Run("a wrong file", func(t *testing.T) {
		opts := copied(t)
		flipBit(t, opts.Dir, "0/001")
		before, err := os.ReadFile(opts.KeyFile + signedSuffix)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		within, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := again.Run(within, ledger, ledger); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "the files of the tree do not match its tree hash") {
			t.Errorf("Run: %v", err)
		}
		if now, err := os.ReadFile(opts.KeyFile + signedSuffix); err != nil || string(now) != string(before) {
			t.Errorf("the signed file has %s, %v", now, err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(opts.Dir, "tile")), os.Remove(filepath.Join(opts.Dir, fileDurable))); err != nil {
			t.Fatal(err)
		}
		follow(t, ledger, opts)
	})

	t.Run("the files of other events", func(t *testing.T) {
		opts := copied(t)
		for _, path := range []string{filepath.Join(opts.Dir, fileCheckpoints), opts.KeyFile + signedSuffix} { // nothing else contradicts them
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		files := &tileFiles{dir: opts.Dir}
		tree, genuine := proof.NewTree(files), l.tree.PartialLeaves()
		for tree.Size()+uint64(len(genuine)) < l.tree.Size() {
			if err := tree.Add(proof.Hash{1}); err != nil {
				t.Fatal(err)
			}
		}
		for _, leaf := range genuine { // the start compares these with the events
			if err := tree.Add(leaf); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(files.save(tree), writeDurable(opts.Dir, durableTree{tree.Size(), tree.Size(), tree.Root()}, false)); err != nil {
			t.Fatal(err)
		}
		again, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- again.Run(ctx, ledger, ledger) }()
		awaitChange(t, again, "checkpoint", func() bool { return again.latest.Note != nil && again.damage == nil })
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || again.Origin() != witnessed.Origin {
			t.Errorf("Run: %v; signed as %s", err, again.Origin())
		}
	})
}
