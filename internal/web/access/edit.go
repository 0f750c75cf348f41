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

// Grant is what a new token is to allow.
type Grant struct {
	Tenant, Principal string
	Scopes            Scopes
	// Expires is when it ends; zero for never.
	Expires time.Time
}

// CreateToken adds a token to a file, which is made if it is missing, and
// returns it. It is nowhere else: only its hash is kept.
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

// RevokeToken ends a token, for good. Revoking it again changes nothing; an id
// that is not in the file is an error.
func RevokeToken(path, id string, now time.Time) (t Token, err error) {
	if tokenForm.MatchString(id) {
		id = idOf(id) // the whole token is as clear as its id
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

// find returns the index of the token with an id, or of the only one whose id begins
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

// edit changes a file under a lock, so that two edits at once both happen, and
// by a rename, so that nobody ever reads half of it.
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
	if len(raw) > maxFile {
		return fmt.Errorf("token file %s would be larger than %d MiB: remove tokens that have ended", path, maxFile>>20)
	}
	return replace(path, raw)
}

// lock waits for the right to edit. The lock file stays: removing it would let
// two editors lock two files of one name.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the token file: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the token file: %w", err), f.Close())
		}
		return f.Close, nil
	}
}

// replace puts a new file in place of another, and returns once that is on
// disk: a revocation that was reported must outlast a power cut.
func replace(path string, raw []byte) error {
	// What a link points to is replaced, not the link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	beside, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	err = durable.Replace(path, beside, func(beside *os.File) error {
		_, err := beside.Write(raw)
		return errors.Join(err, keepOwner(path, beside))
	})
	if err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	return nil
}

// keepOwner leaves a file to whom it belonged: edited by root, it must stay
// readable for the server.
func keepOwner(path string, beside *os.File) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // there is none yet
	}
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(was.Uid) == os.Geteuid() {
		return nil
	}
	return beside.Chown(int(was.Uid), int(was.Gid))
}
