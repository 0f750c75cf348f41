package translog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"daybook/internal/durable"
)

// replaceFile replaces a file by rename, so that a reader finds the old or the new content. It
// creates the directory if necessary. With sync set, the new content is durable on return.
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
