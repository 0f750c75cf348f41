package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/projections"
	"daybook/proof"

	"golang.org/x/mod/sumdb/note"
)

// sound is a sound ledger that attacks change in copies: two volumes, a full tile, sessions, heaps and
// long texts.
type sound struct {
	// files are the files of the data directory, and keyFiles those of the signing key if it is
	// elsewhere.
	files, keyFiles map[string][]byte
	key             string
	// signer is the genuine key, and forger another one of its name.
	signer note.Signer
	forger verdicts.Forger
	// stored are all messages as a reader sees them, and blobs the heaps and texts that they name.
	stored []events.Stored
	blobs  map[audit.Blob][]byte
	// later is the ledger after further runs, if the test needs it.
	later *sound
	// newest is the newest checkpoint. It covers all events.
	newest proof.Checkpoint
}

// proofOptions are the options of the ledgers of sound. keyFile is "" for a key in the directory.
func proofOptions(dir, keyFile string) embed.Options {
	return embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true, Addr: "127.0.0.1:0"}, Proof: embed.ProofOptions{KeyFile: keyFile}}
}

// ledgerToAttack builds a ledger. If keyElsewhere is set, its key is not in the data directory.
func ledgerToAttack(t *testing.T, keyElsewhere bool) *sound {
	t.Helper()
	dir, keys, keyFile := filepath.Join(t.TempDir(), "data"), t.TempDir(), ""
	if keyElsewhere {
		keyFile = filepath.Join(keys, "key")
	}
	opts := proofOptions(dir, keyFile)
	opts.Runs.Stateless = true // many small runs
	book := startWith(t, opts)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for n := range 70 {
		if n == 30 {
			post(t, book, "/api/ledger/checkpoint", "")
		}
		if n == 60 {
			post(t, book, "/api/ledger/volumes/seal", "")
		}
		runOnce(ctx, t, book, embed.Script{Code: fmt.Sprintf("console.log('line %d'); %d", n, n)})
	}
	closeOrFail(t, book)
	book = startWith(t, proofOptions(dir, keyFile))
	heap := ""
	for n := range 2 {
		heap = *runOnce(ctx, t, book, embed.Script{Code: fmt.Sprintf("globalThis.n = (globalThis.n ?? 0) + %d; n", n), Heap: heap, Session: "large", Tags: map[string]string{"round": fmt.Sprint(n)}}).Heap
	}
	runOnce(ctx, t, book, embed.Script{Code: "/*" + strings.Repeat("a long source ", 8000) + "*/ 'y'.repeat(100_000)", Session: "large"})
	y := &sound{key: book.AuditKey()}
	closeOrFail(t, book)
	y.files = readFiles(t, dir)
	delete(y.files, "ballast") // it only takes space
	keyRaw := y.files["audit/key"]
	if keyElsewhere {
		y.keyFiles = readFiles(t, keys)
		keyRaw = y.keyFiles["key"]
	}
	var err error
	if y.signer, err = note.NewSigner(strings.TrimSpace(string(keyRaw))); err != nil {
		t.Fatal(err)
	}
	y.forger = verdicts.NewForger(t, y.signer.Name())
	y.read(t)
	return y
}

// read fills stored, blobs and newest from the files.
func (y *sound) read(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := writeFiles(dir, y.files); err != nil {
		t.Fatal(err)
	}
	r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: dir, Keys: []string{y.key}})
	if err != nil || r.Verdict != audit.Intact {
		t.Fatalf("the ledger before any attack: %v\n%s", err, r)
	}
	if y.newest, err = proof.ParseCheckpoint([]byte(r.Checkpoint)); err != nil {
		t.Fatal(err)
	}
	err = withStreams(t.Context(), dir, true, func(store *jetstream.Store) error {
		if y.stored, err = storedIn(t.Context(), store); err != nil {
			return err
		}
		list, err := audit.ReferencedBlobs(t.Context(), store)
		y.blobs = map[audit.Blob][]byte{}
		for _, b := range list {
			if y.blobs[b], err = blobIn(t.Context(), store, b); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil || uint64(len(y.stored)) != y.newest.Size || len(y.blobs) < 4 {
		t.Fatalf("%d messages, a checkpoint of %d, %d blobs, %v", len(y.stored), y.newest.Size, len(y.blobs), err)
	}
}

// withStreams calls fn with the streams of a data directory that no process uses. With noSync set, what fn
// appends is not synced.
func withStreams(ctx context.Context, dir string, noSync bool, fn func(*jetstream.Store) error) error {
	logger := slog.New(slog.DiscardHandler)
	server, err := natsserver.Start(ctx, natsserver.Options{StoreDir: filepath.Join(dir, "jetstream"), NoSync: noSync, Logger: logger})
	if err != nil {
		return err
	}
	defer server.Close()
	publish, err := server.Conn("publish")
	if err != nil {
		return err
	}
	defer publish.Close()
	consume, err := server.Conn("consume")
	if err != nil {
		return err
	}
	defer consume.Close()
	store, err := jetstream.Open(ctx, publish, consume, jetstream.Options{
		Client: jet.Options{Logger: logger}, Exclusive: true, OpenAdminConn: server.AdminConn, OnVolumeOpened: server.ExposeStream,
	})
	if err != nil {
		return err
	}
	return fn(store)
}

func storedIn(ctx context.Context, store *jetstream.Store) ([]events.Stored, error) {
	var list []events.Stored
	for {
		batch, err := store.ReadRaw(ctx, uint64(len(list)), 1000)
		if err != nil || len(batch) == 0 {
			return list, err
		}
		for _, m := range batch {
			m.Body, m.Header = slices.Clone(m.Body), clone(m.Header)
			list = append(list, m)
		}
	}
}

func clone(h map[string][]string) map[string][]string {
	c := make(map[string][]string, len(h))
	for name, values := range h {
		c[name] = slices.Clone(values)
	}
	return c
}

func blobIn(ctx context.Context, store *jetstream.Store, b audit.Blob) ([]byte, error) {
	if b.Heap {
		raw, _, err := store.StoredHeap(ctx, b.Tenant, b.SHA256)
		return raw, err
	}
	return store.RawText(ctx, b.Tenant, b.SHA256)
}

// seen returns a message as a reader sees it: the position, the subject, the attributes and the
// payload. The headers of the transport are no part of an event.
func seen(m events.Stored) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", m.Seq, m.Subject)
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		if strings.HasPrefix(name, "ce-") || name == "content-type" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %q\n", name, m.Header[name])
	}
	b.Write(m.Body)
	return b.String()
}

