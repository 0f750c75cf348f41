package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/internal/web/access"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// lines is a log that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func scopes(t *testing.T, list ...access.Scope) access.Scopes {
	t.Helper()
	set, err := access.NewScopes(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func create(t *testing.T, path string, g access.Grant, now time.Time) (string, access.Token) {
	t.Helper()
	if g.Tenant == "" {
		g.Tenant, g.Principal, g.Scopes = "acme", "ada", access.AllScopes
	}
	secret, token, err := access.CreateToken(path, g, now)
	if err != nil {
		t.Fatal(err)
	}
	return secret, token
}

func open(t *testing.T, path string, l *lines, now func() time.Time) *access.TokenFile {
	t.Helper()
	f, err := access.OpenTokens(path, l.logger(), now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantTokenError(t *testing.T, err error, text string) {
	t.Helper()
	if _, ok := errors.AsType[*access.TokenError](err); !ok || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want a TokenError with %q", err, text)
	}
}

func TestTokenIdentifies(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "tokens")
	expires := c.now().Add(time.Hour)
	secret, token := create(t, path, access.Grant{Tenant: "acme", Principal: "ada@example.com", Scopes: scopes(t, access.Read, access.Run), Expires: expires}, c.now())
	if !regexp.MustCompile(`^dbk_[a-z2-7]{10}_[a-z2-7]{52}$`).MatchString(secret) {
		t.Errorf("the token has the form %d bytes beginning %.4s", len(secret), secret)
	}
	f := open(t, path, new(lines), c.now)
	id, err := f.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	want := access.Identity{Tenant: "acme", Principal: "ada@example.com", Scopes: scopes(t, access.Read, access.Run), Expires: *token.Expires, Origin: "token"}
	if id != want {
		t.Errorf("got %+v, want %+v", id, want)
	}
	if err := id.Require(access.Run); err != nil {
		t.Error(err)
	}
	var missing *access.ScopeError
	if err := id.Require(access.Admin); !errors.As(err, &missing) || missing.Missing != access.Admin || !strings.Contains(err.Error(), `"admin"`) {
		t.Errorf("got %v, want it to name the scope admin", err)
	}

	other, _ := create(t, filepath.Join(t.TempDir(), "other"), access.Grant{}, c.now())
	for name, wrong := range map[string]string{
		"of another file":      other,
		"empty":                "",
		"not ours":             "eyJhbGciOiJub25lIn0.e30.",
		"a secret of another":  secret[:15] + other[15:],
		"one character longer": secret + "a",
		"an id only":           secret[:14],
	} {
		_, err := f.Authenticate(t.Context(), wrong)
		wantTokenError(t, err, "not known here")
		if wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: the error repeats the token", name)
		}
	}

	c.advance(time.Hour)
	_, err = f.Authenticate(t.Context(), secret)
	wantTokenError(t, err, "expired on")
}

func TestRevocationIsSeenWithinASecond(t *testing.T) {
	t.Parallel()
	c, log := newClock(), new(lines)
	path := filepath.Join(t.TempDir(), "tokens")
	kept, _ := create(t, path, access.Grant{}, c.now())
	secret, token := create(t, path, access.Grant{}, c.now())
	f := open(t, path, log, c.now)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := access.RevokeToken(path, token.ID, c.now()); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second)
	_, err := f.Authenticate(t.Context(), secret)
	wantTokenError(t, err, "revoked on")
	if _, err := f.Authenticate(t.Context(), kept); err != nil {
		t.Errorf("the other token: %v", err)
	}
	if err := f.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), secret[15:]) {
		t.Error("the log holds a token")
	}
}

