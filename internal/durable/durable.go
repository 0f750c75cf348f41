// Package durable writes files that survive a power cut.
//
// A write is durable after fsync of the file, and a name after fsync of its directory.
// A rename replaces a file atomically for other processes. But a power cut may leave an
// empty file under the new name unless the content was synced first. The comment of
// each function states what is durable when the function returns nil.
//
// durable.go is its only file.
package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// fsync waits until a file or directory is on disk. Tests replace it to observe the
// order of syncs and renames.
var fsync = (*os.File).Sync

// besideSuffix is the end of the name of the file that WriteFile writes first.
const besideSuffix = ".new"

// WriteFile replaces the file at path, or creates it. The mode is reduced by the umask.
// It writes path+".new" and renames it, as Replace does. The directory MUST exist, and
// at most one call at a time may write a path.
//
// When WriteFile returns nil, content and name are durable. After an error or a power cut
// the file has the old content or the new content.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	f, err := createBeside(path, mode)
	if err != nil {
		return err
	}
	return Replace(path, f, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// WriteFileUnsynced is WriteFile without syncs. If the process ends, the file has the
// old content or the new content. After a power cut it may also be empty. Use it for
// content that readers check and can do without.
func WriteFileUnsynced(path string, content []byte, mode os.FileMode) error {
	f, err := createBeside(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return rename(f, path, err)
}

func createBeside(path string, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path+besideSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
}

// Replace calls write with the open file beside, which is in the directory of path, and then
// renames this file to path. It closes the file. If an error occurs before the rename, it
// removes the file. write may be nil if the content of the file is written already.
//
// When Replace returns nil, content and name are durable. After an error or a power cut
// path is the old file or the new one.
func Replace(path string, beside *os.File, write func(*os.File) error) error {
	var err error
	if write != nil {
		err = write(beside)
	}
	if err == nil {
		err = fsync(beside)
	}
	if err := rename(beside, path, err); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// rename closes a file and renames it. failed is the error of an earlier step, or nil. If
// failed is not nil, or if closing or renaming fails, rename removes the file and returns
// the error.
func rename(beside *os.File, path string, failed error) error {
	err := errors.Join(failed, beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(beside.Name()))
	}
	return nil
}

// Create writes a file that does not exist; otherwise it returns fs.ErrExist.
//
// When Create returns nil, content and name are durable. After any other error the file does
// not exist. If the process ends during the call, the file has the whole content or does not
// exist; a file beside it with part of the content may remain. On a file system without hard
// links the file itself may have part of the content then.
func Create(path string, content []byte, mode os.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	beside := path + besideSuffix + "-" + rand.Text()
	if err := writeNew(beside, content, mode); err != nil {
		return err
	}
	err := os.Link(beside, path)
	if err = errors.Join(err, os.Remove(beside)); err != nil && !errors.Is(err, fs.ErrExist) {
		err = writeNew(path, content, mode)
	}
	if err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// writeNew creates a file and syncs its content. After an error the file does not exist.
func writeNew(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = fsync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// MkdirAll creates a directory, with its parents, if it does not exist. The mode is reduced
// by the umask.
//
// When MkdirAll returns nil, the names of the directories that it created are durable. A
// directory that existed is not synced.
func MkdirAll(path string, mode os.FileMode) error {
	var missing []string // path first
	for dir := filepath.Clean(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // os.MkdirAll returns any other error
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if err := SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in a directory durable: files that were created, renamed or
// removed there. It does not sync their content.
func SyncDir(dir string) error { return syncPath(dir) }

// Remove removes a file. When it returns nil, a power cut does not bring the file back. A missing
// file is no error.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncTree makes a directory durable with all files and directories below it. Its own name
// is durable after SyncDir of its parent.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(fsync(f), f.Close())
}

// SyncFileSystem makes all files and names of the file system of dir durable. For
// hundreds of files, one call is cheaper than SyncTree.
func SyncFileSystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
