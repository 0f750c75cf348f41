//go:build !linux

package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// SyncFileSystem makes a directory durable with all files and directories below it: there
// is no call that waits for a file system. Files that are removed meanwhile are skipped.
func SyncFileSystem(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = syncPath(path)
		}
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
