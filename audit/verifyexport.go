package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// maxManifestBytes is the maximum length of a manifest in bytes.
const maxManifestBytes = 256 << 20

// VerifyExport verifies an export with its own files and the trusted keys alone. Findings are in
// the report. The error is for an export that could not be read.
func VerifyExport(ctx context.Context, dir string, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	if opts.Tenant != "" {
		return nil, &TenantError{errors.New("an export says itself which tenant's events it has, and the report names it; leave the tenant out")}
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("verify an export: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("verify an export: %s is not a directory; name the directory of an export", dir)
	}
	if !holdsExport(dir) {
		return nil, fmt.Errorf("verify an export: %w", &DirError{fmt.Errorf("there is no export in %s; name the directory that \"daybook events export\" made", dir)})
	}
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	if err := checkKnown(opts); err != nil {
		return nil, err
	}
	r, err := verifyExport(ctx, dir, opts)
	if errors.Is(err, proof.ErrUnknownKey) { // verify the rest under the export's own key
		return underOwnKey(opts, began, func(opts VerifyOptions) (*Report, error) { return verifyExport(ctx, dir, opts) })
	}
	return r, err
}

// holdsExport reports whether a directory contains a file of an export, or cannot be read. One file
// is enough: an export without the others is verified, and the verification fails.
func holdsExport(dir string) bool {
	for _, name := range []string{proof.ManifestFile, proof.UnfinishedFile, proof.CheckpointFile, proof.EventsFile, proof.ProofsFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// underOwnKey verifies with the keys beside the data if no given key signed the checkpoint.
func underOwnKey(opts VerifyOptions, began time.Time, verify func(VerifyOptions) (*Report, error)) (*Report, error) {
	opts.given, opts.Keys = opts.Keys, nil
	r, err := verify(opts)
	if err != nil {
		return nil, err
	}
	if r.foreign != "" { // a key beside the data was retired: finish has listed that, and lists it again
		r.Found--
		r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f == Finding{What: r.foreign} })
	}
	var beside []string
	if r.Key != "" {
		beside = []string{r.Key}
	}
	r.Pinned = true
	r.signedByOthers(beside)
	return r.finish(began), nil
}

// verifyExport returns proof.ErrUnknownKey if the caller gave keys and none of them signed the
// checkpoint.
func verifyExport(ctx context.Context, dir string, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	pinned := len(opts.Keys) > 0
	m, c, err := openExport(dir, &opts)
	if opts.list == nil { // the export was not read so far
		opts.followKept()
	}
	if err := opts.checkKnownSigned(); err != nil {
		return nil, err
	}
	if pinned && errors.Is(err, proof.ErrUnknownKey) {
		return nil, err
	}
	if err != nil {
		if os.IsPermission(err) {
			return nil, fmt.Errorf("verify an export: %w", err)
		}
		return Unreadable(opts, began, err), nil
	}
	if err := opts.checkOrigin(c.Origin); err != nil {
		return nil, err
	}
	l := newLineVerifier(opts, c, m.Selection)
	defer l.close()
	l.report.Pinned, l.report.isExport = pinned, true
	l.expectCosigned(c.Note, nil)
	if err := checkFiles(ctx, dir, m); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		l.report.addFinding(0, "%v", err)
		return l.report.finish(began), nil
	}
	l.mostUnhashed = mostUnhashedOfExport + m.Files[1].Bytes
	if err := l.findLost(dir); err != nil && !errors.Is(err, errLines) { // those are a finding below
		return nil, fmt.Errorf("verify an export: %w", err)
	}
	if l.proven {
		if err := l.checkExtends(c, nil); err != nil {
			return nil, err
		}
	}
	err = l.run(ctx, func(emit func([]pair) error) error {
		err := readPairs(dir, l.proven, opts.EventLines, emit)
		if errors.Is(err, errLines) {
			l.report.addFinding(0, "%v", err)
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("verify an export: %w", err)
	}
	if err := l.checkListed(m); err != nil {
		return nil, fmt.Errorf("verify an export: %w", err)
	}
	if l.report.Events != m.Events {
		l.report.addFinding(0, "the export has %d events; its manifest says %d", l.report.Events, m.Events)
	}
	if l.report.Found == 0 && l.eventBounds.shrinkToEvents(m.Selection, l.lost) != m.Selection {
		l.report.addFinding(0, "the manifest's bounds are not those of the events")
	}
	if err := l.checkBlobs(m); err != nil {
		return nil, fmt.Errorf("verify an export: %w", err)
	}
	l.finishQuorum()
	l.finishCosigned()
	return l.conclude(began)
}

// findLost reads which positions the events of an export record as lost. The newest event that
// records a loss lists all lost positions, and comes after them.
func (l *lineVerifier) findLost(dir string) error {
	var lost events.Lost
	err := eachLine(filepath.Join(dir, proof.EventsFile), func(line []byte) error {
		if found := lostIn(line, l.c.Size); len(found) > 0 {
			lost = found
		}
		return nil
	})
	l.expectLost(lost)
	return err
}

// openExport reads the manifest and the checkpoint of an export. If no keys are trusted yet, it
// trusts those of the manifest.
func openExport(dir string, opts *VerifyOptions) (proof.Manifest, proof.Checkpoint, error) {
	raw, err := readSmall(filepath.Join(dir, proof.ManifestFile), maxManifestBytes)
	if err != nil {
		if _, partial := os.Stat(filepath.Join(dir, proof.UnfinishedFile)); partial == nil {
			err = errors.New("the export is unfinished; continue it first, with --resume")
		}
		return proof.Manifest{}, proof.Checkpoint{}, err
	}
	m, err := proof.ParseManifest(raw)
	if err != nil {
		return m, proof.Checkpoint{}, err
	}
	for _, key := range m.VKeys {
		if name, err := proof.VKeyName(key); err != nil || name != m.Origin {
			return m, proof.Checkpoint{}, fmt.Errorf("the manifest lists %.80q, which is not a key of %s", key, m.Origin)
		}
	}
	if len(opts.Keys) == 0 {
		opts.Keys = m.VKeys
	}
	signed, err := readSmall(filepath.Join(dir, proof.CheckpointFile), proof.MaxNoteBytes)
	if err != nil {
		return m, proof.Checkpoint{}, err
	}
	opts.follow([]byte(m.Signers))
	c, err := opts.trust.Open(signed)
	if err != nil {
		return m, c, err
	}
	if c.Origin != m.Origin || c.Size != m.Size || c.Root != m.Root {
		return m, c, errors.New("the manifest does not match the checkpoint beside it")
	}
	if last := opts.list.Origin(); opts.notFollowed == nil && last != "" && last != c.Origin {
		// Its own key signs the start of a successor, so anyone can append one.
		return m, c, fmt.Errorf("the list of signers in the manifest ends with the origin %s, but the checkpoint is of %s", last, c.Origin)
	}
	s, err := m.Selection.Resolve(c.Size)
	if err == nil && s != m.Selection {
		err = errors.New("the range in the manifest is not that of an export")
	}
	return m, c, err
}

func readSmall(path string, most int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return raw, err
}

// openRegular opens a file of an export. An export comes from others: a pipe or a device in it could have no
// end.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; copy the export again", path)
	}
	return os.Open(path)
}

