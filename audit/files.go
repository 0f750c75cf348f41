package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	disk "daybook/internal/durable" // this package has a type of that name
)

// replaceFile replaces a file, and creates its directory if it is missing. With sync the
// content and the name are durable when it returns nil.
func replaceFile(path string, content []byte, mode os.FileMode, sync bool) error {
	write := disk.WriteFileUnsynced
	if sync {
		write = disk.WriteFile
	}
	err := write(path, content, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = write(path, content, mode)
		}
	}
	return err
}

func removeIfThere(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
