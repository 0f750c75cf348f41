package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile writes a file beside and renames it, so that a reader finds the
// old one or the new one. With sync it returns once that is on disk.
func replaceFile(path string, content []byte, mode os.FileMode, sync bool) error {
	dir := filepath.Dir(path)
	beside := path + ".new"
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			f, err = os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(beside))
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	if sync {
		return syncDir(dir)
	}
	return nil
}

// syncDir waits until the names in a directory are on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func removeIfThere(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