// checkFiles compares the files with those of the manifest.
func checkFiles(ctx context.Context, dir string, m proof.Manifest) error {
	want := []string{proof.CheckpointFile, proof.EventsFile}
	if !m.Selection.IsComplete(m.Size) {
		want = append(want, proof.ProofsFile)
	}
	for i, f := range m.Files {
		if i < len(want) && f.Name != want[i] || i >= len(want) && !isBlobFile(f.Name) ||
			i > len(want) && f.Name <= m.Files[i-1].Name {
			return fmt.Errorf("the manifest lists the file %.80q, which does not belong there", f.Name)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		got, err := hashFile(dir, f.Name)
		if err != nil {
			return err
		}
		if got != f {
			return fmt.Errorf("the file %s has %d bytes with the hash %s; the manifest says %d and %s", f.Name, got.Bytes, got.SHA256, f.Bytes, f.SHA256)
		}
	}
	if len(m.Files) < len(want) {
		return fmt.Errorf("the manifest does not list the file %s", want[len(m.Files)])
	}
	return filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error { // dir may be a symbolic link
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() && (name == "." || name == proof.BlobsDir) || name == proof.ManifestFile || slices.Contains(want, name) || blobFile(m.Files, name) >= 0 {
			return nil
		}
		return fmt.Errorf("the manifest does not list the file %s", name)
	})
}

