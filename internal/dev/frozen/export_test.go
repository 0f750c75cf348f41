package frozen_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// TestExport compares the reports of verifications and the files of exports with the
// golden file.
func TestExport(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	var b strings.Builder
	report := func(what string, v embed.VerifyOptions) {
		t.Helper()
		r, err := embed.Verify(within(t), v)
		if err != nil {
			t.Fatalf("verify %s: %v", what, err)
		}
		r.Source, r.Elapsed = "SOURCE", 0 // the path of a temporary directory, and the time it took
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "## Report of %s\n%s\n%s\n", what, raw, strings.TrimSpace(r.String()))
	}
	report("the directory", embed.VerifyOptions{DataDir: dir.data})
	report("the directory without blobs", embed.VerifyOptions{DataDir: dir.data, SkipBlobs: true})
	for _, e := range []struct {
		name string
		opts embed.ExportOptions
	}{
		{"everything", embed.ExportOptions{}},
		{"blobs", embed.ExportOptions{Blobs: true}},
		{"session", embed.ExportOptions{Session: "counted", Blobs: true}},
		{"execution", embed.ExportOptions{Execution: "@last"}},
	} {
		e.opts.DataDir, e.opts.Dir = dir.data, filepath.Join(t.TempDir(), "export")
		done, err := embed.Export(within(t), e.opts)
		if err != nil {
			t.Fatalf("export %s: %v", e.name, err)
		}
		done.Dir = "" // a temporary directory
		raw, err := json.Marshal(done)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "## Files of %s\n%s\n", e.name, raw)
		err = filepath.WalkDir(e.opts.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(e.opts.Dir, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			fmt.Fprintf(&b, "%s %d %s\n", hex.EncodeToString(sum[:]), len(content), filepath.ToSlash(name))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		report("export "+e.name, embed.VerifyOptions{Export: e.opts.Dir})
	}
	report("the directory after the exports", embed.VerifyOptions{DataDir: dir.data})
	golden(t, "export.txt", []byte(b.String()))
}
