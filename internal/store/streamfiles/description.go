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

// description is what the two files of a stream's configuration hold. raw and sum
// are nil if the file is missing.
type description struct{ raw, sum []byte }

// readDescription reads the description of a stream in a directory.
func readDescription(dir string) (d description, err error) {
	for file, into := range map[string]*[]byte{metaFile: &d.raw, metaSum: &d.sum} {
		*into, err = os.ReadFile(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return description{}, err
		}
	}
	return d, nil
}

// checksum is the content of the sum file that belongs to a description of a
// stream.
func checksum(stream string, raw []byte) (string, error) {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return "", err
	}
	_, _ = h.Write(raw) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sumBytes is the size of a complete sum file.
const sumBytes = 16

// config are the members of a description that matter here.
type config struct {
	Name     string `json:"name"`
	FirstSeq uint64 `json:"first_seq"`
}

// parse reports whether the description has its checksum and is one of the stream.
func (d description) parse(stream string) (c config, intact bool, err error) {
	want, err := checksum(stream, d.raw)
	if err != nil {
		return config{}, false, err
	}
	// A description that cannot be read as it was written is a finding, not an error.
	intact = string(d.sum) == want && json.Unmarshal(d.raw, &c) == nil
	return c, intact, nil
}

// describe reports whether a stream's description has its checksum, and the first
// position it names.
func describe(dir, stream string) (intact bool, begins uint64, err error) {
	d, err := readDescription(dir)
	if err != nil {
		return false, 1, err
	}
	c, intact, err := d.parse(stream)
	if err != nil || !intact {
		return false, 1, err
	}
	return true, max(1, c.FirstSeq), nil
}
