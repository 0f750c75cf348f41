package translog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
	"daybook/internal/keyfile"
	"daybook/proof"
)

// Names in the audit directory, beside the tiles.
const (
	fileIdentity    = "ledger.json"
	fileKey         = "key"
	fileVKey        = "vkey"
	fileCheckpoints = "checkpoints"
	fileDurable     = "durable"
	fileCosigned    = "cosigned"
	filePolicy      = "witness-policy"
)

// identity is the permanent id of a ledger, and its origin.
type identity struct {
	ID     string `json:"id"`
	Origin string `json:"origin"`
	// Ended is the origin that this one succeeds.
	Ended *endedOrigin `json:"ended,omitempty"`
	// Unfinished is true while the files of this origin take the place of those of another one.
	Unfinished bool `json:"unfinished,omitempty"`
}

// keys are the identity and the keys of a ledger.
type keys struct {
	identity
	signer note.Signer
	// vkey is the verification key of signer. known also contains earlier ones.
	vkey  string
	known []string
	// lost is the path of the key if it is missing and must not be made: then signer is nil.
	lost string
}

// ownName returns the name that Open gives to an origin.
func (k *keys) ownName() string { return "daybook/" + k.ID }

// openKeys reads the identity and the key of the ledger, or creates them if nothing was signed yet. A
// key whose name is not the origin of the ledger is an error: the key would sign for another ledger.
func openKeys(opts Options, signers *proof.Signers) (k keys, err error) {
	dir, keyFile := opts.Dir, opts.KeyFile
	raw, err := os.ReadFile(filepath.Join(dir, fileIdentity))
	switch {
	case errors.Is(err, os.ErrNotExist):
		k.ID = events.NewID(time.Now())
	case err != nil:
		return k, err
	default:
		if err := json.Unmarshal(raw, &k.identity); err != nil || k.ID == "" || k.Origin == "" || k.Ended != nil && k.Ended.Origin == k.Origin {
			return k, fmt.Errorf("%s is not a valid ledger identity; restore it from a backup", filepath.Join(dir, fileIdentity))
		}
	}
	if k.Unfinished {
		if err := k.mayChange(opts); err != nil {
			return k, err
		}
		if err := k.finishChange(opts); err != nil {
			return k, fmt.Errorf("continue an interrupted change to the origin %s: %w", k.Origin, err)
		}
	}
	if k.lost, err = lostKey(opts, k.identity, signers); err != nil {
		return k, err
	}
	if k.lost != "" {
		if k.known, err = readVKeys(dir); len(k.known) > 0 {
			k.vkey = k.known[len(k.known)-1]
		}
		return k, ignoreMissing(err)
	}
	if err := k.use(keyPath(dir, keyFile)); err != nil {
		if keyFile != "" {
			err = &KeyFileError{err}
		}
		return k, err
	}
	if k.Origin == "" {
		k.Origin = k.signer.Name()
		// After a crash before the identity was written, the key in the audit directory has the name that Open gave
		// it: adopt may replace that key, but not one that the operator named.
		if id, ok := strings.CutPrefix(k.Origin, "daybook/"); ok && keyFile == "" && events.ValidID(id) {
			k.ID = id
		}
		if err := k.writeIdentity(dir); err != nil {
			return k, err
		}
	}
	k.known, err = keepVKey(dir, k.vkey)
	return k, err
}

// lostKey returns the path of the signing key if it is missing although something was signed with it,
// or an empty string.
func lostKey(opts Options, id identity, signers *proof.Signers) (string, error) {
	path := keyPath(opts.Dir, opts.KeyFile)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if id.Ended != nil && signers.Origin() != id.Origin && exists(SignedPath(opts.Dir, opts.KeyFile, opts.SignedFile)+acceptedSuffix) {
		return "", nil // nothing was signed with the key of the successor
	}
	if full, err := fullCheckpointFiles(opts.Dir); err != nil || len(full) > 0 {
		return path, err
	}
	for _, trace := range []string{filepath.Join(opts.Dir, fileCheckpoints), filepath.Join(opts.Dir, fileSigners), SignedPath(opts.Dir, opts.KeyFile, opts.SignedFile)} {
		if _, err := os.Stat(trace); !errors.Is(err, os.ErrNotExist) {
			return path, err
		}
	}
	return "", nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// keyPath returns the path of the signing key. keyFile is Options.KeyFile.
func keyPath(dir, keyFile string) string { return cmp.Or(keyFile, filepath.Join(dir, fileKey)) }

// use reads the key in a file, or creates it.
func (k *keys) use(keyFile string) error {
	err := k.read(keyFile)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, _, err := keyfile.Create(keyFile, cmp.Or(k.Origin, k.ownName())); err != nil {
		return err
	}
	return k.read(keyFile)
}

// read reads the key in a file.
func (k *keys) read(keyFile string) error {
	skey, err := keyfile.Read(keyFile)
	if err != nil {
		return err
	}
	if k.signer, k.vkey, err = proof.ParseKey(skey); err != nil {
		return fmt.Errorf("%s holds no signing key: %w; restore it from a backup", keyFile, err)
	}
	if name := k.signer.Name(); k.Origin != "" && name != k.Origin {
		return fmt.Errorf("the key in %s signs for %s, but this ledger is %s; use the key of this ledger", keyFile, name, k.Origin)
	}
	return nil
}

// keepVKey adds a verification key to the file of all keys that the ledger has had, the newest last.
// With this file, old checkpoints can still be verified.
func keepVKey(dir, vkey string) ([]string, error) {
	known, err := readVKeys(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(known) > 0 && known[len(known)-1] == vkey {
		return known, nil
	}
	known = append(known, vkey)
	err = replaceFile(filepath.Join(dir, fileVKey), []byte(strings.Join(known, "\n")+"\n"), 0o644, true)
	if err != nil {
		return nil, fmt.Errorf("write the verification keys: %w", err)
	}
	return known, nil
}

// readVKeys reads the verification keys in an audit directory, the newest last.
func readVKeys(dir string) ([]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileVKey))
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range bytes.Lines(raw) {
		if s := strings.TrimSpace(string(line)); s != "" {
			list = append(list, s)
		}
	}
	return list, nil
}

// KeyFileError is returned by Open if the file in Options.KeyFile cannot be used.
type KeyFileError struct{ err error }

// Error returns the message of the error.
func (e *KeyFileError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *KeyFileError) Unwrap() error { return e.err }

// ReadOrigin returns the name under which a Log with this directory would sign checkpoints, and the origin before
// it, if one ended. It returns an empty name if Open would create the identity and the key. ReadOrigin creates
// nothing.
func ReadOrigin(dir, keyFile string) (origin, ended string, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileIdentity))
	switch {
	case err == nil:
		var id identity
		if err := json.Unmarshal(raw, &id); err != nil {
			return "", "", fmt.Errorf("read the ledger identity: %w", err)
		}
		if id.Ended != nil {
			ended = id.Ended.Origin
		}
		return id.Origin, ended, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", "", err
	}
	skey, err := keyfile.Read(keyPath(dir, keyFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return "", "", fmt.Errorf("read the signing key: %w", err)
	}
	return signer.Name(), "", nil
}
