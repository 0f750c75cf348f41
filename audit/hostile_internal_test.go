package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/proof"
)

// The lines in memory have a maximum length together, however long each is.
func TestBatchesOfLongLines(t *testing.T) {
	t.Parallel()
	long, lines := make([]byte, maxBatchBytes/4), 0
	b := batches{emit: func(list []pair) error {
		length := 0
		for _, p := range list {
			length += len(p.line) + len(p.proof)
		}
		if lines += len(list); length > maxBatchBytes {
			t.Errorf("%d lines with %d bytes are emitted together", len(list), length)
		}
		return nil
	}}
	for range 10 {
		if err := b.add(long, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.flush(); err != nil || lines != 10 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// A pipe or a device in the place of a file of an export is refused, and not read until it ends.
func TestSpecialFilesInAnExport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{proof.ManifestFile, proof.CheckpointFile} {
		dir := t.TempDir()
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		within := func(what string, fn func() error) {
			done := make(chan error, 1)
			go func() { done <- fn() }()
			select {
			case err := <-done:
				if err == nil {
					t.Errorf("%s reads the pipe %s", what, name)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s waits for the pipe %s", what, name)
			}
		}
		within("readSmall", func() error { _, err := readSmall(filepath.Join(dir, name), 1); return err })
		within("hashFile", func() error { _, err := hashFile(dir, name); return err })
	}
	if _, err := readSmall("/dev/zero", 1); err == nil {
		t.Error("a device is read")
	}
}

// noBlobs has no blob.
type noBlobs struct{}

func (noBlobs) Heap(context.Context, string, string) ([]byte, events.HeapInfo, error) {
	return nil, events.HeapInfo{}, events.ErrNotFound
}

func (noBlobs) Text(context.Context, string, string) ([]byte, error) { return nil, events.ErrNotFound }

// If very many blobs are missing, the report counts all and lists the first ones by position.
func TestManyMissingBlobs(t *testing.T) {
	t.Parallel()
	const missing = 5*mostFindings + 7
	v := newVerifier(VerifyOptions{}, false)
	defer v.close()
	for n := range uint64(missing) {
		v.rules.blobs.put(Blob{Tenant: events.DefaultTenant, Heap: n%2 == 0, SHA256: events.Hash(fmt.Append(nil, n))}, blobState{blobNamed, n + 1})
	}
	if err := v.readBlobs(t.Context(), noBlobs{}); err != nil {
		t.Fatal(err)
	}
	if v.report.Found != missing || len(v.report.Findings) != mostFindings {
		t.Errorf("%d blobs of %d are counted, %d are listed", v.report.Found, missing, len(v.report.Findings))
	}
	for i, f := range v.report.Findings {
		if f.Position != uint64(i)+1 {
			t.Fatalf("finding %d is about event %d", i, f.Position)
		}
	}
}

// Names of blobs that are no hashes are findings without a request, and take no memory for each.
func TestMalformedNamesOfBlobs(t *testing.T) {
	t.Parallel()
	const malformed = 3 * mostFindings
	v := newVerifier(VerifyOptions{}, false)
	defer v.close()
	for n := range uint64(malformed) {
		b := Blob{Tenant: events.DefaultTenant, SHA256: fmt.Sprint(n, strings.Repeat("/../x", 1000))}
		v.rules.blobs.put(b, blobState{blobNamed, n + 1})
		if got := v.rules.blobs.get(b); got.seq != n+1 {
			t.Fatalf("blob %d is named by event %d", n, got.seq)
		}
	}
	if n := len(v.rules.blobs.odd); n > mostFindings {
		t.Errorf("%d names are in memory", n)
	}
	err := v.readBlobs(t.Context(), NewRemote(func(context.Context, string, ...string) (*http.Response, error) {
		t.Error("a malformed name is in a request")
		return nil, errors.New("no answer")
	}, nil))
	if err != nil || v.report.Found != malformed || !strings.Contains(v.report.Findings[0].What, "0/../x") || len(v.report.Findings[0].What) > 300 {
		t.Errorf("%v, %d findings, the first is %v", err, v.report.Found, v.report.Findings[0])
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte("x\n"), len(b)/2+1)), nil
}

// A server that sends more events than it was asked for is not read without end.
func TestEndlessEvents(t *testing.T) {
	t.Parallel()
	v := newVerifier(VerifyOptions{}, false)
	defer v.close()
	r := NewRemote(func(context.Context, string, ...string) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{})}, nil
	}, nil)
	err := v.readOffered(t.Context(), r, proof.Checkpoint{Size: 9}, proof.ExportSelection{From: 5})
	if _, ok := errors.AsType[*AnswerError](err); !ok {
		t.Error(err)
	}
}

// Very many checkpoints over lost events take no memory for each. They are findings, unless a trusted successor
// supersedes them.
func TestManyCheckpointsOverALoss(t *testing.T) {
	t.Parallel()
	const size = 10 * mostFindings
	newSigner := func(name string) (note.Signer, string) {
		skey, vkey, err := note.GenerateKey(rand.Reader, name)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		return signer, vkey
	}
	first, firstKey := newSigner("example.org/ledger")
	second, secondKey := newSigner("example.org/ledger/2")
	list := &proof.Signers{}
	for _, st := range []proof.Statement{
		{Origin: "example.org/ledger", Key: firstKey},
		{Origin: "example.org/ledger/2", Key: secondKey, Predecessor: "example.org/ledger", Size: 1},
	} {
		next := list.Next(proof.StartOrigin, st.Key, st.Size)
		next.Origin, next.Predecessor = st.Origin, st.Predecessor
		signer := first
		if st.Predecessor != "" {
			signer = second
		}
		next, err := next.Sign(signer)
		if err == nil {
			_, err = list.Add(next.Note)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for found, keys := range map[int][]string{mostFindings: {firstKey}, 0: {firstKey, secondKey}} {
		v := newVerifier(VerifyOptions{Keys: keys, Signers: list}, false)
		defer v.close()
		v.startedAt = 1
		v.expectLost(events.Lost{{From: 2, To: size, NamedAt: size + 1}})
		for n := uint64(size); n > 1; n-- {
			c, err := proof.Checkpoint{Origin: first.Name(), Size: n}.Sign(first)
			if err != nil {
				t.Fatal(err)
			}
			v.noteUncomparable(c)
		}
		if n := len(v.uncomparable[uncomparable{first.Name(), size + 1}]); n > mostFindings {
			t.Errorf("%d sizes are in memory", n)
		}
		v.checkUncomparable()
		if v.report.Incomparable != size-1 || v.report.Found != found || found > 0 && !strings.Contains(v.report.Findings[0].What, "over 2 events") {
			t.Errorf("%d cannot be compared, %d findings: %v", v.report.Incomparable, v.report.Found, v.report.Findings)
		}
	}
}

// A report keeps its times when the list of times moves them.
func TestTimesOfAReport(t *testing.T) {
	t.Parallel()
	list, at := eventTimes{}, time.Unix(1764000000, 0)
	for p := range uint64(mostTimes) {
		list.add(p+1, at.Add(time.Duration(p)))
	}
	newest, next := list.around(mostTimes - 1)
	for p := range uint64(mostTimes / 2) {
		list.add(mostTimes+p+1, at.Add(time.Hour))
	}
	if want := at.Add(mostTimes - 2); !newest.Equal(want) || !next.Equal(want.Add(1)) {
		t.Errorf("%s and %s, want %s and the next nanosecond", newest, next, want)
	}
}
