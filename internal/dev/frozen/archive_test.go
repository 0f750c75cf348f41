package frozen_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// maxArchive bounds the archive, so that the repository stays small.
const maxArchive = 480 << 10

// directory is an unpacked archive.
type directory struct {
	// data is the data directory, tokenFile the file of Options.TokenFile.
	data, tokenFile string
	tokens          tokens
}

// The names in the archive.
const (
	dataName    = "data"
	tokensName  = "tokens.jsonl"
	secretsName = "secrets.json"
)

func directoryIn(root string) directory {
	return directory{data: filepath.Join(root, dataName), tokenFile: filepath.Join(root, tokensName)}
}

// isDerived reports whether a file is left out of the archive: derived files, and files of
// a running process.
func isDerived(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, "projections.db") || base == "lock" || base == "ballast" || strings.HasSuffix(base, ".lock")
}

// pack writes the files below a directory in the order of their names, with fixed times
// and owners. It returns their number.
func pack(root string) (archive []byte, files int, err error) {
	var packed bytes.Buffer
	// The window covers the whole archive, because quarantined files are copies of others.
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstd.MaxWindowSize>>3))
	if err != nil {
		return nil, 0, err
	}
	w := tar.NewWriter(z)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." || isDerived(name) {
			return err
		}
		h := tar.Header{Name: filepath.ToSlash(name), ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX}
		switch {
		case d.IsDir():
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, h.Name+"/", 0o700
			return w.WriteHeader(&h)
		case !d.Type().IsRegular():
			return nil // a socket
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o600, int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		return nil, 0, err
	}
	return packed.Bytes(), files, nil
}

// unpack writes the frozen directory to a temporary directory of the test.
func unpack(t testing.TB) directory {
	t.Helper()
	root := t.TempDir()
	f, err := os.Open(testdata(archiveFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unpackTo(f, root); err != nil {
		t.Fatal(err)
	}
	dir := directoryIn(root)
	raw, err := os.ReadFile(filepath.Join(root, secretsName))
	if err == nil {
		err = json.Unmarshal(raw, &dir.tokens)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func unpackTo(packed io.Reader, root string) error {
	z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return err
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

// copyFiles copies the files of a directory that may be in use.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || isDerived(name) {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	})
}
