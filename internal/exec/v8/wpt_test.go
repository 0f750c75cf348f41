package v8_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"daybook/internal/dev/wpt"
	"daybook/internal/exec/v8"
)

// conformance returns the tests of the web platform.
func conformance(t *testing.T) wpt.Tests {
	t.Helper()
	tests, err := wpt.Read("testdata/wpt")
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// subtest is the verdict about a subtest of a test file.
type subtest struct {
	Name    string  `json:"name"`
	Message *string `json:"message"` // why it failed; nil for one that passed
}

func runConformance(t *testing.T, harness []byte, path string, plain bool) []subtest {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	source := fmt.Appendf(nil, "%s\n%s\nawait finish_tests()", harness, text)
	r := runScript(t, v8.Config{Plain: plain, SkipWaits: true}, v8.Script{Source: source})
	var subtests []subtest
	if err := json.Unmarshal([]byte(r.text), &subtests); r.Status != v8.Completed || err != nil {
		t.Fatalf("%s: status %v: %.2000s", path, r.Status, r.text)
	}
	return subtests
}

// The subtests of testdata/wpt pass in a saved and in a plain isolate, except those that
// expected.json lists with a reason.
func TestConformance(t *testing.T) {
	tests := conformance(t)
	for _, suite := range tests.Suites {
		t.Run(suite.Name, func(t *testing.T) {
			count := 0
			for _, plain := range []bool{false, true} {
				kind := map[bool]string{false: "saved", true: "plain"}[plain]
				failed := map[string]bool{}
				seen := map[string]bool{}
				for _, path := range suite.Files {
					for _, s := range runConformance(t, tests.Harness, path, plain) {
						if seen[s.Name] {
							t.Errorf("%s: two subtests are called %q", path, s.Name)
						}
						seen[s.Name] = true
						_, isExpected := suite.Expected[s.Name]
						if s.Message != nil {
							failed[s.Name] = true
						}
						if s.Message != nil && !isExpected {
							t.Errorf("%s (%s): %s: %s", filepath.Base(path), kind, s.Name, *s.Message)
						}
					}
				}
				for name, reason := range suite.Expected {
					if !failed[name] {
						t.Errorf("%s: %q does not fail (%s): remove it from expected.json", kind, name, reason)
					}
				}
				count = len(seen)
			}
			if len(suite.Expected)*20 > count {
				t.Errorf("%d of %d subtests are expected to fail, more than 5 %%", len(suite.Expected), count)
			}
			if suite.Node.FilesHash != suite.FilesHash || suite.Node.Subtests != count {
				t.Errorf("node.json is of other tests (%d subtests of %d): run .ci/wpt --update, then make generate", suite.Node.Subtests, count)
			}
		})
	}
}

// common-api.json says which names of the minimum common web API a saved isolate lacks.
func TestCommonAPI(t *testing.T) {
	tests := conformance(t)
	for _, api := range tests.APIs {
		object, key := "globalThis", api.Name
		if ext := filepath.Ext(api.Name); ext != "" {
			object, key = "globalThis."+api.Name[:len(api.Name)-len(ext)], ext[1:]
		}
		source := fmt.Sprintf("(%s ?? undefined) !== undefined && %q in %s", object, key, object)
		want := fmt.Sprint(api.Missing == "")
		if got := run(t, v8.Config{}, source).text; got != want {
			t.Errorf("%s: present %s, common-api.json says %s", api.Name, got, want)
		}
	}
}
