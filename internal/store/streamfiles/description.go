package streamfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
)

// storedConfig is the stored configuration of a stream or a consumer: the content of its
// file, and that of its checksum file. Each is nil if the file is missing.
type storedConfig struct{ raw, sum []byte }

// readStoredConfig reads the stored configuration in the directory of a stream or of a
// consumer.
func readStoredConfig(dir string) (d storedConfig, err error) {
	for file, into := range map[string]*[]byte{metaFile: &d.raw, metaSum: &d.sum} {
		*into, err = os.ReadFile(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storedConfig{}, err
		}
	}
	return d, nil
}

// checksum returns the content of the checksum file for the stored configuration raw of a
// stream. For a consumer, stream is "<stream>/<consumer>".
func checksum(stream string, raw []byte) (string, error) {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return "", err
	}
	_, _ = h.Write(raw) // never fails
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sumBytes is the size of a complete checksum file.
const sumBytes = 16

// config holds the members of a stored configuration that this package uses.
type config struct {
	Name     string `json:"name"`
	FirstSeq uint64 `json:"first_seq"`
}

// parse reports whether the stored configuration matches its checksum and can be
// decoded.
func (d storedConfig) parse(stream string) (c config, intact bool, err error) {
	want, err := checksum(stream, d.raw)
	if err != nil {
		return config{}, false, err
	}
	// A configuration that is not what was written is a finding, and no error.
	intact = string(d.sum) == want && json.Unmarshal(d.raw, &c) == nil
	return c, intact, nil
}

// checkStoredConfig reports whether the stored configuration of a stream matches its checksum,
// and returns the first position in it.
func checkStoredConfig(dir, stream string) (intact bool, begins uint64, err error) {
	d, err := readStoredConfig(dir)
	if err != nil {
		return false, 1, err
	}
	c, intact, err := d.parse(stream)
	if err != nil || !intact {
		return false, 1, err
	}
	return true, max(1, c.FirstSeq), nil
}
