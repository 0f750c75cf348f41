// Package exported reads the events and blobs of an export, as ledger.ReadRecording needs
// them. It verifies only hashes: the caller verifies the export first, with
// audit.VerifyExport, and states the hash of the verified events and up to which position they are proven.
//
// The index of an export takes about 100 bytes of memory for each execution and 32 bytes for
// each of its events.
package exported

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// Store is an export. It is safe for concurrent use.
type Store struct {
	dir  string
	keys events.Keys
	file *os.File

	executions []Execution            // in the order of their requests
	lines      map[execution][]extent // the lines of events about an execution, in order
}

// Execution names an execution in an export.
type Execution struct {
	Tenant, ID string
	// Session is the name of its named session, or the id of its logical or ACP session;
	// empty for none.
	Session string
}

type execution struct{ tenant, id string }

// extent is the place of a line in the file of events, and the first half of its SHA-256.
type extent struct {
	from, to int64
	sum      [sha256.Size / 2]byte
}

func sumOf(line []byte) [sha256.Size / 2]byte {
	sum := sha256.Sum256(line)
	return [sha256.Size / 2]byte(sum[:])
}

// errChanged is returned for events that are not those that the caller has verified.
var errChanged = fmt.Errorf("%w: the events have changed since the export was verified; verify it again", events.ErrDamaged)

// Open reads the index of an export, whose file of events has the SHA-256 verified. Events after the position
// upTo are left out. keys are the content keys; nil for none. The caller MUST call Close. Files that change are an
// error of Open or of a later read.
func Open(dir string, verified []byte, upTo uint64, keys events.Keys) (*Store, error) {
	f, err := openRegular(filepath.Join(dir, proof.EventsFile))
	if err != nil {
		return nil, fmt.Errorf("open an export: %w", err)
	}
	s := &Store{dir: dir, keys: keys, file: f, lines: map[execution][]extent{}}
	all := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(f, all), 256<<10)
	err = s.index(in, upTo)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err == nil && !bytes.Equal(all.Sum(nil), verified) {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the export in %s: %w", dir, err), f.Close())
	}
	return s, nil
}

// Close closes the files.
func (s *Store) Close() error { return s.file.Close() }

func (s *Store) index(in *bufio.Reader, upTo uint64) error {
	for at := int64(0); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line at byte %d: %w", at, err)
		}
		where := extent{at, at + int64(len(line)) - 1, sumOf(bytes.TrimSuffix(line, []byte("\n")))}
		at += int64(len(line))
		record, err := proof.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			return fmt.Errorf("read line at byte %d: %w", where.from, err)
		}
		if record.Seq > upTo {
			return nil
		}
		m := eventproof.StoredOf(record)
		if !events.Type(events.HeaderValue(m.Header, "ce-type")).OfExecution() {
			continue
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			return err
		}
		key := execution{e.Tenant, e.About()}
		s.lines[key] = append(s.lines[key], where)
		if d, ok := e.Data.(*events.ExecutionRequested); ok {
			x := Execution{Tenant: e.Tenant, ID: d.ExecutionID, Session: d.Session}
			if d.Turn != nil {
				x.Session = d.Turn.SessionID
			}
			s.executions = append(s.executions, x)
		}
	}
}

// Executions returns the executions whose requests are in the export, oldest first.
func (s *Store) Executions() []Execution { return slices.Clone(s.executions) }

// Execution implements ledger.RecordStore.
func (s *Store) Execution(ctx context.Context, tenant, id string) ([]events.Event, error) {
	var list []events.Event
	err := s.each(ctx, tenant, id, func(e events.Event) error {
		switch e.Data.(type) {
		case *events.ExecutionOutput, *events.ExecutionOutputTruncated, *events.ExecutionReplayed:
			return nil
		}
		list = append(list, e)
		return nil
	})
	if len(list) == 0 && err == nil {
		err = events.ErrNotFound
	}
	return list, err
}

// EachAboutUntil implements ledger.RecordStore for output.
func (s *Store) EachAboutUntil(ctx context.Context, subject, about string, after, until uint64, fn func(events.Event) error) error {
	tenant, _, _ := bytes.Cut([]byte(subject), []byte("."))
	return s.each(ctx, string(tenant), about, func(e events.Event) error {
		if e.Seq <= after || e.Seq > until || e.Subject() != subject {
			return nil
		}
		return fn(e)
	})
}

// each calls fn for the events about an execution, in order, decrypted if the key is known.
func (s *Store) each(ctx context.Context, tenant, id string, fn func(events.Event) error) error {
	for _, where := range s.lines[execution{tenant, id}] {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		line := make([]byte, where.to-where.from)
		if _, err := s.file.ReadAt(line, where.from); err != nil {
			return fmt.Errorf("read the export: %w", err)
		}
		if sumOf(line) != where.sum {
			return fmt.Errorf("read the export in %s: %w", s.dir, errChanged)
		}
		record, err := proof.ParseLine(line)
		if err != nil {
			return fmt.Errorf("read the export: %w", err)
		}
		m := eventproof.StoredOf(record)
		e, err := events.Decode(m.Seq, m.Message())
		if err == nil && s.keys != nil {
			err = events.Decrypt(&e, s.keys)
		}
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// Text implements ledger.RecordStore. An export has no encrypted texts.
func (s *Store) Text(ctx context.Context, _, hash string) ([]byte, error) {
	return s.blob(ctx, "text-", hash)
}

// Heap implements replay.Heaps.
func (s *Store) Heap(ctx context.Context, _, hash string) ([]byte, events.HeapInfo, error) {
	heap, err := s.blob(ctx, "heap-", hash)
	return heap, events.HeapInfo{SHA256: hash, Size: int64(len(heap))}, err
}

// blob reads a file of the export and checks its hash. The error is events.ErrNotFound if the
// export was made without it, and events.ErrDamaged if the hash differs.
func (s *Store) blob(ctx context.Context, prefix, hash string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if !events.ValidHash(hash) {
		return nil, fmt.Errorf("%w: %.80q is not a hash", events.ErrDamaged, hash)
	}
	path := filepath.Join(s.dir, proof.BlobsDir, prefix+hash)
	raw, err := readBlob(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the export has no file %s/%s: %w", proof.BlobsDir, prefix+hash, events.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read a blob of the export: %w", err)
	case events.Hash(raw) != hash:
		return nil, fmt.Errorf("%s: %w", path, events.ErrDamaged)
	}
	return raw, nil
}

// maxBlobBytes is the maximum size of a blob, as in the blob store of a server. The operator of a ledger can sign the
// hash of a larger one.
const maxBlobBytes = 512 << 20

func readBlob(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBlobBytes {
		return nil, fmt.Errorf("%s has %d bytes, and a blob at most %d MiB: %w", path, info.Size(), maxBlobBytes>>20, events.ErrDamaged)
	}
	raw := make([]byte, info.Size())
	_, err = io.ReadFull(f, raw)
	return raw, err
}

// openRegular opens a file. An export comes from others: a pipe or a device in it could have no end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}