func isBlobFile(name string) bool {
	_, ok := parseBlobFile(name)
	return ok
}

// parseBlobFile returns the blob that a file is named for, without its tenant. It reports
// false for a name that is not one of a blob.
func parseBlobFile(name string) (Blob, bool) {
	for _, heap := range []bool{true, false} {
		b := Blob{Heap: heap}
		if hash, ok := strings.CutPrefix(name, b.file()); ok && len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == "" {
			b.SHA256 = hash
			return b, true
		}
	}
	return Blob{}, false
}

// readPairs reads events, with their proofs if proven is set. It copies the lines of events to copied, which may be nil.
func readPairs(dir string, proven bool, copied io.Writer, emit func([]pair) error) error {
	b := batches{emit: emit}
	var proofs *lineReader
	if proven {
		var err error
		if proofs, err = openLineReader(filepath.Join(dir, proof.ProofsFile)); err != nil {
			return err
		}
		defer proofs.close()
	}
	lines, err := openLineReader(filepath.Join(dir, proof.EventsFile))
	if err != nil {
		return err
	}
	defer lines.close()
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		var proof []byte
		if proofs != nil {
			if proof, err = proofs.next(); err != nil {
				return err
			}
			if (line == nil) != (proof == nil) {
				return errors.Join(b.flush(), fmt.Errorf("%w: the numbers of events and proofs differ", errLines))
			}
		}
		if line == nil {
			return b.flush()
		}
		if copied != nil {
			_, err := copied.Write(line)
			if err == nil {
				_, err = copied.Write([]byte("\n"))
			}
			if err != nil {
				return err
			}
		}
		if err := b.add(line, proof); err != nil {
			return err
		}
	}
}

// checkBlobs compares the blobs of an export with those that its events name. The files of the manifest
// are sorted; see checkFiles.
func (l *lineVerifier) checkBlobs(m proof.Manifest) error {
	isNamed := make([]bool, len(m.Files))
	for _, f := range m.Files {
		if b, ok := parseBlobFile(f.Name); ok {
			l.report.Blobs++
			if f.SHA256 != b.SHA256 {
				l.report.addFinding(0, "the file %s has the hash %s", f.Name, f.SHA256)
			}
		}
	}
	missing := map[string]bool{} // two tenants may have the same blob
	err := l.rules.blobs.each(func(b Blob, seq uint64) error {
		name := b.file()
		if i := blobFile(m.Files, name); i >= 0 {
			isNamed[i] = true
		} else if m.Blobs && !missing[name] {
			missing[name] = true
			l.report.addFinding(seq, "the export lacks %s", name)
		}
		return nil
	})
	for i, f := range m.Files {
		if isBlobFile(f.Name) && !isNamed[i] {
			l.report.addFinding(0, "no event names %s", f.Name)
		}
	}
	if !m.Blobs && l.report.Blobs > 0 {
		l.report.addFinding(0, "the manifest says that there are no blobs")
	}
	return err
}

// blobFile returns the index of the file of a blob, or -1. Up to three other files precede those of blobs,
// which are sorted by name.
func blobFile(files []proof.ExportFile, name string) int {
	first := slices.IndexFunc(files, func(f proof.ExportFile) bool { return isBlobFile(f.Name) })
	if first < 0 {
		return -1
	}
	i, found := slices.BinarySearchFunc(files[first:], name, func(f proof.ExportFile, name string) int { return strings.Compare(f.Name, name) })
	if !found {
		return -1
	}
	return first + i
}

// lostIn returns the positions that a line records as lost. It returns nil for any line but the
// opening of a volume because of damage at one of the positions that the checkpoint covers.
func lostIn(line []byte, covered uint64) events.Lost {
	r, err := proof.ParseLine(line)
	if err != nil {
		return nil
	}
	m := eventproof.StoredOf(r)
	if m.Seq > covered || !eventproof.HasType(m, events.TypeLedgerVolumeOpened) {
		return nil
	}
	var d events.LedgerVolumeOpened
	if json.Unmarshal(m.Body, &d) != nil {
		return nil
	}
	return d.Losses(m.Seq)
}
