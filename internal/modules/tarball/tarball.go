// Package tarball reads the tarballs of npm packages into memory. Tarballs are hostile: their
// size, the number of their files, the lengths of their paths and the kinds of their entries
// are limited, and nothing is written to a disk.
package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of one tarball.
const (
	// MaxPacked is the maximum size of a compressed tarball, in bytes.
	MaxPacked = 16 << 20
	// MaxUnpacked is the maximum size of all that it decompresses to, in bytes.
	MaxUnpacked = 128 << 20
	// MaxFile is the maximum size of a file that is kept, in bytes.
	MaxFile = 8 << 20
	// maxKept is the maximum size of all files that are kept, in bytes.
	maxKept = 48 << 20
	// MaxFiles is the maximum number of entries.
	MaxFiles = 20_000
	// maxPath is the maximum length of the path of a file, in bytes.
	maxPath = 512
)

// ErrRefused is wrapped by the errors about a tarball that breaks a rule.
var ErrRefused = errors.New("the tarball is refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Contents are the files of a package. Paths have no leading directory: npm packs all files
// into one.
type Contents struct {
	// Files holds the files that programs can consist of, by path.
	Files map[string][]byte
	// Count is the number of all files, Unpacked the sum of their sizes in bytes.
	Count    int
	Unpacked int64
}

// Read reads a gzip-compressed tarball. The error wraps ErrRefused if the tarball is damaged
// or breaks a rule.
func Read(packed []byte) (*Contents, error) {
	if len(packed) > MaxPacked {
		return nil, refuse("it has %d bytes, at most %d are allowed", len(packed), MaxPacked)
	}
	compressed := bytes.NewReader(packed)
	z, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, refuse("it is not compressed with gzip: %v", err)
	}
	// Data after the first gzip member would be a second archive that other programs ignore.
	z.Multistream(false)
	limited := &io.LimitedReader{R: z, N: MaxUnpacked + 1}
	c := &Contents{Files: map[string][]byte{}}
	seen := map[string]bool{}
	var kept int64
	archive := tar.NewReader(limited)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		switch {
		case limited.N <= 0:
			return nil, refuse("it decompresses to more than %d bytes", MaxUnpacked)
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return nil, refuse("it is damaged: %v", err)
		case entries >= MaxFiles:
			return nil, refuse("it has more than %d entries", MaxFiles)
		}
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir:
			if _, err := CleanPath(strings.TrimSuffix(header.Name, "/")); err != nil {
				return nil, err
			}
			continue
		case tar.TypeReg:
		default:
			return nil, refuse("%.100q is neither a regular file nor a directory", header.Name)
		}
		name, err := CleanPath(header.Name)
		if err != nil {
			return nil, err
		}
		_, name, inside := strings.Cut(name, "/")
		if !inside {
			return nil, refuse("%.100q is outside the directory of the package", header.Name)
		}
		if seen[name] {
			return nil, refuse("it has two files %.100q", name)
		}
		seen[name] = true
		c.Count++
		c.Unpacked += header.Size
		if !isKept(name) {
			continue // the next call of Next reads over it
		}
		if header.Size > MaxFile {
			return nil, refuse("%.100q has %d bytes, at most %d are allowed", name, header.Size, MaxFile)
		}
		if kept += header.Size; kept > maxKept {
			return nil, refuse("its programs have more than %d bytes", maxKept)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil, refuse("it is damaged: %v", err)
		}
		c.Files[name] = text
	}
}

// CleanPath returns a path of a tarball, or an error wrapping ErrRefused for one that is
// absolute, leaves its directory or holds characters that no program needs.
func CleanPath(name string) (string, error) {
	switch {
	case name == "" || len(name) > maxPath || !utf8.ValidString(name):
		return "", refuse("a path is not 1 to %d bytes of UTF-8", maxPath)
	case strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`):
		return "", refuse("the path %.100q has a control character or a backslash", name)
	case strings.HasPrefix(name, "/"):
		return "", refuse("the path %.100q is absolute", name)
	}
	clean := path.Clean(name)
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refuse("the path %.100q has ..", name)
		}
	}
	return clean, nil
}

// isKept reports whether a program can consist of a file.
func isKept(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".js", ".mjs", ".cjs", ".json":
		return true
	case ".ts", ".mts", ".cts":
		return !strings.HasSuffix(name, ".d.ts") && !strings.HasSuffix(name, ".d.mts") && !strings.HasSuffix(name, ".d.cts")
	}
	return false
}
