// Package keyfile creates and reads the files of signing keys: those of servers, and the root keys of
// operators. A file contains one key, as text, and only its owner may access it.
//
// internal/translog decides which key a server uses, and internal/cli creates root keys. Package
// proof defines the form of keys.
package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"daybook/internal/durable"
	"daybook/proof"
)

// Read returns the signing key in a file. A file that other users may access is an error.
func Read(path string) (skey string, err error) {
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

// Create writes a new signing key with a name to a file, and returns the key and its verification
// key. It creates missing directories. If the file exists, it returns fs.ErrExist and keeps the file.
// When Create returns nil, the file is durable.
func Create(path, name string) (skey, vkey string, err error) {
	if skey, vkey, err = proof.NewKey(name); err != nil {
		return "", "", err
	}
	content := []byte(skey + "\n")
	err = durable.Create(path, content, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = durable.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = durable.Create(path, content, 0o600)
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("create a signing key: %w", err)
	}
	return skey, vkey, nil
}
