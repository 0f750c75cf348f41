package streamfiles

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"strings"

	"github.com/minio/highwayhash"
)

// A block is a sequence of records of this form, with sizes in bytes:
//
//	length 4 | position 8 | time 8 | subject length 2 | subject | [header length 4 | header] | body | checksum 8
//
// If the highest bit of the length is set, there is a header. If one of the highest two
// bits of the position is set, the record stands for a deleted message. The checksum
// covers none of the lengths.
const (
	recordHeader = 22
	recordSum    = 8
	hasHeader    = 1 << 31
	erasedBit    = 1 << 63
	tombBit      = 1 << 62
	maxRecord    = 32 << 20
)

// packedMagic is the start of a block that the server has compressed.
var packedMagic = []byte("cmp")

// Record is one message in a block. Its slices refer to the content of the block.
type Record struct {
	Seq                   uint64
	Subject, Header, Body []byte
	raw                   []byte
	// isDeleted reports whether the record stands for a deleted message.
	isDeleted bool
}

// Fields returns the headers by name, as a client receives them.
func (r Record) Fields() map[string][]string {
	_, text, _ := strings.Cut(string(r.Header), "\r\n")
	fields := map[string][]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = append(fields[name], strings.Trim(value, " \t"))
		}
	}
	return fields
}

// sums computes the checksums of the records of one block.
type sums struct{ digest hash.Hash }

func newSums(stream string, block int) (sums, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, block))
	d, err := highwayhash.NewDigest64(key[:])
	return sums{d}, err
}

// record decodes the record at the start of raw. If there is none, it returns the
// reason.
func (s sums) record(raw []byte) (Record, string) {
	if len(raw) < recordHeader+recordSum {
		return Record{}, "a record is cut short"
	}
	length := binary.LittleEndian.Uint32(raw)
	headed := length&hasHeader != 0
	length &^= hasHeader
	subject := int(binary.LittleEndian.Uint16(raw[20:]))
	lead := recordHeader + subject
	if headed {
		lead += 4
	}
	switch {
	case length > maxRecord || int(length) < lead+recordSum:
		return Record{}, "the length of a record cannot be right"
	case int(length) > len(raw):
		return Record{}, "a record is cut short"
	}
	raw = raw[:length]
	r := Record{raw: raw, Seq: binary.LittleEndian.Uint64(raw[4:]), Subject: raw[recordHeader : recordHeader+subject], Body: raw[lead : length-recordSum]}
	s.digest.Reset()
	s.digest.Write(raw[4:20])
	s.digest.Write(r.Subject)
	s.digest.Write(r.Body)
	if !bytes.Equal(s.digest.Sum(nil), raw[length-recordSum:]) {
		return Record{}, "a record does not have its checksum"
	}
	r.isDeleted = r.Seq&(erasedBit|tombBit) != 0
	r.Seq &^= erasedBit | tombBit
	if !headed {
		return r, ""
	}
	size := int(binary.LittleEndian.Uint32(raw[lead-4:]))
	if size > len(r.Body) {
		return Record{}, "the length of a header cannot be right"
	}
	r.Header, r.Body = r.Body[:size], r.Body[size:]
	// The checksum does not cover the length of the header. The form of the header shows
	// where it ends.
	if !bytes.HasPrefix(r.Header, []byte("NATS/1.0")) || bytes.Index(r.Header, []byte("\r\n\r\n")) != size-4 {
		return Record{}, "the length of a header cannot be right"
	}
	return r, ""
}

// scan calls found with every record of a block, in order of offset, and wrong with
// every range of bytes without a record: from is included, to is not. after is the
// position before the block.
func (s sums) scan(raw []byte, after uint64, found func(Record), wrong func(from, to int, what string)) {
	for at := 0; at < len(raw); {
		r, what := s.record(raw[at:])
		if what == "" {
			found(r)
			after = max(after, r.Seq)
			at += len(r.raw)
			continue
		}
		next := at + 1
		for ; next < len(raw); next++ {
			if !plausible(raw[next:], after) {
				continue
			}
			if _, what := s.record(raw[next:]); what == "" {
				break
			}
		}
		wrong(at, next, what)
		at = next
	}
}

// plausible reports whether a record after a position may start here. It avoids
// computing checksums for bytes that cannot be a record.
func plausible(raw []byte, after uint64) bool {
	if len(raw) < recordHeader+recordSum {
		return false
	}
	length := binary.LittleEndian.Uint32(raw) &^ hasHeader
	seq := binary.LittleEndian.Uint64(raw[4:])
	return length <= maxRecord && int(length) <= len(raw) && length >= recordHeader+recordSum &&
		(seq > after && seq-after < 1<<32 || seq&(erasedBit|tombBit) != 0)
}
