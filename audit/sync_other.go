//go:build !linux

package audit

import (
	"io/fs"
	"os"
	"path/filepath"
)

// syncFileSystem waits until everything in a directory is on disk.
func syncFileSystem(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}
