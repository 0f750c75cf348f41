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

// A damaged heap or text affects only the runs that need it. The server moves the
// damaged records out of the files of the blob store, determines their blobs, and
// starts. It keeps the findings in a file, because the damaged records no longer exist
// at the next start.

func (d *Daybook) blobDamageFile() string { return filepath.Join(d.opts.DataDir, "damaged-blobs.json") }

// asideName returns the name of a new directory for damaged files.
func asideName() string { return "damaged-" + time.Now().UTC().Format("20060102T150405.000Z") }

// repairBlobFiles removes damaged records from the files of the blob store. It keeps a
// copy of the files as they were found.
func (d *Daybook) repairBlobFiles(ctx context.Context, streams []streamfiles.Stream) error {
	for _, s := range streams {
		if s.Name != blobStream || len(s.Faults) == 0 {
			continue
		}
		aside := filepath.Join(d.opts.DataDir, asideName())
		if err := streamfiles.Mend(ctx, d.streamsDir(), s, filepath.Join(aside, "jetstream"), d.streamConfigsDir()); err != nil {
			return fmt.Errorf("take damaged records out of the blob store: %w", err)
		}
		d.opts.Logger.WarnContext(ctx, "took damaged records out of the blob store", "records", len(s.Faults), "damaged_files", aside)
	}
	return nil
}

// findLostBlobs determines the damaged heaps and texts if something is missing in the
// blob store, and checks the earlier findings again.
func (d *Daybook) findLostBlobs(ctx context.Context) error {
	if d.opts.NATS.URL != "" {
		return nil
	}
	known := d.readBlobDamage()
	for _, f := range known {
		d.damage.Report(f)
	}
	if d.damage.Damaged() {
		return nil // the findings stay until the ledger can be written again
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
			return fmt.Errorf("list the heaps and texts that events name: %w", err)
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
			return fmt.Errorf("look for damaged heaps and texts: %w", err)
		}
		// Now each lost blob that an event names has a finding of its own. Other blobs are
		// not needed.
		d.damage.EndBlobFindings(fmt.Sprintf("the damaged heaps and texts have findings of their own: %d", lost), func(f damage.Finding) bool { return f.Blob == nil })
		d.opts.Logger.WarnContext(ctx, "looked for damaged heaps and texts", "named", len(list), "damaged", lost, "took", time.Since(began))
	}
	if d.blobsSuspect { // the blobs that are missing up to the high-water mark have findings now
		if err := d.resetMark("mark-blobs", &d.marks.blobs); err != nil {
			return err
		}
	}
	d.rememberBlobDamage()
	return nil
}

// blobDamaged is called if a blob or the blob store is found damaged.
func (d *Daybook) blobDamaged(blob events.LostBlob, err error) {
	f := damage.Finding{Radius: damage.OfBlob, Stream: blobStream, What: err.Error(), By: damage.FoundOnRead}
	switch {
	case blob.Tenant == events.LedgerTenant:
		// Texts of the ledger are part of the ledger.
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

// blobRepaired is called if a damaged blob is intact again or was removed.
func (d *Daybook) blobRepaired(blob events.LostBlob, how string) {
	if !d.damage.EndBlobFindings(how, func(f damage.Finding) bool { return f.Blob != nil && *f.Blob == blob }) {
		return
	}
	d.opts.Logger.Warn("damage of a blob has ended", "kind", blob.Kind, "tenant", blob.Tenant, "sha256", blob.SHA256, "how", how)
	d.rememberBlobDamage()
}

// rememberBlobDamage writes the findings for the next start. A finding that is not
// written is found again when the blob is read.
func (d *Daybook) rememberBlobDamage() {
	if err := d.writeBlobDamage(); err != nil {
		d.opts.Logger.Warn("the findings about damaged blobs are not written", slog.Any("error", err))
	}
}

// blobFindings is the content of the file of findings.
type blobFindings struct {
	Findings []damage.Finding `json:"findings"`
}

// writeBlobDamage replaces the content of the file by the findings about blobs that have not
// ended. It leaves out findings about the blob store that name no blob.
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
		return nil // the number of findings is limited, and the new one is not in the list
	}
	if err := durable.WriteFile(d.blobDamageFile(), raw, 0o600); err != nil {
		return err
	}
	d.blobsWritten = raw
	return nil
}

// readBlobDamage returns the findings of earlier starts. A file that cannot be read
// counts as empty: damage is found again when a blob is read.
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
		d.opts.Logger.Warn("the findings about damaged blobs cannot be read", slog.Any("error", err))
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
