package frozen_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func sameAnswers(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	for _, group := range slices.Sorted(maps.Keys(want)) {
		compare(t, group, want[group], got[group])
	}
}

// golden compares a text with a file below testdata line by line, or writes the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := testdata(filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, name, want, got)
}

// compare reports the first lines that differ.
func compare(t *testing.T, name string, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	is, were := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	const most = 5
	shown := 0
	for i := range max(len(is), len(were)) {
		var a, b string
		if i < len(were) {
			a = were[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a == b {
			continue
		}
		if shown++; shown > most {
			break
		}
		from := 0
		for from < min(len(a), len(b)) && a[from] == b[from] {
			from++
		}
		from = max(0, from-200)
		t.Errorf("%s, line %d, from byte %d:\nwant %.1000s\n got %.1000s", name, i+1, from, a[from:], b[from:])
		if len(is) != len(were) {
			t.Errorf("%s has %d lines, want %d", name, len(is), len(were))
			break
		}
	}
}

// checkGroups fails for golden files that no group of questions writes.
func checkGroups(t *testing.T, groups map[string][]byte) {
	t.Helper()
	list, err := filepath.Glob(testdata("answers", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if _, ok := groups[strings.TrimSuffix(filepath.Base(path), ".jsonl")]; !ok {
			t.Errorf("no question writes %s", path)
		}
	}
}
