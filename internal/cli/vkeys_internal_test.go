package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A key is given as text, as the text of a file of keys, or as the path of one.
func TestReadVKeys(t *testing.T) {
	t.Parallel()
	first, second := "daybook/x+0a0b0c0d+AQ==", "daybook/x+01020304+Ag=="
	file := filepath.Join(t.TempDir(), "vkey")
	if err := os.WriteFile(file, []byte(first+"\n"+second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, given := range [][]string{{first, second}, {first + "\n" + second}, {first + "\n" + second + "\n"}, {file}} {
		if keys, err := readVKeys("--key", given); err != nil || !slices.Equal(keys, []string{first, second}) {
			t.Errorf("%q: %q, %v", given, keys, err)
		}
	}
	for _, given := range []string{"", filepath.Join(t.TempDir(), "none")} {
		if keys, err := readVKeys("--key", []string{given}); err == nil {
			t.Errorf("%q: %q", given, keys)
		}
	}
}
