package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var makefilePath = regexp.MustCompile(`(?:\./|\b)((?:internal|docs)/[a-z0-9_/.-]*[a-z0-9_]|(?:acp|audit|events|httpapi|ledger|mcp|projections|runner)\b)`)

// The packages and files that the Makefile names exist. A wrong path in a list of packages
// would select none and pass.
func TestMakefileNamesFiles(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	raw, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := makefilePath.FindAllSubmatch(raw, -1)
	if len(named) < 15 {
		t.Fatalf("the Makefile names only %d paths", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("Makefile: %v", err)
		}
	}
}
