package eventproof_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"daybook/proof"
)

// Verifiers accept every member that an event can have. A new member with values that clients choose needs one
// of the names in freeMembers of package proof.
func TestMembersOfPayloads(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join("..", "..", "events", "testdata", "daybook.*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fixture struct {
			Body json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal(raw, &fixture); err != nil || len(fixture.Body) == 0 {
			t.Fatal(path, err)
		}
		if err := proof.CheckPayload(fixture.Body); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}
