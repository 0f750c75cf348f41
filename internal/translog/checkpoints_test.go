package translog_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

func FuzzSplitNotes(f *testing.F) {
	const note = "daybook/x\n12\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n"
	f.Add([]byte(note))
	f.Add([]byte(note + "\n" + note + "\n"))
	f.Add([]byte(note + "\n" + note[:20]))
	f.Add([]byte(note + "\n" + note[:len(note)-5]))
	f.Add([]byte("\n"))
	path := filepath.Join(f.TempDir(), "checkpoints")
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := translog.SplitNotes(raw)
		if parts := splitParts(raw); !slices.EqualFunc(before, parts, bytes.Equal) {
			t.Errorf("%q has the notes %q, want %q", raw, before, parts)
		}
		at := 0
		for _, signed := range before {
			text, signatures, ok := bytes.Cut(signed, []byte("\n\n"))
			if !ok || !bytes.HasPrefix(signatures, []byte("\u2014 ")) || !bytes.HasSuffix(signatures, []byte("\n")) || bytes.HasPrefix(text, []byte("\n")) {
				t.Errorf("%q holds the note %q", raw, signed)
			}
			// The notes are parts of the file, in order and apart.
			from := bytes.Index(raw[at:], bytes.TrimRight(signed, "\n"))
			if from < 0 {
				t.Fatalf("%q does not hold the note %q after byte %d", raw, signed, at)
			}
			at += from + len(bytes.TrimRight(signed, "\n"))
		}
		// A note that is appended to any file is found, after all others.
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := translog.KeepCheckpoint(filepath.Dir(path), []byte(note), math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		after := translog.SplitNotes(now)
		if len(after) != len(before)+1 || string(after[len(before)]) != note || !slices.EqualFunc(before, after[:len(before)], bytes.Equal) {
			t.Errorf("%q with a note has %q, without it %q", raw, after, before)
		}
	})
}

// splitParts splits a whole file into notes.
func splitParts(raw []byte) (notes [][]byte) {
	var text []byte
	for part := range bytes.SplitSeq(raw, []byte("\n\n")) {
		if !bytes.HasPrefix(part, []byte("\u2014 ")) {
			text = part
			continue
		}
		if text != nil {
			notes = append(notes, fmt.Appendf(nil, "%s\n\n%s\n", bytes.TrimLeft(text, "\n"), bytes.TrimRight(part, "\n")))
		}
		text = nil
	}
	return notes
}

// signNotes appends checkpoints of the given sizes to the files in a directory, with files of 600 bytes.
func signNotes(t *testing.T, dir string, signer note.Signer, sizes ...uint64) (notes []string) {
	t.Helper()
	for _, size := range sizes {
		c, err := proof.Checkpoint{Origin: signer.Name(), Size: size, Root: proof.Hash{byte(len(notes))}}.Sign(signer)
		if err == nil {
			err = translog.KeepCheckpoint(dir, c.Note, 600)
		}
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, string(c.Note))
	}
	return notes
}

func notesIn(t *testing.T, dir string) (list []string) {
	for _, c := range translogtest.Checkpoints(t, dir) {
		list = append(list, string(c.Note))
	}
	return list
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "checkpoints*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A full file of checkpoints is renamed. All checkpoints are read in the order of their sizes, those of
// one size in the order of writing, also if the files have another order.
func TestCheckpointFilesRotate(t *testing.T) {
	t.Parallel()
	signer, vkey := translogtest.NewSigner(t, "daybook/x")
	for name, sizes := range map[string][]uint64{
		"in order":    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
		"backward":    {9, 8, 7, 6, 5, 4, 3, 2, 1},
		"set back":    {5, 6, 7, 8, 9, 3, 4, 5, 6, 7, 8, 9, 10},
		"equal sizes": {5, 5, 4, 5, 4, 4, 5, 5, 4},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "vkey"), []byte(vkey+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		notes := signNotes(t, dir, signer, sizes...)
		if files := filesIn(t, dir); len(files) < 3 || filepath.Base(files[1]) != "checkpoints.000001" {
			t.Errorf("%s: the files are %v", name, files)
		}
		if c, ok := translog.NewestCheckpoint(dir); !ok || string(c.Note) != notes[len(notes)-1] {
			t.Errorf("%s: the last checkpoint is %q", name, c.Note)
		}
		order := make([]int, len(sizes))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[a], sizes[b]) })
		want := make([]string, len(sizes))
		for i, n := range order {
			want[i] = notes[n]
		}
		if got := notesIn(t, dir); !slices.Equal(got, want) {
			t.Errorf("%s: read\n%q\nwant\n%q", name, got, want)
		}
	}
}

