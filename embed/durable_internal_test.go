package embed

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
)

// Files of the data directory whose write fails keep their old content.
func TestFailingWritesLeaveTheOldFiles(t *testing.T) {
	t.Parallel()
	found := damage.NewState()
	found.Report(damage.Finding{Radius: damage.OfBlob, Blob: &events.LostBlob{Tenant: "t", Kind: "heap", SHA256: "00"}, What: "it is damaged"})
	for name, write := range map[string]func(dir string) error{
		removedFile(""): func(dir string) error { return writeRemoved(dir, removedVolumes{Volume: 1, Last: 7}) },
		filepath.Base((&Daybook{}).blobDamageFile()): func(dir string) error {
			return (&Daybook{opts: Options{DataDir: dir, Logger: slog.New(slog.DiscardHandler)}, damage: found}).writeBlobDamage()
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(dir); err == nil {
			t.Errorf("%s: a directory was replaced", name)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || !list[0].IsDir() {
			t.Errorf("%s: the directory holds %v, %v", name, list, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path+".new", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(dir); err == nil {
			t.Errorf("%s was written through a directory", name)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "old" {
			t.Errorf("%s holds %q, %v", name, raw, err)
		}
	}
}
