package translog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"daybook/internal/durable"
	"daybook/proof"
)

// The signed file contains the newest checkpoint that this server signed. It is beside the signing
// key: a person who can change the data directory and not the key cannot set the ledger back, or
// replace events that were signed, without a contradiction to this file.
//
// Each checkpoint is in the file before anything else can see it. Therefore a checkpoint that was
// published is never newer than the file.

// signedSuffix is the end of the default name of the signed file, after the name of the key file.
const signedSuffix = ".signed"

// SignedPath returns the path of the signed file. The arguments are the fields of Options.
func SignedPath(dir, keyFile, signedFile string) string {
	return cmp.Or(signedFile, keyPath(dir, keyFile)+signedSuffix)
}

// SignedFileError is returned by Open if the signed file cannot be used.
type SignedFileError struct{ err error }

// Error returns the message of the error.
func (e *SignedFileError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *SignedFileError) Unwrap() error { return e.err }

// readSigned returns the checkpoint in a signed file. Its Note is nil if the file does not exist.
func readSigned(path string, vkeys []string) (proof.Checkpoint, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return proof.Checkpoint{}, nil
	}
	if err != nil {
		return proof.Checkpoint{}, err
	}
	c, err := proof.OpenCheckpoint(raw, vkeys...)
	if err != nil {
		return proof.Checkpoint{}, fmt.Errorf("%s does not hold the newest checkpoint that this ledger's key signed (%w); restore it from a backup, or move it away if you know that the ledger was not set back", path, err)
	}
	return c, nil
}

// openSigned reads the signed file into l.signed. If there is none, it starts one with the newest
// checkpoint in the audit directory, if this server signed that.
func (l *Log) openSigned() error {
	path := SignedPath(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile)
	var err error
	own := ofOrigin(l.keys.known, l.keys.Origin)
	// Earlier builds started the file with a checkpoint of another server.
	if l.signed, err = readSigned(path, append(ofOrigin(l.counting().Keys, l.keys.Origin), own...)); err != nil {
		return &SignedFileError{err}
	}
	if l.signed.Note != nil {
		if _, err := l.counting().Open(l.signed.Note); err == nil && l.signed.Size > l.latest.Size { // a crash before it was stored, or files that were set back
			c := l.signed
			l.unstored = &c
		}
		return nil
	}
	if _, foreign := proof.OpenCheckpoint(l.latest.Note, own...); l.latest.Note != nil && foreign == nil {
		err = l.remember(l.latest)
	} else {
		err = unix.Access(filepath.Dir(path), unix.W_OK)
	}
	if err != nil {
		return &SignedFileError{fmt.Errorf("the newest signed checkpoint cannot be kept in %s: %w; make its directory writable, or give another file with --audit-signed", path, err)}
	}
	return nil
}

// remember writes a checkpoint to the signed file, unless the file contains a larger one. Only after
// remember has returned nil, the checkpoint may leave the Log.
func (l *Log) remember(c proof.Checkpoint) error {
	l.checkpointsMu.Lock()
	defer l.checkpointsMu.Unlock()
	l.mu.Lock()
	newer, damage, origin := l.signed.Note == nil || c.Size > l.signed.Size, cmp.Or(l.damage, l.suspected), l.keys.Origin
	l.mu.Unlock()
	if damage != nil { // it was found while c was signed
		return damage
	}
	if c.Origin != origin {
		return fmt.Errorf("the origin %s ended while a checkpoint of it was signed", c.Origin)
	}
	if !newer {
		return nil
	}
	return l.writeSigned(c)
}

// rememberContradiction writes a checkpoint that a witness showed to the signed file, in place of the one
// there: a later start then finds the contradiction without the witness. The signed file keeps only
// checkpoints of keys that this server knows. The newest checkpoint that this server signed remains in the
// file of checkpoints.
func (l *Log) rememberContradiction(c proof.Checkpoint) error {
	l.checkpointsMu.Lock()
	defer l.checkpointsMu.Unlock()
	l.mu.Lock()
	keys := ofOrigin(l.keys.known, l.keys.Origin)
	l.mu.Unlock()
	if _, err := proof.OpenCheckpoint(c.Note, keys...); err != nil {
		return nil // the key of another server of a shared ledger
	}
	return l.writeSigned(c)
}

// writeSigned writes the signed file. The caller must hold checkpointsMu.
func (l *Log) writeSigned(c proof.Checkpoint) error {
	write := durable.WriteFile
	if l.opts.NoSync {
		write = durable.WriteFileUnsynced
	}
	if err := write(SignedPath(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile), c.Note, 0o644); err != nil {
		return fmt.Errorf("keep the newest signed checkpoint: %w", err)
	}
	l.mu.Lock()
	l.signed = c
	l.mu.Unlock()
	return nil
}

// mustHold returns the checkpoints that the tree MUST agree with: the newest one in the file of
// checkpoints, and the newest one that was signed. The caller must hold mu.
func (l *Log) mustHold() [2]proof.Checkpoint { return [2]proof.Checkpoint{l.latest, l.signed} }
