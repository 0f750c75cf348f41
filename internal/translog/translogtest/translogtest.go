// Package translogtest runs logs over the ledgers of tests.
package translogtest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/proof"
)

// every is so long that checkpoints are created only on request.
const every = time.Hour

// Running is a log that follows a ledger.
type Running struct {
	*translog.Log
	// Ended receives the result of Run and is then closed.
	Ended chan error
	stop  context.CancelFunc
}

// Close stops the log and returns the error of Run, nil if it was stopped.
func (r *Running) Close() error {
	r.stop()
	if err := <-r.Ended; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// AwaitEnd waits until Run has ended without Close, and returns its error.
func (r *Running) AwaitEnd(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.Ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the log continues")
		return nil
	}
}

// Start opens the log in opts.Dir and runs it until the test ends.
func Start(t testing.TB, store *jetstream.Store, opts translog.Options) *Running {
	t.Helper()
	opts.NoSync = true
	if opts.Every == 0 {
		opts.Every = every
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	log, err := translog.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{Log: log, stop: stop, Ended: make(chan error, 1)}
	go func() {
		err := log.Run(ctx, store, store)
		if ctx.Err() != nil {
			err = nil
		}
		r.Ended <- err
		close(r.Ended)
	}()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Request returns an event that requests an execution.
func Request(id string) events.Event {
	return events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}}),
	})
}

// Fill appends n requests and returns the position of the last.
func Fill(t testing.TB, store *jetstream.Store, n int) (last uint64) {
	t.Helper()
	for range n {
		var err error
		if last, err = store.Append(t.Context(), Request(events.NewID(time.Now())), 0); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// Checkpoint returns a checkpoint that covers a position.
func Checkpoint(t testing.TB, log *Running, covers uint64) proof.Checkpoint {
	t.Helper()
	c, err := log.Checkpoint(t.Context(), covers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Checkpoints returns the checkpoints in an audit directory, in the order of their sizes.
func Checkpoints(t testing.TB, dir string) (list []proof.Checkpoint) {
	t.Helper()
	for c, err := range translog.Dir(dir).Checkpoints() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// NewSigner returns a new key with its verification key.
func NewSigner(t testing.TB, name string) (signer note.Signer, vkey string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, name)
	if err == nil {
		signer, err = note.NewSigner(skey)
	}
	if err != nil {
		t.Fatal(err)
	}
	return signer, vkey
}

// SignerOf returns the key in a file.
func SignerOf(t testing.TB, path string) note.Signer {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// Forge appends a checkpoint of the first events that a new key signs in the name of an origin.
func Forge(t testing.TB, store *jetstream.Store, origin string, size uint64) {
	t.Helper()
	signer, _ := NewSigner(t, origin)
	stored, err := store.ReadRaw(t.Context(), 0, int(size))
	if err != nil {
		t.Fatal(err)
	}
	tree := proof.NewTree(nil)
	for _, m := range stored {
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := proof.Checkpoint{Origin: origin, Size: size, Root: tree.Root()}.Sign(signer)
	if err == nil {
		_, err = store.Append(t.Context(), events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
			LedgerID: "forged", Origin: origin, Size: size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note),
		}), -1)
	}
	if err != nil {
		t.Fatal(err)
	}
}
