package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"daybook/internal/durable"
	"daybook/proof"
)

// Memory is a directory in which a verifier keeps the keys that it trusts, and the checkpoints and the
// statements about the signers that it has verified. Each later verification must agree with all of them. Keep it where the operator
// of the ledger cannot write.
//
// The file "keys" has a verification key per line. The files "checkpoints" and "signers" have signed
// notes, oldest first, each followed by an empty line.
type Memory struct {
	dir     string
	keys    []string
	list    []proof.Checkpoint
	signers *proof.Signers
}

// maxKept is the maximum number of checkpoints in a Memory. The oldest one stays.
const maxKept = 1000

// Names in the directory of a Memory.
const (
	memoryKeys        = "keys"
	memoryCheckpoints = "checkpoints"
	memorySigners     = "signers"
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
	// Keep cannot create the directory that such a link names.
	if target, err := os.Readlink(dir); err == nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fail(fmt.Errorf("it is a symbolic link to %s, which does not exist; create that directory, or name another one", target))
		}
	}
	// Keep writes the keys first, so that a reader of the checkpoints has the key of each.
	notes, err := os.ReadFile(filepath.Join(dir, memoryCheckpoints))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
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
	if len(m.keys) == 0 {
		return fail(errors.New("it holds no key yet; give the key of the ledger once, with --key"))
	}
	if raw, err = os.ReadFile(filepath.Join(dir, memorySigners)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if m.signers, err = proof.ParseSigners(raw); err != nil {
		return fail(fmt.Errorf("the file %s was changed: %w; restore it from a backup", memorySigners, err))
	}
	trust := m.signers.Trust(m.keys)
	for len(notes) > 0 {
		note, rest, ok := proof.CutNote(notes)
		if !ok {
			return fail(fmt.Errorf("the file %s is cut off or was changed; restore it from a backup", memoryCheckpoints))
		}
		c, err := trust.Open(note)
		if errors.Is(err, proof.ErrUnknownKey) { // an earlier verification kept it, and its key may be retired since
			c, err = proof.OpenCheckpoint(note, trust.Keys...)
		}
		if err != nil {
			return fail(err)
		}
		m.list, notes = append(m.list, c), rest
	}
	return m, nil
}

// Keys returns the trusted keys, for VerifyOptions.Keys.
func (m *Memory) Keys() []string { return slices.Clone(m.keys) }

// Signers returns the kept statements about the signers, for VerifyOptions.Signers.
func (m *Memory) Signers() *proof.Signers { return m.signers.Clone() }

// Checkpoints returns the kept checkpoints, oldest first, for VerifyOptions.Known.
func (m *Memory) Checkpoints() []proof.Checkpoint { return slices.Clone(m.list) }

// Keep adds the checkpoint of a report, and the one with cosignatures if a policy was given, and writes the
// memory. It keeps nothing unless the verdict is
// Intact or IntactUpTo, and the checkpoint was compared: with the events, or by proofs with all
// checkpoints that were kept. When it returns nil, the memory is on disk. Several processes may keep
// checkpoints in one directory at the same time; Keep waits for the others.
func (m *Memory) Keep(r *Report) error {
	if r.Verdict != Intact && r.Verdict != IntactUpTo || r.Checkpoint == "" || r.signers == nil || !r.Complete && !r.compared {
		return nil
	}
	if err := m.keep(r); err != nil {
		return fmt.Errorf("keep the checkpoint in %s: %w", m.dir, err)
	}
	return nil
}

func (m *Memory) keep(r *Report) error {
	c, err := proof.ParseCheckpoint([]byte(r.Checkpoint)) // verified for the report
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	unlock, err := lockDir(m.dir)
	if err != nil {
		return err
	}
	defer unlock()
	newest, err := OpenMemory(m.dir, m.keys) // with what other processes kept since
	if err != nil {
		return err
	}
	*m = *newest
	if under, err := proof.ParseSigners(r.signers.Under(c)); err != nil {
		return err
	} else if under.Continues(m.signers) == nil {
		m.signers = under
	}
	m.add(c, false)
	if r.Cosigned != nil && r.Cosigned.Checkpoint != "" { // verified for the report, and the tree confirms it
		cosigned, err := proof.ParseCheckpoint([]byte(r.Cosigned.Checkpoint))
		if err != nil {
			return err
		}
		m.add(cosigned, true)
	}
	if over := len(m.list) - maxKept; over > 0 {
		m.list = slices.Delete(m.list, 1, 1+over)
	}
	var notes bytes.Buffer
	for _, c := range m.list {
		notes.Write(c.Note)
		notes.WriteByte('\n')
	}
	if err := durable.WriteFile(filepath.Join(m.dir, memoryKeys), []byte(strings.Join(m.keys, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(m.dir, memorySigners), m.signers.Bytes(), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(m.dir, memoryCheckpoints), notes.Bytes(), 0o644)
}

// add adds a checkpoint, unless the memory has it. With replace set, the new note replaces that of the same
// tree, which may lack cosignatures. A checkpoint of the same size and another tree is kept too: the next
// verification reports it.
func (m *Memory) add(c proof.Checkpoint, replace bool) {
	i := slices.IndexFunc(m.list, func(k proof.Checkpoint) bool {
		return k.Origin == c.Origin && k.Size == c.Size && k.Root == c.Root
	})
	switch {
	case i < 0:
		i, _ = slices.BinarySearchFunc(m.list, c.Size+1, func(k proof.Checkpoint, size uint64) int { return cmp.Compare(k.Size, size) })
		m.list = slices.Insert(m.list, i, c)
	case replace:
		m.list[i] = c
	}
}

// lockDir waits until no other process has the lock of a directory, and takes it.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX); {
		case err == nil:
			return func() { f.Close() }, nil // closing releases the lock
		case !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("lock it: %w", err)
		}
	}
}
