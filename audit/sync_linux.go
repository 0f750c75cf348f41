package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem waits until everything in a directory is on disk: one call for
// hundreds of tiles.
func syncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
