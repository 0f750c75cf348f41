package translog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A person who can write the data directory, and not what is beside the key, cannot make the server end its origin.
func TestTheEndOfAnOriginNeedsThePermission(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"ended": true, "adopted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := newMemoryLedger()
			ledger.fill(t, 10)
			opts := Options{Dir: t.TempDir(), KeyFile: filepath.Join(t.TempDir(), "key")}
			l := follow(t, ledger, opts)
			files := map[string][]byte{}
			for _, path := range []string{opts.KeyFile, opts.KeyFile + signedSuffix} {
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				files[path] = raw
			}
			id := identity{ID: l.keys.ID, Origin: successorOf(l.Origin()), Unfinished: true}
			if ended {
				id.Ended = &endedOrigin{Origin: l.Origin(), Reason: wasChanged}
			}
			raw, err := json.Marshal(id)
			if err == nil {
				err = os.WriteFile(filepath.Join(opts.Dir, fileIdentity), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, shared := range []bool{false, true} {
				opts.Shared = shared
				if again, err := Open(opts); err == nil {
					t.Errorf("shared: %t: opened with the origin %s and the key %s", shared, again.Origin(), again.VKey())
				} else {
					t.Log(err)
				}
				for path, want := range files {
					if raw, err := os.ReadFile(path); err != nil || string(raw) != string(want) {
						t.Errorf("%s was changed: %v", path, err)
					}
				}
			}
		})
	}
}
