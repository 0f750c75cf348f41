package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	// recheck is how often the file is looked at, at most.
	recheck = time.Second
	// staleAfter is how long tokens of an earlier file stay in force when the
	// file has become unreadable. It must outlast a mistake in an editor, and be
	// short: the change that cannot be read may have revoked a token.
	staleAfter = time.Minute
	// maxFile bounds a token file, in bytes: some 40,000 tokens.
	maxFile = 16 << 20
)

// TokenFile authenticates by the tokens of a file, and follows its changes. It
// is safe for concurrent use, starts nothing and holds nothing open.
type TokenFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	looked  time.Time // when the file was last looked at
	stamp   stamp     // of what is in force
	tokens  map[string]Token
	broken  error // why the file on disk is not what is in force
	since   time.Time
	unknown [64]byte // compared where there is no hash, to take as long
}

// OpenTokens reads a token file. One that is missing, malformed, or that others
// than its owner can read is an error that says what to do. now may be nil.
func OpenTokens(path string, log *slog.Logger, now func() time.Time) (*TokenFile, error) {
	if log == nil {
		log = slog.Default()
	}
	if now == nil {
		now = time.Now
	}
	f := &TokenFile{path: path, log: log, now: now}
	f.look(context.Background())
	if f.broken != nil {
		return nil, f.broken
	}
	return f, nil
}

// Authenticate tells whose a token is. A change of the file, such as a
// revocation, is in force one second later at the latest.
func (f *TokenFile) Authenticate(ctx context.Context, token string) (Identity, error) {
	now := f.now()
	t, err := f.find(ctx, token, now)
	if err != nil {
		return Identity{}, err
	}
	if refused := t.refusal(now); refused != nil {
		return Identity{}, refused
	}
	return t.identity(), nil
}

func (f *TokenFile) find(ctx context.Context, token string, now time.Time) (Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(ctx)
	if f.broken != nil && now.Sub(f.since) >= staleAfter {
		return Token{}, &UnavailableError{Reason: "tokens cannot be checked now: the server's token file is not readable; tell the operator", Err: f.broken}
	}
	if !tokenForm.MatchString(token) {
		return Token{}, unknownToken()
	}
	t, ok := f.tokens[idOf(token)]
	want := []byte(t.SHA256)
	if !ok {
		want = f.unknown[:]
	}
	if subtle.ConstantTimeCompare([]byte(hashOf(token)), want) != 1 {
		return Token{}, unknownToken()
	}
	return t, nil
}

// Check returns why the file on disk is not what is in force, or nil.
func (f *TokenFile) Check(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(ctx)
	return f.broken
}

// look reads the file again if it may have changed. It is called with mu held.
func (f *TokenFile) look(ctx context.Context) {
	now := f.now()
	if !f.looked.IsZero() && now.Sub(f.looked) >= 0 && now.Sub(f.looked) < recheck {
		return
	}
	f.looked = now
	if found, err := os.Stat(f.path); err == nil && f.broken == nil && f.stamp.same(found) {
		return
	}
	list, seen, err := readTokens(f.path, now)
	if err != nil {
		if f.broken == nil {
			f.since = now
		}
		// Said once for each thing that is wrong, and by Check for as long as it is.
		if f.tokens != nil && (f.broken == nil || f.broken.Error() != err.Error()) {
			f.log.ErrorContext(ctx, "the token file changed and cannot be read: the tokens before the change stay in force for a minute, then all are refused", "err", err)
		}
		f.broken = err
		return
	}
	if f.tokens != nil {
		f.log.InfoContext(ctx, "read the token file again", "tokens", len(list))
	}
	f.tokens = make(map[string]Token, len(list))
	for _, t := range list {
		f.tokens[t.ID] = t
	}
	f.stamp, f.broken = seen, nil
}

// stamp tells whether a file is still the one that was read.
type stamp struct {
	info os.FileInfo
	// settled is false when the file was changed so shortly before it was read
	// that another change could bear the same time.
	settled bool
}

func (s stamp) same(found os.FileInfo) bool {
	return s.settled && os.SameFile(s.info, found) && s.info.ModTime().Equal(found.ModTime()) && s.info.Size() == found.Size() && s.info.Mode() == found.Mode()
}

// readTokens reads a file that nobody but its owner can read.
func readTokens(path string, now time.Time) ([]Token, stamp, error) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, stamp{}, fmt.Errorf("there is no token file %s: make one with \"daybook token create --file %s\"", path, path)
	case err != nil:
		return nil, stamp{}, fmt.Errorf("read the token file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, stamp{}, fmt.Errorf("read the token file: %w", err)
	case !info.Mode().IsRegular():
		return nil, stamp{}, fmt.Errorf("token file %s: it is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, stamp{}, fmt.Errorf("token file %s can be used by others than its owner (mode %04o): run chmod 600 %s, and think of its tokens as known", path, info.Mode().Perm(), path)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, stamp{}, fmt.Errorf("read the token file %s: %w", path, err)
	}
	if len(raw) > maxFile {
		return nil, stamp{}, fmt.Errorf("token file %s is larger than %d MiB: remove tokens that have ended", path, maxFile>>20)
	}
	list, err := decodeTokens(raw)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("token file %s: %w", path, err)
	}
	return list, stamp{info: info, settled: now.Sub(info.ModTime()) > recheck}, nil
}
