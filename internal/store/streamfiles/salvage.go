package streamfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"daybook/internal/durable"
)

// SalvageOptions select what Salvage copies. The zero value selects every readable
// record.
type SalvageOptions struct {
	// IsValid, if set, reports whether a readable record is the one that was written.
	IsValid func(stream string, r Record) bool
	// CopyOnly, if set, selects streams whose blocks are all copied and not linked: when a
	// server deletes messages, it may write to blocks other than the newest.
	CopyOnly func(stream string) bool
}

// Salvage creates the directory into from the intact content of from, so that a server
// can be started on it. It takes the readable records. It takes each stored configuration
// that matches its checksum, and in place of any other one the copy that
// BackupStreamConfigs made in kept. It leaves out indexes and consumers, which a server
// rebuilds or creates again. Nothing in from is changed, even by a server that writes to
// the result: a block that the server may append to is a copy; the others are links.
//
// into MUST NOT exist. It exists and is complete when Salvage returns nil. It is not
// durable; a caller that keeps it MUST sync it.
func Salvage(ctx context.Context, from, into, kept string, how SalvageOptions) error {
	if err := salvage(ctx, from, into, kept, how); err != nil {
		return errors.Join(fmt.Errorf("salvage the streams: %w", err), os.RemoveAll(into+".part"))
	}
	return nil
}

func salvage(ctx context.Context, from, into, kept string, how SalvageOptions) error {
	part := into + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(part, accountDir), 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(filepath.Join(from, accountDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		if !isStream(e) {
			continue
		}
		at := filepath.Join(accountDir, e.Name())
		if err := salvageStream(ctx, filepath.Join(from, at), filepath.Join(part, at), filepath.Join(kept, e.Name()), e.Name(), how); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return os.Rename(part, into)
}

func salvageStream(ctx context.Context, from, into, kept, name string, how SalvageOptions) error {
	described := from
	if ok, _, err := checkStoredConfig(from, name); err != nil {
		return err
	} else if !ok {
		described = kept
		if ok, _, err := checkStoredConfig(kept, name); err != nil || !ok {
			return err // without a configuration the server ignores the stream
		}
	}
	if err := os.MkdirAll(filepath.Join(into, blocksDir), 0o700); err != nil {
		return err
	}
	for _, file := range []string{metaFile, metaSum} {
		raw, err := os.ReadFile(filepath.Join(described, file))
		if err != nil {
			return err
		}
		if err := durable.WriteFileUnsynced(filepath.Join(into, file), raw, 0o600); err != nil {
			return err
		}
	}
	blocks, err := blocksOf(filepath.Join(from, blocksDir))
	if err != nil {
		return err
	}
	for i, b := range blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := salvageBlock(filepath.Join(from, blocksDir, b.name), filepath.Join(into, blocksDir, b.name), name, b.number, i == len(blocks)-1, how); err != nil {
			return err
		}
	}
	return nil
}

// salvageBlock copies or links the readable records of a block.
func salvageBlock(from, into, stream string, number int, newest bool, how SalvageOptions) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	sum, err := newSums(stream, number)
	if err != nil {
		return err
	}
	whole := true
	sound := make([]byte, 0, len(raw))
	last := uint64(0)
	take := func(r Record) {
		// A block that replaced another one may repeat positions. Only the first record of a
		// position is taken.
		if !r.isDeleted && (r.Seq <= last || how.IsValid != nil && !how.IsValid(stream, r)) {
			whole = false
			return
		}
		if !r.isDeleted {
			last = r.Seq
		}
		sound = append(sound, r.raw...)
	}
	sum.scan(raw, 0, take, func(int, int, string) { whole = false })
	switch {
	case len(sound) == 0 && !newest:
		return nil
	case whole && !newest && (how.CopyOnly == nil || !how.CopyOnly(stream)):
		if os.Link(from, into) == nil {
			return nil
		}
	}
	return os.WriteFile(into, sound, 0o600)
}

// BackupStreamConfigs copies the stored configurations that match their checksum to a
// directory, with a subdirectory per stream, where Salvage and Repair find them. A
// server may be running on from. It is not safe for concurrent use.
func BackupStreamConfigs(from, kept string) error {
	list, err := os.ReadDir(filepath.Join(from, accountDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("back up the stream configurations: %w", err)
	}
	for _, e := range list {
		if !isStream(e) {
			continue
		}
		if err := backupStreamConfig(filepath.Join(from, accountDir, e.Name()), filepath.Join(kept, e.Name()), e.Name()); err != nil {
			return fmt.Errorf("back up the configuration of stream %s: %w", e.Name(), err)
		}
	}
	return nil
}

func backupStreamConfig(from, kept, stream string) error {
	d, err := readStoredConfig(from)
	if err != nil {
		return err
	}
	if _, intact, err := d.parse(stream); err != nil || !intact {
		return err
	}
	before, err := readStoredConfig(kept)
	if err != nil || bytes.Equal(before.raw, d.raw) && bytes.Equal(before.sum, d.sum) {
		return err
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	return d.write(kept)
}
