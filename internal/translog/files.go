package translog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"daybook/internal/durable"
)

// replaceFile writes a file beside and renames it, so that a reader finds the
// old one or the new one. With sync it returns once that is on disk.
func replaceFile(path string, content []byte, mode os.FileMode, sync bool) error {
	write := durable.WriteFileUnsynced
	if sync {
		write = durable.WriteFile
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
