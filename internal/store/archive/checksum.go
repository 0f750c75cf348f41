package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"daybook/events"
)

// The manifest, the pages of the index and the parts of the filter end with a checksum over
// their name and content. Frames have one of zstd. A changed bit in the index would otherwise
// make events invisible.

// checksumBytes is the size of a checksum: CRC-32C, big endian.
const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errChecksum = errors.New("the checksum does not match")

// checksumOf includes the name, because a part with the content of another is damage too.
func checksumOf(name string, content []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, content)
}

// appendChecksum appends the checksum of a part. name is its name within all archives.
func appendChecksum(content []byte, name string) []byte {
	return binary.BigEndian.AppendUint32(content, checksumOf(name, content))
}

// withoutChecksum returns the content of a part whose checksum matches.
func withoutChecksum(part []byte, name string) ([]byte, error) {
	n := len(part) - checksumBytes
	if n < 0 || binary.BigEndian.Uint32(part[n:]) != checksumOf(name, part[:n]) {
		return nil, errChecksum
	}
	return part[:n:n], nil
}

// fullName returns the name of a part within all archives.
func fullName(v events.Volume, part string) string { return fmt.Sprintf("%d.%s", int(v), part) }

// CheckPart returns an error for a part that is damaged, which may come from anyone. It decodes
// frames and the manifest, and compares the checksums of other parts.
func CheckPart(v events.Volume, name string, part []byte) error {
	_, _, isFrame := FrameExtent(name)
	var err error
	switch {
	case name == ManifestPart:
		_, err = DecodeManifest(part)
	case isFrame || name == Opening:
		_, err = decodeFrame(part)
	default:
		_, err = withoutChecksum(part, fullName(v, name))
	}
	return err
}
