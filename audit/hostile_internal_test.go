package audit

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

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
