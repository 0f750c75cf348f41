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
	// recheck is the minimum time between two checks of the file.
	recheck = time.Second
	// staleAfter is how long the tokens of an earlier file stay valid after the file
	// became unreadable. It allows for mistakes in an editor. It must be short, because
	// the unreadable change may have revoked a token.
	staleAfter = time.Minute
	// maxFile bounds a token file, in bytes. It is enough for about 40,000 tokens.
	maxFile = 16 << 20
)

// TokenFile authenticates with the tokens of a file, and follows changes of the file.
// It is safe for concurrent use. It starts no goroutine and keeps no file open.
type TokenFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	looked  time.Time // time of the last check
	stamp   stamp     // of the file that tokens were read from
	tokens  map[string]Token
	broken  error // why the current file could not be read; nil if it is in use
	since   time.Time
	unknown [64]byte // compared if there is no hash, so that the time is equal
}

// OpenTokens reads a token file. A file that is missing, malformed, or accessible to
// other users than its owner is an error that says what to do. log and now may be nil.
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

// Authenticate returns the identity of a token. A change of the file, such as a
// revocation, takes effect within one second. Errors are *TokenError and
// *UnavailableError.
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

// Check returns the reason why the current file is not in use, or nil.
func (f *TokenFile) Check(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look(ctx)
	return f.broken
}

// look reads the file again if it may have changed. The caller must hold mu.
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
		// The log has each problem once. Check returns it as long as it lasts.
		if f.tokens != nil && (f.broken == nil || f.broken.Error() != err.Error()) {
			f.log.ErrorContext(ctx, "cannot read the changed token file; its previous tokens stay valid for a minute, then all tokens are refused", "err", err)
		}
		f.broken = err
		return
	}
	if f.tokens != nil {
		f.log.InfoContext(ctx, "reloaded the token file", "tokens", len(list))
	}
	f.tokens = make(map[string]Token, len(list))
	for _, t := range list {
		f.tokens[t.ID] = t
	}
	f.stamp, f.broken = seen, nil
}

// stamp identifies the version of a file that was read.
type stamp struct {
	info os.FileInfo
	// settled is false if the file was changed so shortly before it was read that
	// another change may have the same time.
	settled bool
}

func (s stamp) same(found os.FileInfo) bool {
	return s.settled && os.SameFile(s.info, found) && s.info.ModTime().Equal(found.ModTime()) && s.info.Size() == found.Size() && s.info.Mode() == found.Mode()
}

// readTokens reads a token file, which only its owner may be able to access.
func readTokens(path string, now time.Time) ([]Token, stamp, error) {
	file, err := os.Open(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, stamp{}, fmt.Errorf("there is no token file %s: make one with \"daybook token create --file %s\"", path, path)
	case err != nil:
		return nil, stamp{}, fmt.Errorf("read token file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, stamp{}, fmt.Errorf("read token file: %w", err)
	case !info.Mode().IsRegular():
		return nil, stamp{}, fmt.Errorf("token file %s: it is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, stamp{}, fmt.Errorf("token file %s is accessible to other users (mode %04o); run chmod 600 %s and replace its tokens", path, info.Mode().Perm(), path)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, stamp{}, fmt.Errorf("read token file %s: %w", path, err)
	}
	if len(raw) > maxFile {
		return nil, stamp{}, fmt.Errorf("token file %s is larger than %d MiB: remove expired and revoked tokens", path, maxFile>>20)
	}
	list, err := decodeTokens(raw)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("token file %s: %w", path, err)
	}
	return list, stamp{info: info, settled: now.Sub(info.ModTime()) > recheck}, nil
}
