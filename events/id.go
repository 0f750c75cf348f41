package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// NewID returns a new UUID version 7 (RFC 9562, section 5.7): the time in milliseconds and
// 74 random bits.
func NewID(at time.Time) string {
	var b [16]byte
	// rand.Read never fails: it crashes the program rather than return weak bits.
	_, _ = rand.Read(b[6:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(b[:6], ms[2:])
	return formatUUID(b, 7)
}

// DerivedID returns the execution id for an idempotency key: a UUID version 8 (RFC 9562,
// section 5.8) computed from tenant and key. The same key therefore permanently names the
// same execution, without a table that could lose it.
func DerivedID(tenant, key string) string {
	sum := sha256.Sum256([]byte("daybook idempotency\x00" + tenant + "\x00" + key))
	var b [16]byte
	copy(b[:], sum[:])
	return formatUUID(b, 8)
}

// ValidID reports whether s has the form of an id of this package.
func ValidID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !lowerHex(c) {
				return false
			}
		}
	}
	return true
}

// MintedAt returns the time at which NewID created an id, to the millisecond, by the clock
// of that process. It returns false for derived ids.
func MintedAt(id string) (time.Time, bool) {
	if !ValidID(id) || id[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	if err != nil {
		return time.Time{}, false
	}
	return time.UnixMilli(ms).UTC(), true
}

// ValidHash reports whether s is a SHA-256 in 64 lowercase hex characters, the form of
// every heap key and blob name.
func ValidHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if !lowerHex(s[i]) {
			return false
		}
	}
	return true
}

// Hash returns the SHA-256 of b in 64 lowercase hex characters.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func lowerHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func formatUUID(b [16]byte, version byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], b[0:4])
	out[8] = '-'
	hex.Encode(out[9:13], b[4:6])
	out[13] = '-'
	hex.Encode(out[14:18], b[6:8])
	out[18] = '-'
	hex.Encode(out[19:23], b[8:10])
	out[23] = '-'
	hex.Encode(out[24:36], b[10:16])
	return string(out[:])
}
