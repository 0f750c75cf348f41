package audit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// ExportOptions configure an export.
type ExportOptions struct {
	// Dir is the directory of the export. Export creates it; with Resume set, it continues an
	// unfinished export in it.
	Dir       string
	Resume    bool
	Selection proof.ExportSelection
	// WithLosses ends the selection later, if necessary, at the event that records the losses in it. Without that
	// event, the export cannot be verified.
	WithLosses bool
	// Checkpoint is the signed checkpoint to export under; nil takes the newest. The same
	// selection under the same checkpoint gives the same bytes.
	Checkpoint []byte
	// Blobs includes the heaps and texts that the events name.
	Blobs bool
	// Progress, if set, is called periodically with the current and the last position.
	Progress func(done, total uint64)
}

// Exported describes a finished export.
type Exported struct {
	Dir        string                `json:"dir"`
	Events     uint64                `json:"events"`
	Blobs      int                   `json:"blobs"`
	Bytes      uint64                `json:"bytes"`
	Size       uint64                `json:"checkpoint_size"`
	Root       string                `json:"root"`
	Complete   bool                  `json:"complete"`
	Selection  proof.ExportSelection `json:"-"`
	Resumed    bool                  `json:"resumed"`
	Checkpoint []byte                `json:"-"`
	// Pending is the number of newer events that no checkpoint covers yet.
	Pending uint64 `json:"pending,omitempty"`
}

// Export writes events, proofs and a signed checkpoint to a directory that can be verified with
// the ledger's key alone. An interrupted export can be resumed; its files are then the same as
// without the interruption.
func Export(ctx context.Context, src Source, opts ExportOptions) (Exported, error) {
	x := &export{opts: opts, src: src}
	if err := x.begin(ctx); err != nil {
		return Exported{}, fmt.Errorf("export to %s: %w", opts.Dir, err)
	}
	err := x.write(ctx)
	if err == nil {
		err = x.end(ctx)
	}
	switch {
	case err == nil:
		return x.done, nil
	case errors.Is(err, errCollected):
		return Exported{}, fmt.Errorf("export to %s: %w; remove that directory, and export without --heaps, or export the whole ledger, which has the event", opts.Dir, err)
	case errors.Is(err, errNoMatch):
		return Exported{}, fmt.Errorf("export to %s: %w", opts.Dir, errors.Join(err, x.discard()))
	case errors.Is(err, events.ErrRemoved) || codeOf(err) == codeGone:
		return Exported{}, fmt.Errorf("export to %s: it cannot be finished, because data that it lacks was removed after it was started: %w; remove that directory and export again, which begins after the removed volumes; their own exports have the rest", opts.Dir, err)
	default:
		return Exported{}, fmt.Errorf("export to %s (continue with --resume): %w", opts.Dir, err)
	}
}

// DirError is returned by Export and VerifyExport for a directory that cannot be used as
// requested, such as one with other files. It may wrap an error of the system.
type DirError struct{ err error }

// Error returns the message.
func (e *DirError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *DirError) Unwrap() error { return e.err }

// errCollected is returned for a heap that was deleted, if the selection lacks the event that
// records this. Verifiers then expect the heap.
var errCollected = errors.New("the selection names a heap that was deleted since, and does not have the event that records this")

var errNoMatch = errors.New("no recorded event matches, so nothing is exported; choose a larger range or time, or another execution or session")