// What a crash leaves at any place of an append or of a rotation, and a damaged or missing file, costs only
// the checkpoints that are not there.
func TestDamagedCheckpointFiles(t *testing.T) {
	t.Parallel()
	signer, vkey := translogtest.NewSigner(t, "daybook/x")
	sizes := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	within := func(dir, name string) string { return filepath.Join(dir, name) }
	for name, tt := range map[string]struct {
		harm func(dir string) error
		lost []int // the indexes of the notes that are not there
	}{
		"nothing": {func(string) error { return nil }, nil},
		"a crash after the rename": {func(dir string) error {
			return os.Rename(within(dir, "checkpoints"), within(dir, "checkpoints.000004"))
		}, nil},
		"a crash after the next file is created": {func(dir string) error {
			return errors.Join(os.Rename(within(dir, "checkpoints"), within(dir, "checkpoints.000004")), os.WriteFile(within(dir, "checkpoints"), nil, 0o600))
		}, nil},
		"half a note at the end": {func(dir string) error { return appendTo(within(dir, "checkpoints"), "daybook/x\n14\nAAA") }, nil},
		"half a signature at the end": {func(dir string) error {
			return appendTo(within(dir, "checkpoints"), "daybook/x\n14\nAAA\n\n\u2014 dayb")
		}, nil},
		"half a note at the end of a full file": {func(dir string) error { return appendTo(within(dir, "checkpoints.000002"), "daybook/x\n14\nAAA") }, nil},
		"a cut full file":                       {func(dir string) error { return os.Truncate(within(dir, "checkpoints.000002"), 300) }, []int{5, 6, 7}},
		"a missing full file":                   {func(dir string) error { return os.Remove(within(dir, "checkpoints.000002")) }, []int{4, 5, 6, 7}},
		"the newest file is missing":            {func(dir string) error { return os.Remove(within(dir, "checkpoints")) }, []int{12}},
		"garbage that is longer than notes": {func(dir string) error {
			return os.WriteFile(within(dir, "checkpoints.000001"), bytes.Repeat([]byte("daybook/x "), 1<<15), 0o600)
		}, []int{0, 1, 2, 3}},
		"a file with another name": {func(dir string) error {
			return os.Rename(within(dir, "checkpoints.000003"), within(dir, "checkpoints.3"))
		}, []int{8, 9, 10, 11}},
		"only the newest file is there": {func(dir string) error {
			return errors.Join(os.Remove(within(dir, "checkpoints.000001")), os.Remove(within(dir, "checkpoints.000002")), os.Remove(within(dir, "checkpoints.000003")))
		}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"one large file of an earlier version": {func(dir string) error {
			var all []byte
			for _, name := range []string{"checkpoints.000001", "checkpoints.000002", "checkpoints.000003", "checkpoints"} {
				raw, err := os.ReadFile(within(dir, name))
				if err != nil {
					return err
				}
				all = append(all, raw...)
				if err := os.Remove(within(dir, name)); err != nil {
					return err
				}
			}
			return os.WriteFile(within(dir, "checkpoints"), all, 0o600)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "vkey"), []byte(vkey+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, signed := range signNotes(t, dir, signer, sizes...) {
				if !slices.Contains(tt.lost, i) {
					want = append(want, signed)
				}
			}
			if files := filesIn(t, dir); len(files) != 4 {
				t.Fatalf("the files are %v", files)
			}
			if err := tt.harm(dir); err != nil {
				t.Fatal(err)
			}
			if got := notesIn(t, dir); !slices.Equal(got, want) {
				t.Errorf("read\n%q\nwant\n%q", got, want)
			}
			if c, _ := translog.NewestCheckpoint(dir); string(c.Note) != want[len(want)-1] {
				t.Errorf("the last checkpoint is %q", c.Note)
			}
			// The next append continues, and no file is overwritten.
			want = append(want, signNotes(t, dir, signer, 14, 15, 16, 17, 18)...)
			if got := notesIn(t, dir); !slices.Equal(got, want) {
				t.Errorf("after more checkpoints read\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// splitFiles gives each checkpoint in the file "checkpoints" a file of its own.
func splitFiles(t *testing.T, dir string) {
	t.Helper()
	notes := translog.SplitNotes(mustRead(t, filepath.Join(dir, "checkpoints")))
	remove(t, dir, "checkpoints")
	for _, signed := range notes {
		if err := translog.KeepCheckpoint(dir, signed, 1); err != nil {
			t.Fatal(err)
		}
	}
	if files := filesIn(t, dir); len(files) != len(notes) || len(notes) < 2 {
		t.Fatalf("the files of %d checkpoints are %v", len(notes), files)
	}
}

// A log continues with full files of checkpoints, also after a crash between the renaming of one and the next
// append, and does not make a missing key again.
func TestLogWithRotatedCheckpoints(t *testing.T) {
	t.Parallel()
	store, dir := newStore(t), t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	for range 4 {
		mustCheckpoint(t, log, fill(t, store, 3))
	}
	closeLog(t, log)
	latest, _ := log.Latest()
	splitFiles(t, dir)
	if err := os.Rename(filepath.Join(dir, "checkpoints"), filepath.Join(dir, "checkpoints.000099")); err != nil {
		t.Fatal(err)
	}
	remove(t, dir, "key.signed")
	again := start(t, store, translog.Options{Dir: dir})
	if c, ok := again.Latest(); !ok || c.Size < latest.Size { // it may have signed the event of that checkpoint already
		t.Errorf("the newest checkpoint covers %d events, want at least %d", c.Size, latest.Size)
	}
	closeLog(t, again)
	for _, name := range []string{"key", "key.signed", "signers", "checkpoints"} {
		remove(t, dir, name)
	}
	if err := <-start(t, store, translog.Options{Dir: dir}).Ended; !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Run without the key that signed: %v", err)
	}
}
