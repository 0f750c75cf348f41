package streamfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"daybook/internal/durable"
)

// Names of the files of a consumer, in a directory of its own.
const (
	consumersDir  = "obs"
	consumerState = "o.dat"
)

// Repaired describes a repair that Repair made.
type Repaired struct {
	Stream string
	// Consumer is empty if the repair concerns the stream itself.
	Consumer string
	What     string
}

// Repair completes or reverts writes of stored configurations that a killed server left
// unfinished. The server of the directory MUST NOT be running. kept is the directory to
// which BackupStreamConfigs copied configurations; it may be missing.
//
// The server writes a configuration and then its checksum. It writes each to a new file,
// which it renames when it is complete. A process that is killed leaves one of these
// states:
//
//   - No configuration, or one without a checksum, and no message: the stream was being
//     created. Repair removes its directory, and the server creates it again.
//   - A new configuration with the checksum of the previous one: the configuration was
//     being updated. Repair restores the previous one.
//   - No configuration, but its checksum: the stream was being deleted. Repair restores
//     the configuration from kept, and the caller repeats the deletion.
//
// Files may also be truncated. Repair replaces a truncated configuration by the one in
// kept. It adds a missing or truncated checksum if the configuration equals the one in
// kept, except that the stream may be sealed. It does not change any other configuration
// that does not match its checksum; Check reports that as damage.
func Repair(ctx context.Context, dir, kept string) ([]Repaired, error) {
	list, err := os.ReadDir(filepath.Join(dir, accountDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("repair the stream configurations: %w", err)
	}
	var all []Repaired
	for _, e := range list {
		if !isStream(e) {
			continue
		}
		what, removed, err := repairStream(ctx, dir, kept, e.Name())
		if err != nil {
			return all, fmt.Errorf("repair the configuration of stream %s: %w", e.Name(), err)
		}
		if what != "" {
			all = append(all, Repaired{Stream: e.Name(), What: what})
		}
		if removed {
			continue
		}
		consumers, err := repairConsumers(filepath.Join(dir, accountDir, e.Name()), e.Name())
		all = append(all, consumers...)
		if err != nil {
			return all, fmt.Errorf("repair the consumers of stream %s: %w", e.Name(), err)
		}
	}
	return all, nil
}

// Values of Repaired.What.
const (
	removedStream    = "the stream was not completely created and held no messages; it was removed"
	restoredConfig   = "the stream's configuration was not completely written; the one before was restored"
	wroteSum         = "the checksum of the stream's configuration was not written; it was added"
	removedConsumer  = "the consumer was not completely created; it was removed"
	wroteConsumerSum = "the checksum of the consumer's configuration was not written; it was added"
	removedConfig    = "the consumer's configuration was not completely written; it was removed"
)

// repairStream repairs the configuration of a stream and returns what it did, or "" if it
// changed nothing. removed reports whether it removed the directory of the stream.
func repairStream(ctx context.Context, dir, kept, stream string) (what string, removed bool, err error) {
	at := filepath.Join(dir, accountDir, stream)
	d, err := readStoredConfig(at)
	if err != nil {
		return "", false, err
	}
	if _, intact, err := d.parse(stream); err != nil || intact {
		return "", false, err
	}
	last, err := lastComplete(d, filepath.Join(kept, stream), stream)
	if err != nil {
		return "", false, err
	}
	hasSum := len(d.sum) >= sumBytes
	switch {
	case last.raw != nil && !hasSum && isUpdate(d.raw, last.raw):
		sum, err := checksum(stream, d.raw)
		if err != nil {
			return "", false, err
		}
		return wroteSum, false, durable.WriteFile(filepath.Join(at, metaSum), []byte(sum), 0o600)
	case last.raw != nil && (!hasSum || bytes.Equal(d.sum, last.sum)) && (isCutShort(d.raw) || isUpdate(d.raw, last.raw)):
		return restoredConfig, false, last.write(at)
	case last.raw == nil || !hasSum:
		empty, err := isEmpty(ctx, dir, stream)
		if err != nil || !empty {
			return "", false, err
		}
		return removedStream, true, removeSynced(at)
	}
	return "", false, nil
}

// lastComplete returns the last stored configuration of a stream that is known to be
// complete, with its checksum. raw is nil if there is none.
func lastComplete(d storedConfig, kept, stream string) (storedConfig, error) {
	k, err := readStoredConfig(kept)
	if err != nil {
		return storedConfig{}, err
	}
	// The copying to kept may have been interrupted before the checksum. The checksum in
	// the directory of the stream then shows that the copy is complete. Without a copy,
	// the previous configuration is the current one before the stream was sealed.
	for _, candidate := range []storedConfig{{k.raw, k.sum}, {k.raw, d.sum}, {withoutSeal(d.raw), d.sum}} {
		if _, intact, err := candidate.parse(stream); err != nil || intact {
			return candidate, err
		}
	}
	return storedConfig{}, nil
}

// isCutShort reports whether a stored configuration is missing, empty or truncated.
func isCutShort(raw []byte) bool {
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(new(config))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isUpdate reports whether raw equals before, except that the stream may be sealed.
// Daybook makes no other update of a stream.
func isUpdate(raw, before []byte) bool {
	return bytes.Equal(raw, before) || bytes.Equal(withoutSeal(raw), before)
}

func withoutSeal(raw []byte) []byte {
	return bytes.Replace(raw, []byte(`"sealed":true`), []byte(`"sealed":false`), 1)
}

// isEmpty reports whether the files of a stream hold no message and nothing that may
// have been a message.
func isEmpty(ctx context.Context, dir, stream string) (bool, error) {
	s, err := checkStream(ctx, dir, stream, Options{})
	if err != nil {
		return false, err
	}
	return s.First == 0 && len(s.Faults) == 1, nil // the fault of the configuration
}

// repairConsumers repairs the files of the consumers of a stream, so that the server
// recovers the consumers or creates them again. The server ignores a consumer without a
// checksum file, and does not add one to an existing configuration.
func repairConsumers(at, stream string) (all []Repaired, err error) {
	list, err := os.ReadDir(filepath.Join(at, consumersDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		what, err := repairConsumer(filepath.Join(at, consumersDir, e.Name()), stream, e.Name())
		if err != nil {
			return all, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if what != "" {
			all = append(all, Repaired{Stream: stream, Consumer: e.Name(), What: what})
		}
	}
	return all, nil
}

func repairConsumer(dir, stream, consumer string) (what string, err error) {
	d, err := readStoredConfig(dir)
	if err != nil {
		return "", err
	}
	if d.raw != nil && !isCutShort(d.raw) {
		if d.sum != nil {
			return "", nil // the server does not compare it
		}
		sum, err := checksum(stream+"/"+consumer, d.raw)
		if err != nil {
			return "", err
		}
		return wroteConsumerSum, durable.WriteFile(filepath.Join(dir, metaSum), []byte(sum), 0o600)
	}
	_, err = os.Stat(filepath.Join(dir, consumerState))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return removedConsumer, removeSynced(dir)
	case err != nil || d.raw == nil:
		return "", err // the server writes the configuration when it creates the consumer again
	}
	return removedConfig, errors.Join(removeSynced(filepath.Join(dir, metaFile)), removeSynced(filepath.Join(dir, metaSum)))
}

// write replaces the stored configuration in a directory. It writes the checksum last,
// as the server does.
func (d storedConfig) write(dir string) error {
	return errors.Join(durable.WriteFile(filepath.Join(dir, metaFile), d.raw, 0o600), durable.WriteFile(filepath.Join(dir, metaSum), d.sum, 0o600))
}

// removeSynced removes a file or a directory tree if it exists, and syncs the parent
// directory.
func removeSynced(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
