package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordSyncs returns the names that are synced, relative to dir. check, if set, is called
// before each sync with its number. Tests that use it MUST NOT run in parallel.
func recordSyncs(t *testing.T, dir string, check func(n int)) *[]string {
	t.Helper()
	names := &[]string{}
	real := fsync
	t.Cleanup(func() { fsync = real })
	fsync = func(f *os.File) error {
		name, err := filepath.Rel(dir, f.Name())
		if err != nil {
			t.Error(err)
		}
		if check != nil {
			check(len(*names))
		}
		*names = append(*names, name)
		return real(f)
	}
	return names
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// fill writes the old content of a file.
func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// entries returns the names in a directory.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// The content is synced before the rename, and the directory after it.
func TestWriteFileSyncsAroundTheRename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	fill(t, path)
	names := recordSyncs(t, dir, func(n int) {
		if got, want := content(t, path), []string{"old", "new"}[n]; got != want {
			t.Errorf("sync %d: the file holds %q, want %q", n, got, want)
		}
	})
	if err := WriteFile(path, []byte("new"), 0o400); err != nil {
		t.Fatal(err)
	}
	if want := []string{"file.new", "."}; !slices.Equal(*names, want) {
		t.Errorf("synced %q, want %q", *names, want)
	}
	if got := entries(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("the directory holds %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestCreateSyncsFileAndDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	names := recordSyncs(t, dir, nil)
	if err := Create(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := *names; len(got) != 2 || !strings.HasPrefix(got[0], "file.new-") || got[1] != "." {
		t.Errorf("synced %q, want a file beside and the directory", got)
	}
	if list := entries(t, dir); len(list) != 1 {
		t.Errorf("the directory has %q", list)
	}
	if err := Create(path, []byte("newer"), 0o600); !errors.Is(err, fs.ErrExist) || content(t, path) != "new" {
		t.Errorf("the file was there: %v, it holds %q", err, content(t, path))
	}
}

func TestWriteFileUnsyncedSyncsNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	fill(t, path)
	names := recordSyncs(t, dir, nil)
	if err := WriteFileUnsynced(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(*names) != 0 || content(t, path) != "new" {
		t.Errorf("synced %q; the file holds %q", *names, content(t, path))
	}
}

func TestRemoveSyncsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	fill(t, path)
	names := recordSyncs(t, dir, func(int) {
		if list := entries(t, dir); len(list) > 0 {
			t.Errorf("at the sync the directory has %q", list)
		}
	})
	for range 2 { // the second time it is missing
		if err := Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if len(*names) != 1 || (*names)[0] != "." {
		t.Errorf("synced %q", *names)
	}
}

func TestMkdirAllSyncsTheParents(t *testing.T) {
	dir := t.TempDir()
	names := recordSyncs(t, dir, nil)
	path := filepath.Join(dir, "a", "b", "c")
	if err := MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if want := []string{".", "a", "a/b"}; !slices.Equal(*names, want) {
		t.Errorf("synced %q, want %q", *names, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	*names = nil
	if err := MkdirAll(path+"/", 0o700); err != nil || len(*names) != 0 {
		t.Errorf("a directory that exists: %v, synced %q", err, *names)
	}
	fill(t, filepath.Join(dir, "file"))
	if err := MkdirAll(filepath.Join(dir, "file", "a"), 0o700); err == nil || len(*names) != 0 {
		t.Errorf("below a file: %v, synced %q", err, *names)
	}
}

func TestFailingSyncOfAParentIsReturned(t *testing.T) {
	real, failed := fsync, errors.New("failed")
	t.Cleanup(func() { fsync = real })
	fsync = func(*os.File) error { return failed }
	if err := MkdirAll(filepath.Join(t.TempDir(), "a"), 0o700); !errors.Is(err, failed) {
		t.Errorf("%v, want the error of the sync", err)
	}
}

func TestSyncTreeSyncsEverythingBelow(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree", "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "tree", "a", "file"))
	names := recordSyncs(t, dir, nil)
	if err := SyncTree(filepath.Join(dir, "tree")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"tree", "tree/a", "tree/a/file"}; !slices.Equal(*names, want) {
		t.Errorf("synced %q, want %q", *names, want)
	}
	if err := SyncTree(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

// The error of a failing step is returned, the old file stays, and the new one is
// removed.
func TestFailingStepsLeaveTheOldFile(t *testing.T) {
	failed := errors.New("the disk failed")
	real := fsync
	t.Cleanup(func() { fsync = real })
	for name, test := range map[string]struct {
		fsync func(*os.File) error
		do    func(path string) error
	}{
		"sync of the file": {
			fsync: func(*os.File) error { return failed },
			do:    func(path string) error { return WriteFile(path, []byte("new"), 0o600) },
		},
		"write": {
			fsync: real,
			do: func(path string) error {
				f, err := os.CreateTemp(filepath.Dir(path), "beside-*")
				if err != nil {
					return err
				}
				return Replace(path, f, func(*os.File) error { return failed })
			},
		},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		fill(t, path)
		fsync = test.fsync
		if err := test.do(path); !errors.Is(err, failed) || content(t, path) != "old" {
			t.Errorf("%s: %v, the file holds %q", name, err, content(t, path))
		}
		if got := entries(t, dir); !slices.Equal(got, []string{"file"}) {
			t.Errorf("%s: the directory holds %q", name, got)
		}
	}
	dir := t.TempDir()
	fsync = func(*os.File) error { return failed }
	if err := Create(filepath.Join(dir, "file"), nil, 0o600); !errors.Is(err, failed) || len(entries(t, dir)) != 0 {
		t.Errorf("%v, the directory holds %q", err, entries(t, dir))
	}
}

// If the sync of the directory fails, the file is in place, but the caller gets an
// error because its name is not durable.
func TestFailingSyncOfTheDirectoryIsReturned(t *testing.T) {
	dir := t.TempDir()
	failed := errors.New("the disk failed")
	real := fsync
	t.Cleanup(func() { fsync = real })
	fsync = func(f *os.File) error {
		if f.Name() == dir {
			return failed
		}
		return real(f)
	}
	path := filepath.Join(dir, "file")
	if err := WriteFile(path, []byte("new"), 0o600); !errors.Is(err, failed) || content(t, path) != "new" {
		t.Errorf("%v, the file holds %q", err, content(t, path))
	}
}

// If a rename fails, the old file stays.
func TestFailingRename(t *testing.T) {
	for name, write := range map[string]func(path string) error{
		"WriteFile":         func(path string) error { return WriteFile(path, []byte("new"), 0o600) },
		"WriteFileUnsynced": func(path string) error { return WriteFileUnsynced(path, []byte("new"), 0o600) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		fill(t, filepath.Join(path, "inside"))
		if err := write(path); err == nil || content(t, filepath.Join(path, "inside")) != "old" {
			t.Errorf("%s: a directory was replaced: %v", name, err)
		}
		if got := entries(t, dir); !slices.Equal(got, []string{"file"}) {
			t.Errorf("%s: the directory holds %q", name, got)
		}
	}
}

func TestSyncFileSystem(t *testing.T) {
	if err := SyncFileSystem(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := SyncFileSystem(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
