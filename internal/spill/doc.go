// Package spill holds data that may be larger than memory: Table, a map, and Sorted, a sorted list.
// Both have keys and values of fixed length, keep a few data in memory, and move to a temporary file when
// there are more, so that their memory does not grow with their content.
//
// The files are created in os.TempDir and have no name: they end with the process. Neither type is safe
// for concurrent use.
//
// Files, in reading order:
//
//	table.go   Table: a hash table
//	sorted.go  Sorted: an external merge sort
package spill

import (
	"fmt"
	"os"
)

// createFile returns an empty temporary file without a name.
func createFile() (*os.File, error) {
	f, err := os.CreateTemp("", "daybook-*")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("create a temporary file (set TMPDIR to a directory on a disk with free space): %w", err)
	}
	return f, nil
}
