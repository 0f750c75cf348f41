package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/projections"
)

// The data directory records the directory of the keys. While keys are missing, every action
// that would treat their sessions as shredded is refused.
func TestMissingKeys(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), Content: embed.ContentOptions{Erasable: true, KeyDir: filepath.Join(t.TempDir(), "keys")}}
	book := start(t, opts)
	a := run(t, book, embed.Script{Code: "globalThis.a = 1; 'of a'", Session: "a"})
	b := run(t, book, embed.Script{Code: "globalThis.a = 2; 'of b'", Session: "b"})
	closeBook(t, book)
	says := func(opts embed.Options, id, want string) {
		t.Helper()
		book := start(t, opts)
		defer closeBook(t, book)
		if e, err := book.Wait(within(t), id); err != nil || deref(e.Result) != want {
			t.Errorf("result %q, want %q, %v", deref(e.Result), want, err)
		}
	}
	plain := embed.Options{DataDir: opts.DataDir, Runs: embed.RunOptions{Elsewhere: true}}
	if _, err := embed.Rebuild(within(t), plain); err != nil {
		t.Fatalf("the directory of the keys is not recorded: %v", err)
	}
	says(plain, a.ExecutionID, "of a")

	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(opts.Content.KeyDir, moved); err != nil {
		t.Fatal(err)
	}
	tries := map[string]func() error{
		"start":             func() error { _, err := embed.Start(within(t), plain); return err },
		"start with option": func() error { _, err := embed.Start(within(t), opts); return err },
		"rebuild":           func() error { _, err := embed.Rebuild(within(t), plain); return err },
		"verify": func() error {
			_, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir})
			return err
		},
	}
	for name, try := range tries {
		if err := try(); err == nil || !strings.Contains(err.Error(), opts.Content.KeyDir) || !strings.Contains(err.Error(), "--key-dir") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, v := range []embed.VerifyOptions{{DataDir: opts.DataDir, SkipBlobs: true}, {DataDir: opts.DataDir, KeyDir: moved}} {
		if report, err := embed.Verify(within(t), v); err != nil || report.Verdict != embed.Unauthenticated {
			t.Errorf("verify %+v: %s, %v", v, report, err)
		}
	}
	there := plain
	there.Content.KeyDir = moved
	if _, err := embed.Rebuild(within(t), there); err != nil {
		t.Fatal(err)
	}
	says(plain, b.ExecutionID, "of b") // the new directory is recorded too

	list, err := os.ReadDir(moved)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	if err := os.Remove(filepath.Join(moved, list[0].Name())); err != nil {
		t.Fatal(err)
	}
	var lost *projections.LostKeysError
	if _, err := embed.Rebuild(within(t), plain); !errors.As(err, &lost) || lost.Keys != 1 || lost.Runs != 1 || !strings.Contains(err.Error(), "--without-keys") {
		t.Fatalf("a rebuild without one key: %v", err)
	}
	says(plain, a.ExecutionID, "of a") // the answers did not change
	says(plain, b.ExecutionID, "of b")

	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	plain.Content.WithoutKeys = true
	if _, err := embed.Rebuild(within(t), plain); err != nil {
		t.Fatal(err)
	}
	says(plain, a.ExecutionID, deref(nil))
}
