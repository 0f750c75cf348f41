package translog

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/events"
)

// Names in the audit directory, beside the tiles.
const (
	fileIdentity    = "ledger.json"
	fileKey         = "key"
	fileVKey        = "vkey"
	fileCheckpoints = "checkpoints"
	fileDurable     = "durable"
)

// identity is the permanent identity of a ledger.
type identity struct {
	ID     string `json:"id"`
	Origin string `json:"origin"`
}

// keys are the identity and the keys of a ledger.
type keys struct {
	identity
	signer note.Signer
	// vkey is the verification key of signer. known also contains earlier ones.
	vkey  string
	known []string
}

// openKeys reads the identity and the key of the ledger, or creates them. A key whose name is not
// the origin of the ledger is an error: the key would sign for another ledger.
func openKeys(dir, keyFile string) (k keys, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileIdentity))
	switch {
	case errors.Is(err, os.ErrNotExist):
		k.ID = events.NewID(time.Now())
	case err != nil:
		return k, err
	default:
		if err := json.Unmarshal(raw, &k.identity); err != nil || k.ID == "" || k.Origin == "" {
			return k, fmt.Errorf("%s is not a valid ledger identity; restore it from a backup", filepath.Join(dir, fileIdentity))
		}
	}
	if err := k.use(keyPath(dir, keyFile)); err != nil {
		if keyFile != "" {
			err = &KeyFileError{err}
		}
		return k, err
	}
	if k.Origin == "" {
		k.Origin = k.signer.Name()
		raw, err := json.Marshal(k.identity)
		if err != nil {
			return k, err
		}
		if err := replaceFile(filepath.Join(dir, fileIdentity), append(raw, '\n'), 0o644, true); err != nil {
			return k, fmt.Errorf("write the ledger identity: %w", err)
		}
	}
	k.known, err = keepVKey(dir, k.vkey)
	return k, err
}

// keyPath returns the path of the signing key. keyFile is Options.KeyFile.
func keyPath(dir, keyFile string) string { return cmp.Or(keyFile, filepath.Join(dir, fileKey)) }

// use reads the key in a file, or creates it.
func (k *keys) use(keyFile string) error {
	skey, err := readKey(keyFile)
	if errors.Is(err, os.ErrNotExist) {
		skey, err = makeKey(keyFile, cmp.Or(k.Origin, "daybook/"+k.ID))
	}
	if err != nil {
		return err
	}
	if k.signer, err = note.NewSigner(skey); err != nil {
		return fmt.Errorf("%s holds no signing key: %w; restore it from a backup", keyFile, err)
	}
	if k.vkey, err = vkeyOf(skey); err != nil {
		return fmt.Errorf("%s holds no signing key: %w; restore it from a backup", keyFile, err)
	}
	if name := k.signer.Name(); k.Origin != "" && name != k.Origin {
		return fmt.Errorf("the key in %s signs for %s, but this ledger is %s; use the key of this ledger", keyFile, name, k.Origin)
	}
	return nil
}

// readKey reads a signing key. The file MUST NOT be accessible to other users.
func readKey(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the signing key %s is accessible to other users (mode %o); chmod 600 it, and replace it if another user may have read it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	return strings.TrimSpace(string(raw)), err
}

func makeKey(path, name string) (skey string, err error) {
	skey, _, err = note.GenerateKey(rand.Reader, name)
	if err == nil {
		err = replaceFile(path, []byte(skey+"\n"), 0o600, true)
	}
	if err != nil {
		return "", fmt.Errorf("create a signing key: %w", err)
	}
	return skey, nil
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

// ReadOrigin returns the name under which a Log with this directory would sign checkpoints. It
// returns an empty name if Open would create the identity and the key. ReadOrigin creates nothing.
func ReadOrigin(dir, keyFile string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fileIdentity))
	switch {
	case err == nil:
		var id identity
		if err := json.Unmarshal(raw, &id); err != nil {
			return "", fmt.Errorf("read the ledger identity: %w", err)
		}
		return id.Origin, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	skey, err := readKey(keyPath(dir, keyFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return "", fmt.Errorf("read the signing key: %w", err)
	}
	return signer.Name(), nil
}

// vkeyOf returns the verification key of a signing key.
func vkeyOf(skey string) (string, error) {
	parts := strings.SplitN(skey, "+", 5) // PRIVATE+KEY+name+hash+key
	if len(parts) != 5 {
		return "", errors.New("malformed signing key")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return "", errors.New("the signing key is not an Ed25519 key")
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	return note.NewEd25519VerifierKey(parts[2], public)
}
