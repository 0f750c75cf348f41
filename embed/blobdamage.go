package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/store/streamfiles"
)

// A damaged heap or text affects only what needs it: the server takes the damaged
// records out of the blob store's files, finds out which blobs they were of, and
// starts. The findings are kept in a file, because the damaged records are no longer
// there at the next start.

func (d *Daybook) blobDamageFile() string { return filepath.Join(d.opts.DataDir, "damaged-blobs.json") }

// asideName names a directory for damaged files.
func asideName() string { return "damaged-" + time.Now().UTC().Format("20060102T150405.000Z") }

// mendBlobs takes damaged records out of the files of the blob store. The files as
// they were are kept.
func (d *Daybook) mendBlobs(ctx context.Context, streams []streamfiles.Stream) error {
	for _, s := range streams {
		if s.Name != blobStream || len(s.Faults) == 0 {
			continue
		}
		aside := filepath.Join(d.opts.DataDir, asideName())
		if err := streamfiles.Mend(ctx, d.streamsDir(), s, filepath.Join(aside, "jetstream"), d.describedDir()); err != nil {
			return fmt.Errorf("take damaged records out of the blob store: %w", err)
		}
		d.opts.Logger.WarnContext(ctx, "took damaged records out of the blob store", "records", len(s.Faults), "damaged_files", aside)
	}
	return nil
}

// findLostBlobs finds out which heaps and texts are damaged, where something of the
// blob store is missing, and looks again at those that were found before.
func (d *Daybook) findLostBlobs(ctx context.Context) error {
	if d.opts.NATSURL != "" {
		return nil
	}
	known := d.readBlobDamage()
	for _, f := range known {
		d.damage.Report(f)
	}
	if d.damage.Damaged() {
		return nil // the findings stay as they are until the ledger can be written again
	}
	for _, f := range known {
		if err := d.store.CheckBlob(ctx, *f.Blob); err != nil {
			return fmt.Errorf("read %s: %w", f, err)
		}
	}
	lacks, err := d.store.LacksBlobs(ctx)
	if err != nil {
		return err
	}
	if lacks || d.blobsSuspect {
		began := time.Now()
		named, err := audit.ReferencedBlobs(ctx, d.store)
		if err != nil {
			return fmt.Errorf("find out which heaps and texts there should be: %w", err)
		}
		list := make([]events.LostBlob, 0, len(named))
		for _, b := range named {
			l := events.LostBlob{Tenant: b.Tenant, Kind: "text", SHA256: b.SHA256}
			if b.Heap {
				l.Kind = "heap"
			}
			list = append(list, l)
		}
		lost, err := d.store.FindLostBlobs(ctx, list)
		if err != nil {
			return fmt.Errorf("find out which heaps and texts are damaged: %w", err)
		}
		// Every loss has a name now, or was of nothing that is needed.
		d.damage.Repaired(fmt.Sprintf("the damaged heaps and texts have findings of their own: %d", lost), func(f damage.Finding) bool { return f.Blob == nil })
		d.opts.Logger.WarnContext(ctx, "looked for damaged heaps and texts", "named", len(list), "damaged", lost, "took", time.Since(began))
	}
	if d.blobsSuspect { // blobs that were lost at the end are found
		if err := d.beginMark("mark-blobs", &d.marks.blobs); err != nil {
			return err
		}
	}
	d.rememberBlobDamage()
	return nil
}

// blobDamaged is called when a blob, or the blob store, is found damaged.
func (d *Daybook) blobDamaged(blob events.LostBlob, err error) {
	f := damage.Finding{Radius: damage.OfBlob, Stream: blobStream, What: err.Error(), By: damage.FoundOnRead}
	switch {
	case blob.Tenant == events.LedgerTenant:
		// What the ledger stores beside itself is part of it.
		f.Radius, f.What = damage.OfLedger, fmt.Sprintf("text %s of the ledger: %v", blob.SHA256, err)
	case blob != events.LostBlob{}:
		f.Blob = &blob
	}
	if !d.damage.Report(f) {
		return
	}
	d.opts.Logger.Error("the blob store is damaged", slog.String("finding", f.String()))
	d.rememberBlobDamage()
}

// blobRepaired is called when a blob that was damaged is intact, or was removed.
func (d *Daybook) blobRepaired(blob events.LostBlob, how string) {
	if !d.damage.Repaired(how, func(f damage.Finding) bool { return f.Blob != nil && *f.Blob == blob }) {
		return
	}
	d.opts.Logger.Warn("damage of a blob has ended", "kind", blob.Kind, "tenant", blob.Tenant, "sha256", blob.SHA256, "how", how)
	d.rememberBlobDamage()
}

// rememberBlobDamage writes the findings for the next start. One that is not written
// is found again when the blob is read.
func (d *Daybook) rememberBlobDamage() {
	if err := d.writeBlobDamage(); err != nil {
		d.opts.Logger.Warn("write which blobs are damaged", slog.Any("error", err))
	}
}

// blobFindings is the content of the file.
type blobFindings struct {
	Findings []damage.Finding `json:"findings"`
}

// writeBlobDamage replaces the file with the findings about blobs that have not
// ended.
func (d *Daybook) writeBlobDamage() error {
	d.describing.Lock()
	defer d.describing.Unlock()
	var list []damage.Finding
	for _, f := range d.damage.Blobs() {
		if f.Blob != nil {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		d.blobsWritten = nil
		return ignoreMissing(os.Remove(d.blobDamageFile()))
	}
	raw, err := json.Marshal(blobFindings{list})
	if err != nil {
		return err
	}
	if raw = append(raw, '\n'); bytes.Equal(raw, d.blobsWritten) {
		return nil // one more blob of very many, which is not listed
	}
	if err := durable.WriteFile(d.blobDamageFile(), raw, 0o600); err != nil {
		return err
	}
	d.blobsWritten = raw
	return nil
}

// readBlobDamage returns the findings of earlier starts. A file that cannot be read
// holds none: damage is found again when a blob is read.
func (d *Daybook) readBlobDamage() []damage.Finding {
	raw, err := os.ReadFile(d.blobDamageFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var known blobFindings
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		d.opts.Logger.Warn("read which blobs are damaged", slog.Any("error", err))
		return nil
	}
	var list []damage.Finding
	for _, f := range known.Findings {
		if f.Blob != nil && f.Radius == damage.OfBlob && f.Ended == nil {
			list = append(list, f)
		}
	}
	return list
}
