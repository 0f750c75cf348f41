package projections

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
)

// A file opens without any space on the disk, whether it was closed or its process was
// killed, and accepts events once there is space.
func TestOpenWithoutSpace(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	event := func(seq uint64) []events.Event {
		return []events.Event{{Seq: seq, ID: events.NewID(time.Now()), Type: "daybook.test.v1", Tenant: events.DefaultTenant, Time: time.Now(), Data: &events.Unknown{Type: "daybook.test.v1", Body: []byte("{}")}}}
	}
	for _, closed := range []bool{true, false} {
		for _, full := range []bool{true, false} {
			path := filepath.Join(t.TempDir(), "projections.db")
			s, err := Open(t.Context(), Options{Path: path, Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(t.Context(), event(1)); err != nil {
				t.Fatal(err)
			}
			if closed {
				err = s.Close()
			} else {
				path, err = copyFile(t, path), s.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			// A directory at the path of the index keeps SQLite from creating that
			// file.
			if err := errors.Join(ignoreNotExist(os.Remove(path+"-shm")), os.Mkdir(path+"-shm", 0o700), os.Symlink("/dev/full", path+".sum.new")); err != nil {
				t.Fatal(err)
			}
			opts := Options{Path: path, DiskFull: full, Logger: logger}
			if built, err := Prepare(t.Context(), opts, nil, 1); built || err != nil {
				t.Fatalf("closed %v, full %v: Prepare: %v, %v", closed, full, built, err)
			}
			if s, err = Open(t.Context(), opts); err != nil {
				t.Fatalf("closed %v, full %v: %v", closed, full, err)
			}
			if a, err := s.Anomalies(t.Context(), "", 0); a.UnknownType != 1 || err != nil || s.Applied() != 1 {
				t.Errorf("closed %v, full %v: %d events are read, %v; applied up to %d", closed, full, a.UnknownType, err, s.Applied())
			}
			if closed { // the state that a kill would leave now is trusted, because it did not change
				if why, err := verifyChecksum(path); why != "" || err != nil {
					t.Errorf("full %v: the open file is not trusted: %q, %v", full, why, err)
				}
				_ = os.Symlink("/dev/full", path+".sum.new") // in case it was removed
				if err := s.Apply(t.Context(), event(2)); !isUnwritable(err) || strings.Contains(sqliteText(err), path) {
					t.Errorf("full %v: an event without space for the mark: %v", full, err)
				}
			}
			_ = os.Remove(path + ".sum.new")
			if err := s.Apply(t.Context(), event(2)); err != nil {
				t.Errorf("closed %v, full %v: with space: %v", closed, full, err)
			}
			// The log is moved and emptied as usual, also with its index in memory.
			mover, err := sql.Open("sqlite3", s.dsn("_busy_timeout=0"))
			if err := errors.Join(err, s.Apply(t.Context(), event(3))); err != nil {
				t.Fatal(err)
			}
			if pages, left, err := s.moveLog(t.Context(), mover); pages < 1 || left > 0 || err != nil {
				t.Errorf("closed %v, full %v: %d pages of the log are moved, %d are left, %v", closed, full, pages, left, err)
			}
			if err := errors.Join(mover.Close(), s.TruncateLog(t.Context())); err != nil {
				t.Errorf("closed %v, full %v: %v", closed, full, err)
			}
			if log, err := os.Stat(path + "-wal"); err != nil || log.Size() != 0 {
				t.Errorf("closed %v, full %v: the log is not empty: %v", closed, full, err)
			}
			if err := errors.Join(s.Close(), ignoreNotExist(os.Remove(path+"-shm"))); err != nil {
				t.Errorf("closed %v, full %v: Close: %v", closed, full, err)
			}
			if reached := AppliedIn(t.Context(), path); reached != 3 {
				t.Errorf("closed %v, full %v: the file has %d events", closed, full, reached)
			}
		}
	}
}

// copyFile returns a copy of a file in the state that a kill would leave now.
func copyFile(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "projections.db")
	for _, suffix := range []string{"", "-wal", checksumSuffix} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// A disk with little space does not prevent a start while another process has the file
// open.
func TestOpenBesideAnotherProcess(t *testing.T) {
	const variable = "DAYBOOK_TEST_PROJECTIONS"
	if path := os.Getenv(variable); path != "" { // this is the other process
		version, err := readVersion(t.Context(), path, "_busy_timeout=10000")
		db, opened := sql.Open("sqlite3", dsn(path, ""))
		if err := errors.Join(err, opened); err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRowContext(t.Context(), "SELECT applied FROM position").Scan(new(int)); err != nil {
			t.Fatal(err)
		}
		fmt.Println(version)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "projections.db")
	s, err := Open(t.Context(), Options{Path: path})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), variable+"="+path)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != fmt.Sprintln(SchemaVersion) {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	s, err = Open(t.Context(), Options{Path: path, DiskFull: true})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Anomalies(t.Context(), "", 0); a.UnknownType != 0 || err != nil || s.isPrivate {
		t.Errorf("beside another process %d events are read, %v; the index is in memory: %v", a.UnknownType, err, s.isPrivate)
	}
	if err := errors.Join(s.Close(), in.Close(), other.Wait()); err != nil {
		t.Error(err)
	}
}

// Lack of space is no reason to delete a file.
func TestOutOfSpace(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.ENOSPC}: true,
		sqlite3.Error{Code: sqlite3.ErrFull}:                               true,
		sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EIO}:    false,
		sqlite3.Error{Code: sqlite3.ErrNotADB}:                             false,
		syscall.EDQUOT:                                                     true,
	} {
		if isOutOfSpace(err) != want {
			t.Errorf("outOfSpace(%v) is %v", err, !want)
		}
	}
	path := filepath.Join(t.TempDir(), "projections.db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Path: path}); err == nil || strings.Contains(err.Error(), "delete") {
		t.Errorf("a file that cannot be opened: %v", err)
	}
}