// discard removes the files of an export without events.
func (x *export) discard() error {
	var errs []error
	for _, name := range []string{proof.UnfinishedFile, proof.CheckpointFile, proof.EventsFile, proof.ProofsFile} {
		if err := os.Remove(x.path(name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// export is an export in progress.
type export struct {
	opts     ExportOptions
	src      Source
	c        proof.Checkpoint
	manifest proof.Manifest
	complete bool
	done     Exported
}

func (x *export) path(name ...string) string {
	return filepath.Join(append([]string{x.opts.Dir}, name...)...)
}

// begin creates the directory, or opens an unfinished export.
func (x *export) begin(ctx context.Context) error {
	unfinished, err := os.ReadFile(x.path(proof.UnfinishedFile))
	switch {
	case err == nil && !x.opts.Resume:
		return &DirError{errors.New("it contains an unfinished export; continue it with --resume, or remove it")}
	case err == nil:
		return x.resume(unfinished)
	case !errors.Is(err, fs.ErrNotExist):
		return &DirError{err}
	case x.opts.Resume:
		return &DirError{errors.New("there is no unfinished export to continue")}
	}
	if list, err := os.ReadDir(x.opts.Dir); err == nil && len(list) > 0 {
		return &DirError{errors.New("it is not empty; name a directory that does not exist")}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &DirError{err}
	}
	covers := x.opts.Selection.To
	if x.opts.Checkpoint != nil {
		covers = max(covers, 1) // with 0, the source could sign a new checkpoint, which is not needed
	}
	signed, err := x.src.Signed(ctx, covers)
	if err != nil {
		return err
	}
	if x.opts.WithLosses && x.opts.Selection.To > 0 {
		x.opts.Selection.To = endWithLosses(signed.Lost, x.opts.Selection.From, x.opts.Selection.To)
		if x.opts.Checkpoint == nil && x.opts.Selection.To > signed.Checkpoint.Size {
			if signed, err = x.src.Signed(ctx, x.opts.Selection.To); err != nil {
				return err
			}
		}
	}
	x.c = signed.Checkpoint
	if x.opts.Selection.To == 0 && x.opts.Checkpoint == nil {
		x.done.Pending = signed.Pending
	}
	if x.opts.Checkpoint != nil {
		if x.c, err = proof.OpenCheckpoint(x.opts.Checkpoint, signed.VKeys...); err != nil {
			return err
		}
	} else {
		x.c = withCosignatures(ctx, x.src, x.c, signed.VKeys)
	}
	s := x.opts.Selection
	if signed.Tenant != "" {
		s.Tenant = signed.Tenant
	}
	if s, err = s.SkipRemoved(signed.Removed); err != nil {
		return err
	}
	if s, err = s.Resolve(x.c.Size); err != nil {
		return err
	}
	for _, r := range signed.Lost {
		if s.IsUnfiltered() && r.From <= s.To && r.To >= s.From && r.NamedAt > s.To {
			return fmt.Errorf("positions %d to %d were lost, which event %d records; without this event nothing proves the loss: end the range there or later, with --to %d", r.From, r.To, r.NamedAt, r.NamedAt)
		}
	}
	x.manifest = proof.Manifest{Origin: x.c.Origin, VKeys: signed.VKeys, Size: x.c.Size, Root: x.c.Root, Selection: s, Blobs: x.opts.Blobs}
	signers, err := proof.ParseSigners([]byte(signed.Signers))
	if err != nil {
		return err
	}
	x.manifest.Signers = string(signers.Under(x.c))
	x.complete = s.IsComplete(x.c.Size)
	if err := os.MkdirAll(x.opts.Dir, 0o755); err != nil {
		return &DirError{err}
	}
	if err := durable.WriteFileUnsynced(x.path(proof.CheckpointFile), x.c.Note, 0o644); err != nil {
		return err
	}
	return durable.WriteFileUnsynced(x.path(proof.UnfinishedFile), x.manifest.Encode(), 0o644)
}

// resume continues an unfinished export of the same selection.
func (x *export) resume(raw []byte) error {
	var err error
	if x.manifest, err = proof.ParseManifest(raw); err != nil {
		return err
	}
	note, err := os.ReadFile(x.path(proof.CheckpointFile))
	if err != nil {
		return err
	}
	if x.c, err = proof.OpenCheckpoint(note, x.manifest.VKeys...); err != nil {
		return err
	}
	want := x.opts.Selection
	if want.From == 0 { // the first position of the ledger at the start of the export
		want.From = x.manifest.Selection.From
	}
	if x.opts.WithLosses && want.To > 0 { // it was ended later at the start of the export
		want.To = max(want.To, x.manifest.Selection.To)
	}
	if want, err = want.Resolve(x.c.Size); err != nil {
		return err
	}
	if want.Tenant == "" {
		want.Tenant = x.manifest.Selection.Tenant
	}
	if want != x.manifest.Selection || x.opts.Blobs != x.manifest.Blobs {
		return &DirError{errors.New("the unfinished export is of another selection; give the same flags as at its start")}
	}
	x.done.Resumed = true
	x.complete = want.IsComplete(x.c.Size)
	return nil
}

// write writes the events and proofs that are missing.
func (x *export) write(ctx context.Context) error {
	after, err := x.cut()
	if err != nil {
		return err
	}
	lines, err := openLines(x.path(proof.EventsFile))
	if err != nil {
		return err
	}
	defer lines.file.Close()
	var proofs *lineFile
	if !x.complete {
		if proofs, err = openLines(x.path(proof.ProofsFile)); err != nil {
			return err
		}
		defer proofs.file.Close()
	}
	s := x.manifest.Selection
	seen := 0
	err = x.src.Lines(ctx, x.c, s, after, func(line, inclusion []byte) error {
		if seen++; x.opts.Progress != nil && seen%readAtOnce == 0 {
			if m, err := proof.ParseLine(line); err == nil {
				x.opts.Progress(m.Seq, s.To)
			}
		}
		if err := lines.write(line); err != nil || proofs == nil {
			return err
		}
		return proofs.write(inclusion)
	})
	err = errors.Join(err, lines.close())
	if proofs != nil {
		err = errors.Join(err, proofs.close())
	}
	return err
}

// lineFile is a file to which lines are appended.
type lineFile struct {
	file *os.File
	w    *bufio.Writer
}

func openLines(path string) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &lineFile{f, bufio.NewWriterSize(f, 256<<10)}, nil
}

func (l *lineFile) write(line []byte) error {
	if _, err := l.w.Write(line); err != nil {
		return err
	}
	return l.w.WriteByte('\n')
}

func (l *lineFile) close() error { return errors.Join(l.w.Flush(), l.file.Close()) }

// cut removes incomplete lines and events without a proof, and returns the position of the last event
// that is present with its proof.
func (x *export) cut() (after uint64, err error) {
	proven := int64(-1)
	if !x.complete {
		if proven, err = countLines(x.path(proof.ProofsFile)); err != nil {
			return 0, err
		}
	}
	kept, after, err := cutLines(x.path(proof.EventsFile), proven)
	if err != nil || x.complete {
		return after, err
	}
	_, _, err = cutLines(x.path(proof.ProofsFile), kept)
	return after, err
}

func countLines(path string) (n int64, err error) {
	err = eachLine(path, func([]byte) error { n++; return nil })
	return n, err
}

// cutLines truncates a file after its last complete line, or after most lines if it has more. A
// negative most sets no maximum. cutLines returns the number of lines that remain and the position
// in the last of them.
func cutLines(path string, most int64) (kept int64, last uint64, err error) {
	var size int64
	var newest []byte
	err = eachLine(path, func(line []byte) error {
		if kept == most {
			return errEnough
		}
		kept++
		size += int64(len(line)) + 1
		newest = append(newest[:0], line...)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, 0, err
	}
	if m, err := proof.ParseLine(newest); err == nil {
		last = m.Seq
	}
	if err := os.Truncate(path, size); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	return kept, last, nil
}

var errEnough = errors.New("enough")

// maxLineBytes is the maximum length of a line: an event in base64 and its headers.
const maxLineBytes = events.MaxEventBytes*4/3 + 2*proof.MaxRecordBytes*6

// eachLine calls fn with every complete line of a file. A missing file has none.
func eachLine(path string, fn func(line []byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	var long []byte
	for {
		line, err := nextLine(in, &long)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = fn(line)
		}
		if err != nil {
			return err
		}
	}
}

// end adds the blobs and writes the manifest.
func (x *export) end(ctx context.Context) error {
	named := newRules(&Report{}, true)
	named.tenant = x.manifest.Selection.Tenant
	defer named.close()
	var real bounds
	var lost events.Lost
	err := eachLine(x.path(proof.EventsFile), func(line []byte) error {
		x.manifest.Events++
		m, err := proof.ParseLine(line)
		if err != nil {
			return err
		}
		e, err := events.Decode(m.Seq, eventproof.StoredOf(m).Message())
		if err != nil {
			return err
		}
		real.add(e)
		if d, ok := e.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
			lost = d.Losses(e.Seq)
		}
		if x.opts.Blobs {
			named.collect(&e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if x.manifest.Events == 0 {
		return errNoMatch
	}
	x.manifest.Selection = real.shrinkToEvents(x.manifest.Selection, lost)
	names := []string{proof.CheckpointFile, proof.EventsFile}
	if !x.complete {
		names = append(names, proof.ProofsFile)
	}
	fetched := map[string]bool{} // by file, because two tenants may have the same blob
	err = named.blobs.each(func(b Blob, _ uint64) error {
		if fetched[b.file()] {
			return nil
		}
		fetched[b.file()] = true
		return x.fetch(ctx, b)
	})
	if err != nil {
		return err
	}
	blobs := slices.Sorted(maps.Keys(fetched))
	x.manifest.Files = nil
	for _, name := range append(names, blobs...) {
		f, err := hashFile(x.opts.Dir, name)
		if err != nil {
			return err
		}
		x.manifest.Files = append(x.manifest.Files, f)
		x.done.Bytes += f.Bytes
	}
	// The manifest marks the export as finished. Once it exists, the exported volume may be removed,
	// so everything else is synced first.
	if err := durable.SyncTree(x.opts.Dir); err != nil {
		return err
	}
	if err := durable.WriteFile(x.path(proof.ManifestFile), x.manifest.Encode(), 0o644); err != nil {
		return err
	}
	x.done.Dir, x.done.Events, x.done.Blobs, x.done.Complete = x.opts.Dir, x.manifest.Events, len(blobs), x.complete
	x.done.Size, x.done.Root, x.done.Selection, x.done.Checkpoint = x.c.Size, proof.EncodeHash(x.c.Root), x.manifest.Selection, x.c.Note
	return os.Remove(x.path(proof.UnfinishedFile))
}

// file returns the name of the blob's file in an export.
func (b Blob) file() string {
	if b.Heap {
		return proof.BlobsDir + "/heap-" + b.SHA256
	}
	return proof.BlobsDir + "/text-" + b.SHA256
}

// fetch stores a blob unless it is present.
func (x *export) fetch(ctx context.Context, b Blob) error {
	if !events.ValidHash(b.SHA256) {
		return fmt.Errorf("%w: an event names the blob %.80q", events.ErrDamaged, b.SHA256)
	}
	path := x.path(filepath.FromSlash(b.file()))
	if raw, err := os.ReadFile(path); err == nil && events.Hash(raw) == b.SHA256 {
		return nil
	}
	raw, err := x.src.Blob(ctx, b)
	switch isGone := errors.Is(err, events.ErrRemoved) || codeOf(err) == codeGone; {
	case isGone && b.Heap && !x.complete:
		return fmt.Errorf("%w: %w", errCollected, err)
	case err != nil:
		return fmt.Errorf("read %s: %w", b.file(), err)
	}
	if events.Hash(raw) != b.SHA256 {
		return fmt.Errorf("%w: %s came with other bytes", events.ErrDamaged, b.file())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFileUnsynced(path, raw, 0o644)
}

// hashFile returns the manifest entry of a file.
func hashFile(dir, name string) (proof.ExportFile, error) {
	f, err := openRegular(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return proof.ExportFile{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return proof.ExportFile{}, err
	}
	return proof.ExportFile{Name: name, Bytes: uint64(n), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
