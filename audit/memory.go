package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"daybook/internal/durable"
	"daybook/proof"
)

// Memory is a directory in which a verifier keeps the keys that it trusts and the checkpoints that
// it has verified. Each later verification must agree with all of them. Keep it where the operator
// of the ledger cannot write.
//
// The file "keys" has a verification key per line. The file "checkpoints" has signed notes, oldest
// first, each followed by an empty line.
type Memory struct {
	dir  string
	keys []string
	list []proof.Checkpoint
}

// maxKept is the maximum number of checkpoints in a Memory. The oldest one stays.
const maxKept = 1000

// Names in the directory of a Memory.
const (
	memoryKeys        = "keys"
	memoryCheckpoints = "checkpoints"
)

// MemoryError is returned by OpenMemory if the directory cannot be used.
type MemoryError struct{ err error }

// Error returns the message of the error.
func (e *MemoryError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *MemoryError) Unwrap() error { return e.err }

// OpenMemory reads a Memory. keys are added to the keys in it; a Memory without a checkpoint needs at
// least one. The error is a *MemoryError, for example for a note that none of the keys signed.
// OpenMemory writes nothing.
func OpenMemory(dir string, keys []string) (*Memory, error) {
	m := &Memory{dir: dir}
	fail := func(err error) (*Memory, error) {
		return nil, &MemoryError{fmt.Errorf("read the checkpoints that were kept in %s: %w", dir, err)}
	}
	raw, err := os.ReadFile(filepath.Join(dir, memoryKeys))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	for _, key := range append(strings.Fields(string(raw)), keys...) {
		if !slices.Contains(m.keys, key) {
			m.keys = append(m.keys, key)
		}
	}
	if err := proof.CheckVKeys(m.keys); err != nil {
		return fail(err)
	}
	raw, err = os.ReadFile(filepath.Join(dir, memoryCheckpoints))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if len(m.keys) == 0 {
		return fail(errors.New("it holds no key yet; give the key of the ledger once, with --key"))
	}
	for len(raw) > 0 {
		note, rest, ok := cutNote(raw)
		if !ok {
			return fail(fmt.Errorf("the file %s is cut off or was changed; restore it from a backup", memoryCheckpoints))
		}
		c, err := proof.OpenCheckpoint(note, m.keys...)
		if err != nil {
			return fail(err)
		}
		m.list, raw = append(m.list, c), rest
	}
	return m, nil
}

// cutNote cuts the first note off a file of checkpoints.
func cutNote(raw []byte) (note, rest []byte, ok bool) {
	text, signatures, ok := bytes.Cut(raw, []byte("\n\n"))
	if !ok {
		return nil, nil, false
	}
	if signatures, rest, ok = bytes.Cut(signatures, []byte("\n\n")); !ok {
		return nil, nil, false
	}
	return slices.Concat(text, []byte("\n\n"), signatures, []byte("\n")), rest, true
}

// Keys returns the trusted keys, for VerifyOptions.Keys.
func (m *Memory) Keys() []string { return slices.Clone(m.keys) }

// Checkpoints returns the kept checkpoints, oldest first, for VerifyOptions.Known.
func (m *Memory) Checkpoints() []proof.Checkpoint { return slices.Clone(m.list) }

// Keep adds the checkpoint of a report, and writes the memory. It keeps nothing unless the verdict is
// Intact or IntactUpTo. When it returns nil, the memory is on disk.
func (m *Memory) Keep(r *Report) error {
	if r.Verdict != Intact && r.Verdict != IntactUpTo || r.Checkpoint == "" {
		return nil
	}
	c, err := proof.OpenCheckpoint([]byte(r.Checkpoint), m.keys...)
	if err != nil {
		return fmt.Errorf("keep the checkpoint: %w", err)
	}
	if n := len(m.list); n == 0 || m.list[n-1].Size < c.Size {
		m.list = append(m.list, c)
	}
	if over := len(m.list) - maxKept; over > 0 {
		m.list = slices.Delete(m.list, 1, 1+over)
	}
	var notes bytes.Buffer
	for _, c := range m.list {
		notes.Write(c.Note)
		notes.WriteByte('\n')
	}
	err = durable.MkdirAll(m.dir, 0o755)
	if err == nil {
		err = durable.WriteFile(filepath.Join(m.dir, memoryKeys), []byte(strings.Join(m.keys, "\n")+"\n"), 0o644)
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(m.dir, memoryCheckpoints), notes.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the checkpoint in %s: %w", m.dir, err)
	}
	return nil
}
