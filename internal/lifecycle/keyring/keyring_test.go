package keyring_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"daybook/internal/lifecycle/keyring"
)

func open(t *testing.T, dir string) *keyring.Ring {
	t.Helper()
	r, err := keyring.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func current(t *testing.T, r *keyring.Ring, tenant, session string) string {
	t.Helper()
	id, done, err := r.Use(tenant, session)
	if err != nil {
		t.Fatal(err)
	}
	done()
	return id
}

func TestKeys(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	r := open(t, dir)
	a, b, other := current(t, r, "t", "a"), current(t, r, "t", "b"), current(t, r, "u", "a")
	if a == b || a == other || current(t, r, "t", "a") != a {
		t.Errorf("%s, %s, %s", a, b, other)
	}
	key, ok := r.ContentKey(a)
	if !ok || len(key) != 32 {
		t.Fatalf("a key of %d bytes", len(key))
	}
	r = open(t, dir)
	if again, _ := r.ContentKey(a); !bytes.Equal(again, key) || current(t, r, "t", "a") != a {
		t.Error("another process has another key")
	}
	ids, err := r.Retire("t", "a")
	if err != nil || !slices.Equal(ids, []string{a}) {
		t.Fatalf("%v, %v", ids, err)
	}
	r = open(t, dir)
	if again, _ := r.ContentKey(a); !bytes.Equal(again, key) {
		t.Error("a retired key cannot be read")
	}
	next := current(t, r, "t", "a")
	if next == a {
		t.Error("new content is encrypted under a retired key")
	}
	for range 2 {
		if err := r.Destroy(a); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*keyring.Ring{r, open(t, dir)} {
		if _, ok := r.ContentKey(a); ok {
			t.Error("the key is there")
		}
		if got := current(t, r, "t", "a"); got != next {
			t.Errorf("the session continues under key %s, not %s", got, next)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 || strings.HasPrefix(f.Name(), a) {
			t.Errorf("%s has mode %s, %v", f.Name(), info.Mode(), err)
		}
	}
}

func TestOneKeyForASession(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	var callers sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		callers.Go(func() { ids[i] = current(t, r, "t", "s") })
	}
	callers.Wait()
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[19] {
		t.Errorf("%v", ids)
	}
}

// Settle waits for each caller that uses one of the keys, and for no other.
func TestSettle(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	id, first, err := r.Use("t", "s")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := r.Retire("t", "s")
	if err != nil || !slices.Equal(ids, []string{id}) {
		t.Fatalf("%v, %v", ids, err)
	}
	second, ok := r.UseKey(id)
	if !ok {
		t.Fatal("a retired key cannot be used")
	}
	next, other, err := r.Use("t", "s")
	if err != nil || next == id {
		t.Fatalf("key %s, %v", next, err)
	}
	defer other()
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	for _, done := range []func(){first, second} {
		if err := r.Settle(ctx, ids); !errors.Is(err, stopped) {
			t.Errorf("a key in use: %v", err)
		}
		done()
		done() // counts once
	}
	if err := r.Settle(ctx, ids); err != nil {
		t.Errorf("an unused key: %v", err)
	}
	if !r.IsClosed(id) || r.IsClosed(next) {
		t.Error("the keys that Settle returned for are closed, and no others")
	}
	r.Reopen(ids)
	if r.IsClosed(id) {
		t.Error("the key is closed after Reopen")
	}
	third, _ := r.UseKey(id)
	settled := make(chan error)
	go func() { settled <- r.Settle(t.Context(), ids) }()
	third()
	if err := <-settled; err != nil {
		t.Error(err)
	}
	if err := r.Destroy(id); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.UseKey(id); ok {
		t.Error("a destroyed key can be used")
	}
}

// probe calls at whenever a caller is about to wait for the context.
type probe struct {
	context.Context
	at func()
}

func (p probe) Done() <-chan struct{} {
	p.at()
	return p.Context.Done()
}

// Edits of earlier content that follow each other without a pause do not keep Settle waiting:
// the key is closed for the next edit while Settle waits for those under way. If Settle is
// canceled, it opens only the keys that it closed.
func TestSettleClosesKeysFirst(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	closed := current(t, r, "t", "a")
	used, done, err := r.Use("t", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context(), []string{closed}); err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	waits := 0
	waiting := probe{ctx, func() {
		waits++
		if !r.IsClosed(used) {
			t.Error("the key is open for edits while Settle waits")
		}
		stop(stopped)
	}}
	if err := r.Settle(waiting, []string{closed, used}); !errors.Is(err, stopped) || waits == 0 {
		t.Errorf("a key in use: %v after %d waits", err, waits)
	}
	if r.IsClosed(used) || !r.IsClosed(closed) {
		t.Error("a canceled Settle left its key closed, or opened the key of another")
	}
	done()
}

func TestUnreadableKeys(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"x.key": "no JSON", "y.key": `{"id":"y","tenant":"t","session":"s","key":"00"}`, "z.key": `{"id":"other","tenant":"t","session":"s","key":"` + strings.Repeat("00", 32) + `","state":"current"}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.key.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"id":"a","tenant":"t","session":"s","key":"` + strings.Repeat("00", 32) + `","state":"current"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.key"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := keyring.Open(dir)
		if err != nil {
			return
		}
		if key, ok := r.ContentKey("a"); !ok || len(key) != 32 {
			t.Errorf("taken for a key: %q", raw)
		}
	})
}
