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
	// recheckInterval is the minimum time between two checks of the file.
	recheckInterval = time.Second
	// staleTimeout is how long the tokens that were read last stay valid after the file
	// could first not be read or was invalid. This time allows for mistakes in an editor.
	// It must be short, because the change that cannot be read may have revoked a token.
	staleTimeout = time.Minute
	// maxFileBytes bounds a token file, in bytes. It is enough for about 40,000 tokens.
	maxFileBytes = 16 << 20
)

// TokenFile authenticates with the tokens of a file, and follows changes of the file.
// It is safe for concurrent use. It starts no goroutine and keeps no file open.
type TokenFile struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu          sync.Mutex
	checkedAt   time.Time // time of the last check
	stamp       stamp     // of the file that tokens were read from
	tokens      map[string]Token
	readErr     error // why the current file could not be read; nil if it is in use
	brokenSince time.Time
	dummyHash   [64]byte // compared for an unknown token id, so that the answer takes as long as for a known one
}

// OpenTokens reads a token file. A file that is missing, malformed, or accessible to
// other users than its owner is an error. log and now may be nil.
func OpenTokens(path string, log *slog.Logger, now func() time.Time) (*TokenFile, error) {
	if log == nil {
		log = slog.Default()
	}
	if now == nil {
		now = time.Now
	}
	f := &TokenFile{path: path, log: log, now: now}
	f.refresh(context.Background())
	if f.readErr != nil {
		return nil, f.readErr
	}
	return f, nil
}

// Authenticate returns the identity of a token. A change of the file, such as a
// revocation, takes effect within one second. If the changed file cannot be read or is
// invalid, the previous tokens stay valid for one minute; after that the error is an
// *UnavailableError for every token. All other errors are *TokenError.
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
	f.refresh(ctx)
	if f.readErr != nil && now.Sub(f.brokenSince) >= staleTimeout {
		return Token{}, &UnavailableError{Reason: "tokens cannot be checked now: the server cannot use its token file; tell the operator", Err: f.readErr}
	}
	if !tokenForm.MatchString(token) {
		return Token{}, unknownToken()
	}
	t, ok := f.tokens[idOf(token)]
	want := []byte(t.SHA256)
	if !ok {
		want = f.dummyHash[:]
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
	f.refresh(ctx)
	return f.readErr
}

// refresh reads the file again if it may have changed. The caller must hold mu.
func (f *TokenFile) refresh(ctx context.Context) {
	now := f.now()
	if !f.checkedAt.IsZero() && now.Sub(f.checkedAt) >= 0 && now.Sub(f.checkedAt) < recheckInterval {
		return
	}
	f.checkedAt = now
	if found, err := os.Stat(f.path); err == nil && f.readErr == nil && f.stamp.isUnchanged(found) {
		return
	}
	list, seen, err := readTokens(f.path, now)
	if err != nil {
		if f.readErr == nil {
			f.brokenSince = now
		}
		// Each problem is logged once. Check returns a problem as long as the problem lasts.
		if f.tokens != nil && (f.readErr == nil || f.readErr.Error() != err.Error()) {
			f.log.ErrorContext(ctx, "cannot read the token file; the tokens read before are valid until the given time, then all tokens are refused", "err", err, "until", f.brokenSince.Add(staleTimeout).UTC())
		}
		f.readErr = err
		return
	}
	if f.tokens != nil {
		f.log.InfoContext(ctx, "reloaded the token file", "tokens", len(list))
	}
	f.tokens = make(map[string]Token, len(list))
	for _, t := range list {
		f.tokens[t.ID] = t
	}
	f.stamp, f.readErr = seen, nil
}

// stamp identifies the version of a file that was read.
type stamp struct {
	info os.FileInfo
	// isSettled is false if the file was changed so shortly before it was read that
	// another change may have the same time.
	isSettled bool
}

func (s stamp) isUnchanged(found os.FileInfo) bool {
	return s.isSettled && os.SameFile(s.info, found) && s.info.ModTime().Equal(found.ModTime()) && s.info.Size() == found.Size() && s.info.Mode() == found.Mode()
}

// readTokens reads a token file. It is an error if other users than its owner can access
// the file.
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
		return nil, stamp{}, fmt.Errorf("token file %s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, stamp{}, fmt.Errorf("token file %s is accessible to other users (mode %04o); run chmod 600 %s and replace its tokens", path, info.Mode().Perm(), path)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, stamp{}, fmt.Errorf("read token file %s: %w", path, err)
	}
	if len(raw) > maxFileBytes {
		return nil, stamp{}, fmt.Errorf("token file %s is larger than %d MiB: remove expired and revoked tokens", path, maxFileBytes>>20)
	}
	list, err := decodeTokens(raw)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("token file %s: %w", path, err)
	}
	return list, stamp{info: info, isSettled: now.Sub(info.ModTime()) > recheckInterval}, nil
}
