package natscreds_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"daybook/internal/store/natscreds"
)

var now = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// Only the file of a credential holds its private key. Rotation replaces both keys. A
// revoked credential never becomes active again.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	if list, err := natscreds.List(dir); err != nil || len(list) > 0 {
		t.Fatalf("no list yet: %v, %v", list, err)
	}
	made, err := natscreds.Create(dir, "reports", "acme", now)
	if err != nil {
		t.Fatal(err)
	}
	keyOf := func(c natscreds.Credential) string {
		t.Helper()
		raw, err := os.ReadFile(c.File(dir))
		if err != nil {
			t.Fatal(err)
		}
		pair, err := jwt.ParseDecoratedNKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		public, _ := pair.PublicKey()
		seed, _ := pair.Seed()
		list, err := os.ReadFile(filepath.Join(dir, "credentials.jsonl"))
		if err != nil || bytes.Contains(list, seed) {
			t.Errorf("the list holds the private key: %s, %v", list, err)
		}
		return public
	}
	if keyOf(made) != made.PublicKey {
		t.Error("the file holds another key than the list")
	}
	if _, err := natscreds.Create(dir, "reports", "other", now); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a name twice: %v", err)
	}
	for _, bad := range []string{"", "../x", "A", "a b", strings.Repeat("a", 65)} {
		if _, err := natscreds.Create(dir, bad, "acme", now); err == nil {
			t.Errorf("the name %q is accepted", bad)
		}
		if _, err := natscreds.Create(dir, "fine", bad, now); err == nil {
			t.Errorf("the tenant %q is accepted", bad)
		}
	}
	rotated, err := natscreds.Rotate(dir, made.ID[:6], now)
	if err != nil || rotated.PublicKey == made.PublicKey || keyOf(rotated) != rotated.PublicKey || rotated.Tenant != "acme" || rotated.ID != made.ID {
		t.Errorf("rotated: %+v, %v", rotated, err)
	}
	if _, err := natscreds.Revoke(dir, "reports", now); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(made.File(dir)); !os.IsNotExist(err) {
		t.Errorf("the file of a revoked credential: %v", err)
	}
	if _, err := natscreds.Rotate(dir, "reports", now); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("rotate a revoked one: %v", err)
	}
	if err := natscreds.EnsureDefault(dir, "default", now); err != nil {
		t.Fatal(err)
	}
	again, err := natscreds.Create(dir, "reports", "acme", now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natscreds.Revoke(dir, made.ID, now); err != nil {
		t.Fatal(err)
	}
	if keyOf(again) != again.PublicKey {
		t.Error("revoking the old one again deletes the file of the new one")
	}
	active, err := natscreds.Active(dir)
	if err != nil || len(active) != 1 || active[0].ID != again.ID {
		t.Errorf("in force are %+v, %v", active, err)
	}
	if _, err := natscreds.Revoke(dir, "nobody", now); err == nil {
		t.Error("an unknown credential is revoked")
	}
}

// Concurrent edits all take effect.
func TestCredentialsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := natscreds.Create(dir, fmt.Sprintf("c%d", i), "acme", now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := natscreds.List(dir); err != nil || len(list) != 8 {
		t.Errorf("%d credentials, %v", len(list), err)
	}
}

func TestMalformedList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made, err := natscreds.Create(dir, "a", "acme", now)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "credentials.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"no JSON":        "{",
		"a tenant >":     strings.Replace(string(whole), "acme", ">", 1),
		"a tenant with.": strings.Replace(string(whole), "acme", "a.*", 1),
		"no key":         strings.Replace(string(whole), made.PublicKey, "U", 1),
		"a key twice":    string(whole) + string(whole),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := natscreds.Active(dir); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o622); err != nil {
		t.Fatal(err)
	}
	if _, err := natscreds.Active(dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("others can write the list: %v", err)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan int, 10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		natscreds.Follow(ctx, dir, slog.New(slog.DiscardHandler), func(list []natscreds.Credential) error { got <- len(list); return nil })
	}()
	defer func() { stop(); <-ended }()
	want := func(n int) {
		t.Helper()
		select {
		case have := <-got:
			if have != n {
				t.Errorf("%d credentials, want %d", have, n)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("a change to %d credentials is not seen", n)
		}
	}
	want(0)
	if _, err := natscreds.Create(dir, "a", "acme", now); err != nil {
		t.Fatal(err)
	}
	want(1)
	if _, err := natscreds.Revoke(dir, "a", now); err != nil {
		t.Fatal(err)
	}
	want(0)
}

// The log has the time until which the credentials read before are active. Another reason why
// the list cannot be read does not move it.
func TestFollowLogsTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ends := make(chan time.Time, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	path := filepath.Join(dir, "credentials.jsonl")
	spoil := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	spoil("{")
	go func() {
		defer close(ended)
		log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "until" {
				ends <- a.Value.Time()
			}
			return a
		}}))
		natscreds.Follow(ctx, dir, log, func([]natscreds.Credential) error { return nil })
	}()
	defer func() { stop(); <-ended }()
	next := func() time.Time {
		t.Helper()
		select {
		case end := <-ends:
			return end
		case <-time.After(20 * time.Second):
			t.Fatal("no time was logged")
			panic("unreachable")
		}
	}
	first := next()
	spoil(`{"id":1}`)
	if second := next(); !second.Equal(first) {
		t.Errorf("the end is %s, and later %s", first, second)
	}
}

// A change that could not be applied is tried again.
func TestFollowTriesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := natscreds.Create(dir, "a", "acme", now); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calls := 0
	natscreds.Follow(ctx, dir, slog.New(slog.DiscardHandler), func(list []natscreds.Credential) error {
		if calls++; calls == 1 {
			return errors.New("the server does not run")
		}
		if len(list) != 1 {
			t.Errorf("tried again with %d credentials, want 1", len(list))
		}
		stop()
		return nil
	})
	if calls != 2 {
		t.Errorf("called %d times, want 2", calls)
	}
}
