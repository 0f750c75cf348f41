package bundle_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/bundle"
)

// Files whose bundle would be too large with the mappings of their positions have one without.
func TestMappingsOfLargeFiles(t *testing.T) {
	for size, want := range map[int]bool{1000: true, 700_000: false} {
		built, err := bundle.BuildFiles(map[string]string{"a.ts": "const a = 1; export default [" + strings.Repeat("a.b.c.d,", size) + "]"}, []string{"./a.ts"})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := built.Bundle.Encode()
		if err != nil {
			t.Fatalf("%d elements: %v", size, err)
		}
		decoded, err := bundle.Decode(encoded)
		if err != nil || len(decoded.Modules) != 1 || decoded.Modules[0].File != "a.ts" || (decoded.Modules[0].Mappings != "") != want {
			t.Errorf("%d elements: %d modules, %v", size, len(decoded.Modules), err)
		}
	}
}
