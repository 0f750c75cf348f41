// Package runfiles has the rules for the files of a run, which its script imports.
package runfiles

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"daybook/internal/modules/tarball"
)

// Limits of the files of a run.
const (
	maxFiles = 256
	// MaxBytes is the maximum size of all paths and texts, in bytes.
	MaxBytes = 16 << 20
)

// Check returns an error for files that break a rule: paths are relative and stay below the
// run, and number and size are limited.
func Check(files map[string]string) error {
	if len(files) > maxFiles {
		return fmt.Errorf("there are %d files, at most %d are allowed", len(files), maxFiles)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		clean, err := tarball.CleanPath(name)
		switch {
		case err != nil || name != clean:
			return fmt.Errorf("file path %.100q is not a plain relative path like lib/util.ts", name)
		case strings.ContainsAny(name, ":#?%\"'`()<>|* "):
			return fmt.Errorf("file path %.100q has a character that module names cannot have", name)
		case !isModule(name):
			return fmt.Errorf("file %.100q is no module: the name of a file ends in .js, .mjs, .cjs, .ts, .mts, .cts or .json", name)
		case !utf8.ValidString(files[name]) || strings.Contains(files[name], "\x00"):
			return fmt.Errorf("file %.100q is not UTF-8 without NUL characters", name)
		}
		size += len(name) + len(files[name])
	}
	if size > MaxBytes {
		return fmt.Errorf("the files have %d bytes together, at most %d are allowed", size, MaxBytes)
	}
	return nil
}

func isModule(name string) bool {
	switch path.Ext(name) {
	case ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json":
		return true
	}
	return false
}