// compare returns an error unless a reader of a data directory sees the events up to a position
// and all blobs of y. It reads them from the streams, and uses no proof.
func (y *sound) compare(ctx context.Context, dir string, upTo uint64) error {
	return withStreams(ctx, dir, true, func(store *jetstream.Store) error {
		got, err := storedIn(ctx, store)
		switch {
		case err != nil:
			return err
		case upTo > uint64(len(got)) || upTo > uint64(len(y.stored)):
			return fmt.Errorf("there are %d events, not %d", len(got), upTo)
		}
		for i, m := range got[:upTo] {
			if want := seen(y.stored[i]); seen(m) != want {
				return fmt.Errorf("event %d is\n%.1000s\nnot\n%.1000s", i+1, seen(m), want)
			}
		}
		for b, want := range y.blobs {
			if raw, err := blobIn(ctx, store, b); err != nil || !bytes.Equal(raw, want) {
				return fmt.Errorf("the blob %s has another content, %w", b.SHA256, err)
			}
		}
		return nil
	})
}

func startWith(t testing.TB, opts embed.Options) *embed.Daybook {
	t.Helper()
	book, err := embed.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// archiveOldest starts a Daybook with two sealed volumes, and stops it once the older one is an
// archive without a stream and the copy of the projections is recorded. As long as there is a stream,
// no reader uses the archive.
func archiveOldest(t testing.TB, opts embed.Options) {
	t.Helper()
	book := startWith(t, opts)
	for late := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, volumes := ask(book, "/api/ledger/volumes")
		status, copies := ask(book, "/api/events?limit=1&type="+string(events.TypeLedgerProjectionsCopied))
		_, err := os.Stat(filepath.Join(opts.DataDir, streamFiles, events.Volume(1).Stream()))
		if strings.Contains(volumes, `"archived":true`) && errors.Is(err, fs.ErrNotExist) && status == http.StatusOK && copies != "" {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("volumes %s, stream %v, copies %s", volumes, err, copies)
		}
	}
	closeOrFail(t, book)
}

func closeOrFail(t testing.TB, book *embed.Daybook) {
	t.Helper()
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
}

func runOnce(ctx context.Context, t testing.TB, book *embed.Daybook, s embed.Script) projections.ExecutionDetail {
	t.Helper()
	e, err := book.Run(ctx, s)
	if err != nil || e.Result == nil {
		t.Fatalf("run: %s, %v", e.Status, err)
	}
	return e
}

// post returns the answer to a POST request, which must succeed.
func post(t testing.TB, book *embed.Daybook, path, body string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	book.Handler().ServeHTTP(w, r)
	raw, _ := io.ReadAll(w.Body)
	if w.Code/100 != 2 {
		t.Fatalf("%s is answered %d: %s", path, w.Code, raw)
	}
	return string(raw)
}

// words returns the verdict on a data directory with the genuine key and kept checkpoints.
func (y *sound) words(t *testing.T, dir string, kept ...proof.Checkpoint) (string, *audit.Report) {
	t.Helper()
	opts := embed.VerifyOptions{DataDir: dir, Keys: []string{y.key}}
	for _, c := range kept {
		opts.Checkpoints = append(opts.Checkpoints, c.Note)
	}
	r, err := embed.Verify(t.Context(), opts)
	if err != nil {
		if !isListed(err) {
			t.Errorf("the verification failed with %v", err)
		}
		return string(unanswered), &audit.Report{Source: err.Error()}
	}
	return verdicts.Words(r.Verdict), r
}
