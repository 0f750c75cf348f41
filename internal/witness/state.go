package witness

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"daybook/internal/datadir"
	"daybook/internal/durable"
	"daybook/proof"
)

// The state directory has these files:
//
//	key                  the private key, mode 0600
//	origins              every origin that the witness has followed, with a checksum
//	checkpoints/<hash>   the newest cosigned checkpoint of an origin; before the first one, a note that
//	                     none is cosigned. <hash> is the SHA-256 of the origin
//	lock                 the lock of the process
//
// Each step leaves a directory in which a missing file is noticed: "origins" is written before the first
// key, and the file of an origin before its line in "origins". So a key without "origins", an origin
// without its file, and a file with a checkpoint that "origins" does not name are damage. A file without
// a checkpoint that "origins" does not name is left by a crash. All files but the lock have checksums, and
// a cosigned checkpoint is verified with the key of the witness.
const (
	fileKey       = "key"
	fileOrigins   = "origins"
	dirCheckpoint = "checkpoints"
	originsFirst  = "daybook-witness-origins-v1"
	notCosigned   = "daybook-witness-nothing-cosigned-v1"
	isCosigned    = "daybook-witness-cosigned-v1"
)

// damagedError says that the state directory is not as the witness left it.
type damagedError struct {
	path, text string
}

// Error names the file and says what to do.
func (e *damagedError) Error() string {
	return fmt.Sprintf("the state of the witness is damaged: %s %s. Do not restore it from a backup: an older state may cosign what contradicts newer cosignatures. Start a witness with another state directory, which gets another key", e.path, e.text)
}

// OriginHash returns the SHA-256 of an origin, in hexadecimal digits.
func OriginHash(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}

func (w *Witness) path(name string) string { return filepath.Join(w.dir, name) }

func (w *Witness) checkpointPath(origin string) string {
	return filepath.Join(w.dir, dirCheckpoint, OriginHash(origin))
}

// openState takes the lock, and reads the key or creates it.
func (w *Witness) openState(name string) (err error) {
	if err := durable.MkdirAll(w.path(dirCheckpoint), 0o700); err != nil {
		return fmt.Errorf("open the state of the witness: %w", err)
	}
	if w.lock, err = datadir.TakeLock(w.dir); err != nil {
		return err
	}
	if err := w.openKey(name); err != nil {
		return errors.Join(err, w.lock.Release())
	}
	return nil
}

func (w *Witness) openKey(name string) error {
	path := w.path(fileKey)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return w.makeKey(name)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("the key %s is accessible to other users (mode %o); if another user may have read it, start a witness with another state directory; otherwise chmod 600 it", path, info.Mode().Perm())
	}
	if w.signer, err = proof.ParseWitnessSigner(strings.TrimSuffix(string(raw), "\n")); err != nil {
		return &damagedError{path, "holds no key"}
	}
	if has := w.signer.Key().Name; name != "" && name != has {
		return fmt.Errorf("%w: its key is named %s, not %s; another name needs another state directory", ErrBadOption, has, name)
	}
	_, err = w.readOrigins()
	return err
}

