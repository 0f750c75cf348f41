package wpt_test

import (
	"bytes"
	"os"
	"testing"

	"daybook/internal/dev/wpt"
)

// docs/compatibility.md is what the tests and their verdicts say.
func TestPageIsCurrent(t *testing.T) {
	tests, err := wpt.Read("../../exec/v8/testdata/wpt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/compatibility.md")
	if err != nil || !bytes.Equal(got, wpt.Page(tests)) {
		t.Errorf("docs/compatibility.md is stale (%v): run make generate", err)
	}
}
