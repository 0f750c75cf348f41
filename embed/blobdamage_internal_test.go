package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
)

// The file of findings is written when its content changes, and not for each damaged blob:
// each write waits for the disk.
func TestFindingsAreWrittenWhenTheyChange(t *testing.T) {
	t.Parallel()
	d := newDaybook(Options{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	blob := func(i int) events.LostBlob {
		return events.LostBlob{Tenant: "one", Kind: "heap", SHA256: events.Hash(fmt.Append(nil, i))}
	}
	file := func() os.FileInfo {
		info, err := os.Stat(d.blobDamageFile())
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	for i := range 99 { // the maximum number of listed findings is 100
		b := blob(i)
		d.damage.Report(damage.Finding{Radius: damage.OfBlob, Blob: &b, What: "a chunk is missing"})
	}
	d.blobDamaged(blob(99), errors.New("a chunk is missing"))
	before := file()
	for i := range 100 {
		d.blobDamaged(blob(100+i), errors.New("a chunk is missing"))
	}
	if !os.SameFile(before, file()) {
		t.Error("the file is written again for a blob that is not listed")
	}
	if list := d.readBlobDamage(); len(list) != 100 {
		t.Errorf("%d findings are kept", len(list))
	}
	d.blobRepaired(blob(0), "it was stored again")
	if list := d.readBlobDamage(); len(list) != 99 {
		t.Errorf("after a repair %d findings are kept", len(list))
	}
	d.damage.EndBlobFindings("they were removed", func(damage.Finding) bool { return true })
	d.rememberBlobDamage()
	if _, err := os.Stat(d.blobDamageFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file exists without a damaged blob: %v", err)
	}
}