func TestRevoking(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	secret, token := create(t, path, access.Grant{}, noon)
	if _, err := access.RevokeToken(path, "aaaaaaaaaa", noon); err == nil || !strings.Contains(err.Error(), `no token "aaaaaaaaaa"`) {
		t.Errorf("an unknown id: %v", err)
	}
	// The complete token identifies the record too, and a second revocation changes
	// nothing.
	for _, at := range []time.Time{noon, noon.Add(time.Hour)} {
		got, err := access.RevokeToken(path, secret, at)
		if err != nil || got.ID != token.ID || got.Revoked == nil || !got.Revoked.Equal(noon) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := access.RevokeToken(path+"-missing", token.ID, noon); err == nil {
		t.Error("revoking in a missing file succeeded")
	}
}

// TestBrokenFileEndsOnce checks that the log has the time at which the earlier tokens become
// invalid: another problem of the file does not move it.
func TestBrokenFileEndsOnce(t *testing.T) {
	t.Parallel()
	c, log := newClock(), new(lines)
	path := filepath.Join(t.TempDir(), "tokens")
	secret, _ := create(t, path, access.Grant{}, c.now())
	f := open(t, path, log, c.now)
	if err := os.WriteFile(path, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second)
	end := c.now().Add(time.Minute)
	if err := f.Check(t.Context()); err == nil {
		t.Fatal("a malformed file is in use")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.advance(59 * time.Second)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("before the end: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second)
	if _, err := f.Authenticate(t.Context(), secret); !errors.As(err, new(*access.UnavailableError)) {
		t.Errorf("at the end: %v, want an UnavailableError", err)
	}
	if n := strings.Count(log.String(), "until="+end.UTC().Format("2006-01-02T15:04:05.000Z")); n != 3 || strings.Count(log.String(), "level=ERROR") != 3 {
		t.Errorf("%d lines have the end %s, want 3:\n%s", n, end, log)
	}
}

// TestBrokenFile checks that an unreadable change, which may be a revocation, is not
// ignored: it is logged, Check returns it, and after a minute all tokens are refused.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"malformed": func(p string) error { return os.WriteFile(p, []byte("{\"id\":\n"), 0o600) },
		"missing":   os.Remove,
		"readable":  func(p string) error { return os.Chmod(p, 0o644) },
		"directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, log := newClock(), new(lines)
			path := filepath.Join(t.TempDir(), "tokens")
			secret, _ := create(t, path, access.Grant{}, c.now())
			f := open(t, path, log, c.now)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				c.advance(time.Second)
				if _, err := f.Authenticate(t.Context(), secret); err != nil {
					t.Fatalf("the earlier tokens are refused: %v", err)
				}
			}
			if f.Check(t.Context()) == nil {
				t.Error("Check returns no error")
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("%d errors are in the log, want 1:\n%s", n, log)
			}
			c.advance(time.Minute)
			if _, err := f.Authenticate(t.Context(), secret); !errors.As(err, new(*access.UnavailableError)) {
				t.Errorf("after a minute: %v, want an UnavailableError", err)
			}
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, good, 0o600)); err != nil {
				t.Fatal(err)
			}
			c.advance(time.Second)
			if _, err := f.Authenticate(t.Context(), secret); err != nil {
				t.Errorf("once repaired: %v", err)
			}
			if err := f.Check(t.Context()); err != nil {
				t.Errorf("once repaired: %v", err)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good := `{"id":"aaaaaaaaaa","sha256":"` + strings.Repeat("0", 64) + `","tenant":"t","principal":"p","scopes":["read"],"created":"2026-11-21T12:00:00Z"}`
	for name, test := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"readable by the group": {good, 0o640, "chmod 600"},
		"writable by others":    {good, 0o602, "chmod 600"},
		"not JSON":              {"tokens:\n- x", 0o600, "line 1"},
		"misspelt member":       {strings.Replace(good, `"created"`, `"expire":null,"created"`, 1), 0o600, "expire"},
		"no scopes":             {strings.Replace(good, `["read"]`, `[]`, 1), 0o600, "has no scopes"},
		"unknown scope":         {strings.Replace(good, `["read"]`, `["root"]`, 1), 0o600, "unknown scope"},
		"bad tenant":            {strings.Replace(good, `"t"`, `"a.b"`, 1), 0o600, "tenant"},
		"bad principal":         {strings.Replace(good, `"p"`, `"a b"`, 1), 0o600, "principal"},
		"twice":                 {good + "\n" + good, 0o600, "on line 1 already"},
		"two on a line":         {good + " " + good, 0o600, "more than one"},
		"no hash":               {strings.Replace(good, "00", "zz", 1), 0o600, "sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "tokens")
			if err := errors.Join(os.WriteFile(path, []byte(test.content), 0o600), os.Chmod(path, test.mode)); err != nil {
				t.Fatal(err)
			}
			_, err := access.OpenTokens(path, nil, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q and the path", err, test.want)
			}
		})
	}
	_, err := access.OpenTokens(filepath.Join(t.TempDir(), "none"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "daybook token create") {
		t.Errorf("a missing file: %v, want advice", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	for name, g := range map[string]access.Grant{
		"tenant":    {Tenant: "Acme Inc", Principal: "ada", Scopes: access.AllScopes},
		"principal": {Tenant: "acme", Principal: "", Scopes: access.AllScopes},
		"scopes":    {Tenant: "acme", Principal: "ada"},
		"future":    {Tenant: "acme", Principal: "ada", Scopes: access.AllScopes, Expires: noon},
	} {
		if _, _, err := access.CreateToken(path, g, noon); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused token left a file: %v", err)
	}
}

func TestConcurrentEdits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	var wg sync.WaitGroup
	const editors = 16
	for range editors {
		wg.Go(func() {
			if _, _, err := access.CreateToken(path, access.Grant{Tenant: "acme", Principal: "ada", Scopes: access.AllScopes}, noon); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := access.ListTokens(path, noon)
	if err != nil || len(list) != editors {
		t.Errorf("%d tokens are in the file, want %d (%v)", len(list), editors, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*new*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestSameTime replaces a file by one of equal size and time, as an editor can within a
// tick of the file system's clock.
func TestSameTime(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "tokens")
	secret, token := create(t, path, access.Grant{}, c.now())
	f := open(t, path, new(lines), c.now)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(raw, []byte(token.SHA256[:4]), []byte("0000"), 1)
	if err := errors.Join(os.WriteFile(path, other, 0o600), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second)
	_, err = f.Authenticate(t.Context(), secret)
	wantTokenError(t, err, "not known here")
}

func TestAuthenticators(t *testing.T) {
	t.Parallel()
	fixed := func(who string) access.Authenticator { return fixed{access.Identity{Principal: who}, nil} }
	path := filepath.Join(t.TempDir(), "tokens")
	ours, _ := create(t, path, access.Grant{}, noon)
	both := access.Authenticators{Tokens: fixed("file"), Issuer: fixed("issuer")}
	for token, want := range map[string]string{ours: "file", "a.b.c": "issuer"} {
		if id, err := both.Authenticate(t.Context(), token); err != nil || id.Principal != want {
			t.Errorf("got %v, %v, want %s", id, err, want)
		}
	}
	_, err := access.Authenticators{Issuer: fixed("issuer")}.Authenticate(t.Context(), ours)
	wantTokenError(t, err, "not known")
	_, err = access.Authenticators{Tokens: fixed("file")}.Authenticate(t.Context(), "a.b.c")
	wantTokenError(t, err, "not known")
	down := errors.New("down")
	if err := (access.Authenticators{Tokens: fixed("file"), Issuer: failing(down)}).Check(t.Context()); !errors.Is(err, down) {
		t.Errorf("got %v, want the issuer's problem", err)
	}
}

type fixed struct {
	id    access.Identity
	check error
}

func failing(err error) access.Authenticator { return fixed{check: err} }

func (f fixed) Authenticate(context.Context, string) (access.Identity, error) { return f.id, nil }
func (f fixed) Check(context.Context) error                                   { return f.check }

func FuzzDecodeTokens(f *testing.F) {
	f.Add([]byte(`{"id":"aaaaaaaaaa","sha256":"` + strings.Repeat("0", 64) + `","tenant":"t","principal":"p","scopes":["read","admin"],"created":"2026-11-21T12:00:00Z","expires":"2027-11-21T12:00:00Z"}`))
	f.Add([]byte("\n\n{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := access.DecodeTokens(raw)
		if err != nil {
			return
		}
		again, err := access.EncodeTokens(list)
		if err != nil {
			t.Skip(err) // a time that JSON cannot hold
		}
		back, err := access.DecodeTokens(again)
		if err != nil || len(back) != len(list) {
			t.Fatalf("the encoded records cannot be read again: %v", err)
		}
		for i := range list {
			if back[i].ID != list[i].ID || back[i].Scopes != list[i].Scopes || back[i].SHA256 != list[i].SHA256 || back[i].Tenant != list[i].Tenant {
				t.Fatalf("got %+v, want %+v", back[i], list[i])
			}
		}
	})
}
