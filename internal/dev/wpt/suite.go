// Package wpt reads the conformance tests of the web platform with their recorded verdicts, and
// writes docs/compatibility.md from them. The tests are in internal/exec/v8/testdata/wpt:
//
//   - harness.js runs in front of each test file, in an isolate and in Node
//   - common-api.json lists the names that the minimum common web API requires
//   - INTERFACE/*.js are the tests of an interface
//   - INTERFACE/expected.json has the subtests that fail in an isolate, each with the reason
//   - INTERFACE/node.json has the verdicts of Node, which .ci/wpt --update writes
//
// The files of the package, in reading order:
//
//   - suite.go: Read, which reads all of this
//   - page.go: Page, which writes the document
package wpt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Suite is the tests of one interface.
type Suite struct {
	// Name is the name of the interface, which is that of the directory.
	Name string
	// Files are the paths of the test files, sorted.
	Files []string
	// Expected has the reason of each subtest that fails in an isolate, by its name.
	Expected map[string]string
	Node     Verdicts
	// FilesHash is the SHA-256 of the test files. Node.FilesHash differs from it if the tests
	// have changed since Node ran them.
	FilesHash string
}

// Verdicts are what Node makes of the tests of an interface.
type Verdicts struct {
	// Version is the major version of Node, such as v20.
	Version   string `json:"node"`
	FilesHash string `json:"files"`
	Subtests  int    `json:"subtests"`
	// IsMissing reports whether Node lacks the interface.
	IsMissing bool `json:"missing"`
	// Failed has the message of each failed subtest by its name. It is empty if IsMissing.
	Failed map[string]string `json:"failed"`
}

// API is a name that the minimum common web API requires.
type API struct {
	// Name is an expression that has the value, such as WebAssembly.Module.
	Name string `json:"name"`
	// Missing is the reason why the global object lacks it. Empty means that it is present.
	Missing string `json:"missing"`
	// Note says how it differs from the standard.
	Note string `json:"note"`
}

// Tests are all suites and the names of the minimum common web API.
type Tests struct {
	Harness []byte
	Suites  []Suite
	APIs    []API
}

// Read reads the directory of the conformance tests.
func Read(dir string) (Tests, error) {
	var tests Tests
	var err error
	if tests.Harness, err = os.ReadFile(filepath.Join(dir, "harness.js")); err != nil {
		return Tests{}, err
	}
	if err := readJSON(filepath.Join(dir, "common-api.json"), &tests.APIs); err != nil {
		return Tests{}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Tests{}, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		suite, err := readSuite(filepath.Join(dir, entry.Name()))
		if err != nil {
			return Tests{}, err
		}
		tests.Suites = append(tests.Suites, suite)
	}
	return tests, nil
}

func readSuite(dir string) (Suite, error) {
	suite := Suite{Name: filepath.Base(dir)}
	var err error
	if suite.Files, err = filepath.Glob(filepath.Join(dir, "*.js")); err != nil {
		return Suite{}, err
	}
	h := sha256.New()
	for _, path := range suite.Files {
		text, err := os.ReadFile(path)
		if err != nil {
			return Suite{}, err
		}
		fmt.Fprintf(h, "%s\n%s", filepath.Base(path), text)
	}
	suite.FilesHash = hex.EncodeToString(h.Sum(nil))
	if err := readJSON(filepath.Join(dir, "expected.json"), &suite.Expected); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Suite{}, err
	}
	if err := readJSON(filepath.Join(dir, "node.json"), &suite.Node); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Suite{}, err
	}
	return suite, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