// makeKey creates the key in a directory that has none.
func (w *Witness) makeKey(name string) error {
	switch origins, err := w.readOrigins(); {
	case err == nil && len(origins) > 0:
		return &damagedError{w.path(fileKey), "is missing"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	files, err := os.ReadDir(w.path(dirCheckpoint))
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return &damagedError{w.path(fileKey), "is missing"}
	}
	var random [ed25519SeedBytes + 8]byte
	_, _ = rand.Read(random[:]) // never fails
	if name == "" {
		name = "daybook-witness/" + hex.EncodeToString(random[ed25519SeedBytes:])
	}
	if w.signer, err = proof.NewWitnessSigner(name, random[:ed25519SeedBytes]); err != nil {
		return fmt.Errorf("%w: %w", ErrBadOption, err)
	}
	if err = w.writeOrigins(nil); err == nil {
		err = durable.WriteFile(w.path(fileKey), []byte(w.signer.Encode()+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("create the key of the witness: %w", err)
	}
	return nil
}

const ed25519SeedBytes = 32

// readOrigins returns the origins that the witness has followed. If the file is missing although the
// key exists, the error is a *damagedError.
func (w *Witness) readOrigins() ([]string, error) {
	path := w.path(fileOrigins)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && w.signer != nil {
		return nil, &damagedError{path, "is missing"}
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(raw), "\n")
	if len(lines) < 3 || lines[0] != originsFirst || lines[len(lines)-1] != "" {
		return nil, &damagedError{path, "is malformed"}
	}
	origins := lines[1 : len(lines)-2]
	if string(raw) != encodeOrigins(origins) {
		return nil, &damagedError{path, "does not match its checksum"}
	}
	return origins, nil
}

func encodeOrigins(origins []string) string {
	text := strings.Join(slices.Concat([]string{originsFirst}, origins), "\n") + "\n"
	return text + OriginHash(text) + "\n"
}

func (w *Witness) writeOrigins(origins []string) error {
	return durable.WriteFile(w.path(fileOrigins), []byte(encodeOrigins(origins)), 0o600)
}

// readCheckpoint returns the newest cosigned checkpoint of an origin and the time of the cosignature. If
// the witness has never followed the origin, readCheckpoint creates its state.
func (w *Witness) readCheckpoint(origin string) (c proof.Checkpoint, at time.Time, err error) {
	origins, err := w.readOrigins()
	if err != nil {
		return c, at, err
	}
	path := w.checkpointPath(origin)
	raw, err := os.ReadFile(path)
	known := slices.Contains(origins, origin)
	switch {
	case errors.Is(err, fs.ErrNotExist) && known:
		return c, at, &damagedError{path, fmt.Sprintf("is missing, the state of %q", origin)}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return c, at, err
	case err == nil && string(raw) == emptyState(origin):
		if known {
			return c, at, nil
		}
		// A crash before the origin was added to the list.
	case err == nil && !known:
		return c, at, &damagedError{path, fmt.Sprintf("is the state of %q, which %s does not name", origin, fileOrigins)}
	case err == nil:
		return w.openCheckpoint(path, origin, raw)
	}
	if err := durable.WriteFile(path, []byte(emptyState(origin)), 0o600); err != nil {
		return c, at, err
	}
	return c, at, w.writeOrigins(append(slices.Clone(origins), origin))
}

// emptyState is the state of an origin of which nothing is cosigned.
func emptyState(origin string) string {
	text := notCosigned + "\n" + origin + "\n"
	return text + OriginHash(text) + "\n"
}

// openCheckpoint verifies a stored checkpoint with the key of the witness. The key of the log may have
// changed since.
func (w *Witness) openCheckpoint(path, origin string, whole []byte) (c proof.Checkpoint, at time.Time, err error) {
	_, raw, _ := bytes.Cut(whole, []byte("\n\n"))
	if string(raw) == "" || !bytes.Equal(cosignedState(raw), whole) {
		return c, at, &damagedError{path, "does not match its checksum"}
	}
	c, err = proof.ParseCheckpoint(raw)
	if err != nil || c.Origin != origin {
		return c, at, &damagedError{path, fmt.Sprintf("is not the state of %q", origin)}
	}
	n, err := proof.ParseNote(raw)
	if err != nil {
		return c, at, err
	}
	at, ok, err := w.signer.Key().Cosigned(n)
	if err != nil || !ok || n.Signatures[len(n.Signatures)-1].Name != w.signer.Key().Name {
		return c, at, &damagedError{path, "is not signed by the key of this witness"}
	}
	return c, at, nil
}

// writeCheckpoint makes a cosigned checkpoint durable.
func (*Witness) writeCheckpoint(path string, signed []byte) error {
	return durable.WriteFile(path, cosignedState(signed), 0o600)
}

// cosignedState is the state of an origin with a cosigned checkpoint: a first line, the checksum of the
// checkpoint, an empty line, and the checkpoint.
func cosignedState(signed []byte) []byte {
	return append([]byte(isCosigned+"\n"+OriginHash(string(signed))+"\n\n"), signed...)
}
