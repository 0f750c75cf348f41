package natsserver

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFileSystem writes back the file system that dir is on.
func syncFileSystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
