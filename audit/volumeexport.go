package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"daybook/events"
	"daybook/proof"
)

// endWithLosses returns the end of a range that has the events which record the losses in it: its last
// position, or the position of the last of these events.
func endWithLosses(lost events.Lost, first, last uint64) uint64 {
	for _, r := range lost {
		if r.From <= last && r.To >= first && r.NamedAt > last {
			return endWithLosses(lost, first, r.NamedAt)
		}
	}
	return last
}

// VolumeExport computes the file of events that an export of the positions first to last would
// have, with ExportOptions.WithLosses, and returns its size and hash. It compares each event with its leaf in
// the tree.
func (l Local) VolumeExport(ctx context.Context, first, last uint64) (events.VolumeExport, error) {
	last = endWithLosses(l.Log.Lost(), first, last)
	signed, err := l.Signed(ctx, last)
	if err != nil {
		return events.VolumeExport{}, err
	}
	var x events.VolumeExport
	sum := sha256.New()
	err = l.Lines(ctx, signed.Checkpoint, proof.ExportSelection{From: first, To: last}, 0, func(line, _ []byte) error {
		x.Events++
		x.Bytes += uint64(len(line)) + 1
		sum.Write(line)
		sum.Write([]byte{'\n'})
		return nil
	})
	if err != nil {
		return events.VolumeExport{}, err
	}
	x.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return x, nil
}

// ExportedVolume returns the positions of a verified export and the hash of its file of events. It
// returns an error unless the export contains all events of the range.
func ExportedVolume(dir string) (first, last uint64, sha string, err error) {
	raw, err := readSmall(filepath.Join(dir, proof.ManifestFile), maxManifestBytes)
	if err != nil {
		return 0, 0, "", err
	}
	m, err := proof.ParseManifest(raw)
	if err != nil {
		return 0, 0, "", err
	}
	if m.Selection.Tenant != "" {
		return 0, 0, "", fmt.Errorf("the export in %s has only the events of tenant %q: stop the server and export those of all tenants with "+
			"\"daybook events export OUT --data-dir DIR --from FIRST --to LAST\" (the positions are those of \"daybook volume list\"), and give that export", dir, m.Selection.Tenant)
	}
	if !m.Selection.IsUnfiltered() {
		return 0, 0, "", fmt.Errorf("the export in %s does not contain every event of a range: export the volume with \"daybook volume export\"", dir)
	}
	for _, f := range m.Files {
		if f.Name == proof.EventsFile {
			return m.Selection.From, m.Selection.To, f.SHA256, nil
		}
	}
	return 0, 0, "", fmt.Errorf("the export in %s holds no events", dir)
}
