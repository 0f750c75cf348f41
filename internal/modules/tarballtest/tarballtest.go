// Package tarballtest makes tarballs of npm packages for tests.
package tarballtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
)

// Pack returns a tarball with some files in the directory package.
func Pack(files map[string]string) []byte {
	var list []tar.Header
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, tar.Header{Name: "package/" + name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name]))})
		texts = append(texts, files[name])
	}
	return PackEntries(list, texts)
}

// PackEntries returns a tarball with some entries and their contents.
func PackEntries(entries []tar.Header, texts []string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := range entries {
		if err := w.WriteHeader(&entries[i]); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(texts[i])); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
