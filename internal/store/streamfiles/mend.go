package streamfiles

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"daybook/internal/durable"
)

// Mend removes the faults that Check found from the files of one stream, so that a
// server opens the stream without cutting off the records after them. The server of the
// directory MUST NOT be running. Mend copies each file that it changes to aside first,
// under the same path. A damaged block keeps its readable records. A damaged stored
// configuration is replaced by the one in kept, or removed if there is none; the caller
// then creates the stream again over its blocks.
//
// An interrupted Mend is completed by calling it again.
func Mend(ctx context.Context, dir string, s Stream, aside, kept string) error {
	at := filepath.Join(accountDir, s.Name)
	blocks, err := blocksOf(filepath.Join(dir, at, blocksDir))
	if err != nil {
		return err
	}
	if err := copyAside(dir, aside, filepath.Join(at, blocksDir, indexFile)); err != nil {
		return err
	}
	// The server rebuilds the index. The old one counts records that are removed.
	if err := removeSynced(filepath.Join(dir, at, blocksDir, indexFile)); err != nil {
		return err
	}
	for i, b := range blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		file := filepath.Join(at, blocksDir, b.name)
		if !slices.ContainsFunc(s.Faults, func(f Corruption) bool { return f.File == file }) {
			continue
		}
		if err := copyAside(dir, aside, file); err != nil {
			return err
		}
		if err := mendBlock(filepath.Join(dir, file), s.Name, b.number, i == len(blocks)-1); err != nil {
			return err
		}
	}
	if s.HasConfig {
		return nil
	}
	return mendStoredConfig(dir, s.Name, aside, kept)
}

// mendBlock replaces a block by its readable records.
func mendBlock(path, stream string, number int, newest bool) error {
	part := path + ".new"
	if err := removeSynced(part); err != nil {
		return err
	}
	if err := salvageBlock(path, part, stream, number, newest, SalvageOptions{CopyOnly: func(string) bool { return true }}); err != nil {
		return err
	}
	beside, err := os.Open(part)
	if errors.Is(err, fs.ErrNotExist) {
		return removeSynced(path) // no record of it can be read
	}
	if err != nil {
		return err
	}
	return durable.Replace(path, beside, nil)
}

func mendStoredConfig(dir, stream, aside, kept string) error {
	at := filepath.Join(accountDir, stream)
	for _, file := range []string{metaFile, metaSum} {
		if err := copyAside(dir, aside, filepath.Join(at, file)); err != nil {
			return err
		}
	}
	k, err := readStoredConfig(filepath.Join(kept, stream))
	if err != nil {
		return err
	}
	if _, intact, err := k.parse(stream); err != nil || intact {
		return errors.Join(err, k.write(filepath.Join(dir, at)))
	}
	return errors.Join(removeSynced(filepath.Join(dir, at, metaFile)), removeSynced(filepath.Join(dir, at, metaSum)))
}

// copyAside copies a file, if it exists, to the same path in the directory aside. It does
// not replace an existing copy.
func copyAside(dir, aside, file string) error {
	into := filepath.Join(aside, file)
	if _, err := os.Stat(into); err == nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(into), 0o700); err != nil {
		return err
	}
	in, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(into+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return durable.Replace(into, out, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
}
