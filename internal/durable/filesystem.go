package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncFileSystem makes the file system of a directory durable: all files and names on it.
// One call is cheaper than SyncTree for hundreds of files.
func SyncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
