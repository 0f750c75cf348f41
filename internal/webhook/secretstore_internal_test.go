package webhook

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"daybook/events"
)

// A secret never replaces another one.
func TestStoreSecretKeepsTheFirst(t *testing.T) {
	t.Parallel()
	k, err := openSecretStore(filepath.Join(t.TempDir(), "webhooks"))
	if err != nil {
		t.Fatal(err)
	}
	id, first := events.NewID(time.Now()), newSecret()
	if err := k.storeSecret(id, first); err != nil {
		t.Fatal(err)
	}
	if err := k.storeSecret(id, newSecret()); err == nil {
		t.Error("a second secret was stored")
	}
	if got, err := k.secret(id); err != nil || got.Reveal() != first.Reveal() {
		t.Errorf("the first secret is not there: %v", err)
	}
	if err := k.deleteFiles(id); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(k.path(id, secretSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := k.storeSecret(id, first); err == nil {
		t.Error("a directory was replaced")
	}
	if info, err := os.Stat(k.path(id, secretSuffix)); err != nil || !info.IsDir() {
		t.Errorf("the directory is not there: %v", err)
	}
}
