package witness_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"daybook/internal/datadir"
	"daybook/internal/witness"
)

// After a restart the witness continues from what it cosigned, also for an origin that it did not follow
// meanwhile, and with another key of the log.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, other := newLog(t, origin).grow(9, "a"), newLog(t, "example.com/other").grow(5, "a")
	w := open(t, dir, l.vkey, other.vkey)
	vkey := w.VKey()
	wantCosigned(t, w, l.request(0, 7))
	if _, err := witness.Open(witness.Options{Dir: dir, Logs: []string{l.vkey}}); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, dir, other.vkey)
	if status, _, _ := send(t, w, l.request(7, 9)); status != http.StatusNotFound {
		t.Errorf("an origin that is not followed any more: %d", status)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rotated := newLog(t, origin).grow(9, "a")
	w = open(t, dir, rotated.vkey)
	if status, _, text := send(t, w, rotated.request(0, 9)); status != http.StatusConflict || text != "7\n" || w.VKey() != vkey {
		t.Errorf("after a restart: %d %s", status, text)
	}
	wantCosigned(t, w, rotated.request(7, 9))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.Open(witness.Options{Dir: dir, Name: "another", Logs: []string{l.vkey}}); err == nil {
		t.Error("another name is accepted")
	}
}

// The checkpoint is in the state directory when the cosignature arrives. A state directory that lacks a file, or
// has another one in its place, is refused at each start: no start begins from scratch.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, other := newLog(t, origin).grow(9, "a"), newLog(t, "example.com/other").grow(5, "a")
	w := open(t, dir, l.vkey, other.vkey)
	wantCosigned(t, w, l.request(0, 7))
	state, stateOfOther := filepath.Join("checkpoints", witness.OriginHash(origin)), filepath.Join("checkpoints", witness.OriginHash("example.com/other"))
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	with := func(name string, change func(copied string)) (string, error) {
		t.Helper()
		copied := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(copied, "key"), 0o600); err != nil {
			t.Fatal(err)
		}
		change(copied)
		w, err := witness.Open(witness.Options{Dir: copied, Logs: []string{l.vkey, other.vkey}})
		if err == nil {
			defer w.Close()
			if status, _, text := send(t, w, l.request(0, 9)); status != http.StatusConflict || text != "7\n" {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		return copied, err
	}
	if _, err := with("unchanged", func(string) {}); err != nil {
		t.Fatal(err)
	}
	write := func(name string, raw []byte) func(string) {
		return func(copied string) {
			if err := os.WriteFile(filepath.Join(copied, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(names ...string) func(string) {
		return func(copied string) {
			for _, name := range names {
				if err := os.RemoveAll(filepath.Join(copied, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	changes := map[string]func(string){
		"no key":                         remove("key"),
		"no list of origins":             remove("origins"),
		"no key and no list":             remove("key", "origins"),
		"no state of an origin":          remove(state),
		"no state of an unused origin":   remove(stateOfOther),
		"no states":                      remove("checkpoints"),
		"no key and no states":           remove("key", "checkpoints"),
		"no list and no states":          remove("origins", "checkpoints"),
		"the state of another origin":    write(state, read(stateOfOther)),
		"an empty state":                 write(state, nil),
		"an empty list":                  write("origins", nil),
		"an empty key":                   write("key", nil),
		"a checkpoint without signature": write(state, l.checkpoint(7, "")),
		"a list without the origin":      write("origins", bytes.Replace(read("origins"), []byte(origin+"\n"), nil, 1)),
	}
	for _, name := range []string{"key", "origins", state, stateOfOther} {
		raw := read(name)
		for _, at := range []int{0, 1, len(raw) / 3, len(raw) / 2, len(raw) - 10, len(raw) - 3} {
			flipped := bytes.Clone(raw)
			flipped[at] ^= 4
			changes[fmt.Sprintf("%s with another byte at %d", name, at)] = write(name, flipped)
		}
		changes["half of "+name] = write(name, raw[:len(raw)/2])
	}
	for name, change := range changes {
		dir, err := with(name, change)
		var damaged *witness.DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w, err := witness.Open(witness.Options{Dir: dir, Logs: []string{l.vkey, other.vkey}}); err == nil {
			t.Errorf("%s: the second start succeeds", name)
			_ = w.Close()
		}
	}
}

// A start continues what a crash of the first start, or of the first start with a log, interrupted.
func TestCrashesOfTheFirstStart(t *testing.T) {
	t.Parallel()
	l := newLog(t, origin).grow(9, "a")
	whole := t.TempDir()
	if err := open(t, whole, l.vkey).Close(); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir() // before the log is known
	other := newLog(t, "example.com/other")
	if err := open(t, empty, other.vkey).Close(); err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string][]string{
		"nothing":         {"key", "origins", "checkpoints"},
		"a directory":     {"key", "origins", filepath.Join("checkpoints", witness.OriginHash("example.com/other"))},
		"not complete":    {},
		"the empty state": {},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.CopyFS(dir, os.DirFS(empty)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "key"), 0o600); err != nil { // CopyFS adds permissions
			t.Fatal(err)
		}
		for _, file := range remove {
			if err := os.RemoveAll(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		state := filepath.Join("checkpoints", witness.OriginHash(origin))
		raw, err := os.ReadFile(filepath.Join(whole, state))
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "the empty state":
			err = os.WriteFile(filepath.Join(dir, state), raw, 0o600)
		case "not complete":
			err = os.WriteFile(filepath.Join(dir, state+".new"), raw[:9], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		wantCosigned(t, open(t, dir, l.vkey), l.request(0, 7))
	}
}

// If the checkpoint cannot be stored, no cosignature leaves, and nothing is forgotten.
func TestStateThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLog(t, origin).grow(9, "a")
	w := open(t, dir, l.vkey)
	wantCosigned(t, w, l.request(0, 7))
	state := filepath.Join(dir, "checkpoints", witness.OriginHash(origin))
	if err := os.Mkdir(state+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if status, _, text := send(t, w, l.request(7, 9)); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, text)
	}
	if err := os.Remove(state + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if status, _, text := send(t, w, l.request(0, 9)); status != http.StatusConflict || text != "7\n" {
		t.Errorf("%d %s", status, text)
	}
	wantCosigned(t, w, l.request(7, 9))
}
