package access

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"daybook/internal/durable"
)

// Grant describes a token to create.
type Grant struct {
	Tenant, Principal string
	Scopes            Scopes
	// Expires is the expiry of the token. Zero means never.
	Expires time.Time
}

// CreateToken adds a token to a file, which it creates if it does not exist, and
// returns the token. Only the hash of the token is stored. The record is on disk on
// return.
func CreateToken(path string, g Grant, now time.Time) (secret string, t Token, err error) {
	secret, id := newSecret()
	t = Token{
		ID: id, SHA256: hashOf(secret), Tenant: g.Tenant, Principal: g.Principal, Scopes: g.Scopes,
		Created: now.UTC().Truncate(time.Second),
	}
	if !g.Expires.IsZero() {
		if !g.Expires.After(now) {
			return "", t, fmt.Errorf("expires %s is not in the future", g.Expires.UTC().Format(time.RFC3339))
		}
		at := g.Expires.UTC().Truncate(time.Second)
		t.Expires = &at
	}
	if err := t.check(); err != nil {
		return "", t, err
	}
	err = edit(path, true, now, func(list []Token) ([]Token, error) { return append(list, t), nil })
	if err != nil {
		return "", t, err
	}
	return secret, t, nil
}

// ListTokens returns the records of a file, oldest first.
func ListTokens(path string, now time.Time) ([]Token, error) {
	list, _, err := readTokens(path, now)
	return list, err
}

// RevokeToken revokes a token permanently. id is the token, its id, or the start of an
// id that no other token has. Revoking a revoked token changes nothing. An unknown id
// is an error. The revocation is on disk on return.
func RevokeToken(path, id string, now time.Time) (t Token, err error) {
	if tokenForm.MatchString(id) {
		id = idOf(id) // the complete token identifies the record too
	}
	err = edit(path, false, now, func(list []Token) ([]Token, error) {
		i, err := find(list, id)
		if err != nil {
			return nil, fmt.Errorf("%w in %s; daybook token list shows the ids", err, path)
		}
		if list[i].Revoked == nil {
			at := now.UTC().Truncate(time.Second)
			list[i].Revoked = &at
		}
		t = list[i]
		return list, nil
	})
	return t, err
}

// find returns the index of the token with an id, or of the only token whose id starts
// with it.
func find(list []Token, id string) (int, error) {
	at, n := -1, 0
	for i, t := range list {
		switch {
		case t.ID == id:
			return i, nil
		case id != "" && strings.HasPrefix(t.ID, id):
			at = i
			n++
		}
	}
	switch n {
	case 0:
		return 0, fmt.Errorf("there is no token %q", clip(id))
	case 1:
		return at, nil
	default:
		return 0, fmt.Errorf("the ids of %d tokens begin with %q", n, clip(id))
	}
}

// edit changes a file under a lock, so that concurrent edits are all applied, and
// replaces it by a rename, so that no reader sees a partial file.
func edit(path string, create bool, now time.Time, change func([]Token) ([]Token, error)) (err error) {
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	var list []Token
	if _, missing := os.Lstat(path); !create || !errors.Is(missing, os.ErrNotExist) {
		if list, _, err = readTokens(path, now); err != nil {
			return err
		}
	}
	if list, err = change(list); err != nil {
		return err
	}
	raw, err := encodeTokens(list)
	if err != nil {
		return err
	}
	if len(raw) > maxFileBytes {
		return fmt.Errorf("token file %s would be larger than %d MiB: remove expired and revoked tokens", path, maxFileBytes>>20)
	}
	return replace(path, raw)
}

// lock waits for the exclusive right to edit. The lock file is never removed: otherwise
// two editors could lock two files of the same name.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock token file: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock token file: %w", err), f.Close())
		}
		return f.Close, nil
	}
}

// replace replaces a file, and returns after the new one is on disk: a reported
// revocation must survive a power cut.
func replace(path string, raw []byte) error {
	// Replace the target of a symbolic link, not the link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write token file: %w", err)
	}
	err = durable.Replace(path, beside, func(beside *os.File) error {
		_, err := beside.Write(raw)
		return errors.Join(err, keepOwner(path, beside))
	})
	if err != nil {
		return fmt.Errorf("write token file: %w", err)
	}
	return nil
}

// keepOwner gives the new file the owner of the old one. If root edits the file, the
// server must still be able to read it.
func keepOwner(path string, beside *os.File) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // there is no old file
	}
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(was.Uid) == os.Geteuid() {
		return nil
	}
	return beside.Chown(int(was.Uid), int(was.Gid))
}
