package natscreds

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"daybook/internal/durable"
)

func listFile(dir string) string { return filepath.Join(dir, "credentials.jsonl") }

// read reads the list. It returns os.ErrNotExist if there is none.
func read(dir string) ([]Credential, error) {
	file, err := os.Open(listFile(dir))
	if err != nil {
		return nil, fmt.Errorf("read the list of credentials: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the list of credentials: %w", err)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("list of credentials %s: mode %04o lets other users change it; run chmod 600 %s", listFile(dir), info.Mode().Perm(), listFile(dir))
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the list of credentials: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("list of credentials %s: it is larger than %d KiB; remove lines of revoked credentials", listFile(dir), maxFile>>10)
	}
	list, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("list of credentials %s: %w", listFile(dir), err)
	}
	return list, nil
}

// edit changes the list under a lock and then calls write. The list is written first:
// an interrupted edit may leave a credentials file that the server refuses, but never
// an old key that it accepts.
func edit(dir string, change func([]Credential) ([]Credential, error), write func() error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of credentials: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "credentials.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the list of credentials: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // closing unlocks
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("lock the list of credentials: %w", err)
	}
	list, err := List(dir)
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	raw, err := encode(list)
	if err != nil {
		return fmt.Errorf("write the list of credentials: %w", err)
	}
	if len(raw) > maxFile {
		return fmt.Errorf("list of credentials %s: it would be larger than %d KiB; remove lines of revoked credentials", listFile(dir), maxFile>>10)
	}
	if err := replaceFile(listFile(dir), raw); err != nil {
		return err
	}
	return write()
}

// replaceFile writes a file that only its owner can read, and returns once it is on disk: a
// reported revocation must survive a power cut.
func replaceFile(path string, content []byte) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", path, err) }
	dir := filepath.Dir(path)
	beside, err := os.CreateTemp(dir, "."+filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return fail(err)
	}
	err = durable.Replace(path, beside, func(beside *os.File) error {
		_, err := beside.Write(content)
		return errors.Join(err, copyOwner(dir, beside))
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// copyOwner changes the owner of a file to that of its directory: a file written by
// root must stay readable for the server.
func copyOwner(dir string, file *os.File) error {
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil || int(info.Uid) == os.Geteuid() {
		return err
	}
	return file.Chown(int(info.Uid), int(info.Gid))
}
