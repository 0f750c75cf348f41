package torture_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/minio/highwayhash"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// message is a record of a block of the embedded server. The form of a block is described in package
// streamfiles.
type message struct {
	seq, time             uint64
	subject, header, body []byte
}

const (
	recordLead = 22 // length, position, time, length of the subject
	headerBit  = 1 << 31
	// deletedBits is the lowest position of records that stand for deleted messages.
	deletedBits = 1 << 62
)

// decodeBlock returns the messages of an intact block.
func decodeBlock(raw []byte) []message {
	var list []message
	for _, at := range records(raw) {
		length := binary.LittleEndian.Uint32(raw[at:])
		r := raw[at : at+int(length&^headerBit)]
		m := message{seq: binary.LittleEndian.Uint64(r[4:]), time: binary.LittleEndian.Uint64(r[12:])}
		rest := r[recordLead : len(r)-8]
		m.subject, rest = split(rest, int(binary.LittleEndian.Uint16(r[20:])))
		if length&headerBit != 0 {
			n := int(binary.LittleEndian.Uint32(rest))
			m.header, rest = split(rest[4:], n)
		}
		m.body = slices.Clone(rest)
		list = append(list, m)
	}
	return list
}

func split(raw []byte, n int) (head, rest []byte) { return slices.Clone(raw[:n]), raw[n:] }

// encodeBlock returns a block with correct checksums. file is the path of the block in the data
// directory.
func encodeBlock(file string, list []message) []byte {
	parts := strings.Split(file, "/")
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%s", parts[len(parts)-3], strings.TrimSuffix(parts[len(parts)-1], ".blk")))
	digest, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err)
	}
	var raw []byte
	for _, m := range list {
		start := len(raw)
		raw = append(raw, make([]byte, recordLead)...)
		raw = append(raw, m.subject...)
		bit := uint32(0)
		if len(m.header) > 0 {
			bit = headerBit
			raw = binary.LittleEndian.AppendUint32(raw, uint32(len(m.header)))
		}
		raw = append(append(raw, m.header...), m.body...)
		r := raw[start:]
		binary.LittleEndian.PutUint32(r, uint32(len(r)+8)|bit)
		binary.LittleEndian.PutUint64(r[4:], m.seq)
		binary.LittleEndian.PutUint64(r[12:], m.time)
		binary.LittleEndian.PutUint16(r[20:], uint16(len(m.subject)))
		digest.Reset()
		digest.Write(r[4:20])
		digest.Write(m.subject)
		digest.Write(m.header)
		digest.Write(m.body)
		raw = digest.Sum(raw)
	}
	return raw
}

// stored returns a message as the embedded server delivers it.
func (m message) stored() events.Stored {
	header := map[string][]string{}
	_, text, _ := strings.Cut(string(m.header), "\r\n")
	for line := range strings.SplitSeq(text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			header[name] = append(header[name], strings.Trim(value, " \t"))
		}
	}
	return events.Stored{Seq: m.seq, Subject: string(m.subject), Header: header, Body: m.body}
}

// ledgerBlocks returns the paths of the blocks of the ledger, in order.
func ledgerBlocks(files map[string][]byte) []string {
	return match(files, "jetstream/jetstream/$G/streams/LEDGER-*/msgs/*.blk")
}

// ledgerIn returns the messages of all blocks of the ledger.
func ledgerIn(files map[string][]byte) []message {
	var list []message
	for _, file := range ledgerBlocks(files) {
		for _, m := range decodeBlock(files[file]) {
			if m.seq < deletedBits {
				list = append(list, m)
			}
		}
	}
	return list
}

// leavesOf returns the leaf hashes of messages.
func leavesOf(list []message) ([]proof.Hash, error) {
	leaves := make([]proof.Hash, len(list))
	for i, m := range list {
		var err error
		if leaves[i], err = proof.LeafHash(eventproof.RecordOf(m.stored())); err != nil {
			return nil, err
		}
	}
	return leaves, nil
}

// A block that is decoded and encoded again is the same: so the edits of messages have the checksums
// that the embedded server expects.
func TestBlocksAreEncodedAgain(t *testing.T) {
	t.Parallel()
	list := []message{{1, 2, []byte("ledger.0001.a"), []byte("NATS/1.0\r\nce-id: x\r\n\r\n"), []byte("{}")}, {2, 3, []byte("ledger.0001.b"), nil, []byte("12")}}
	raw := encodeBlock("streams/LEDGER-0001/msgs/1.blk", list)
	again := encodeBlock("streams/LEDGER-0001/msgs/1.blk", decodeBlock(raw))
	if string(raw) != string(again) || len(decodeBlock(raw)) != 2 || string(decodeBlock(raw)[0].header) != string(list[0].header) {
		t.Errorf("%q is encoded again as %q", raw, again)
	}
}

// allTiles returns the files of a tree below "audit/", and the tree hash.
func allTiles(leaves []proof.Hash) (map[string][]byte, proof.Hash, error) {
	kept := tileMap{}
	tree := proof.NewTree(kept)
	for _, leaf := range leaves {
		if err := tree.Add(leaf); err != nil {
			return nil, proof.Hash{}, err
		}
	}
	for tile, hashes := range tree.PartialTiles() {
		if err := kept.Put(tile, hashes); err != nil {
			return nil, proof.Hash{}, err
		}
	}
	files := map[string][]byte{}
	for tile, raw := range maps.All(kept) {
		files["audit/"+tile.Path()] = raw
	}
	return files, tree.Root(), nil
}

// tileMap keeps the tiles of a tree.
type tileMap map[proof.Tile][]byte

func (w tileMap) Put(t proof.Tile, hashes []proof.Hash) error {
	w[t] = proof.EncodeTile(hashes)
	return nil
}

func (w tileMap) Get(t proof.Tile, width int) ([]byte, error) {
	t.Width = proof.TileWidth
	return w[t][:width*len(proof.Hash{})], nil
}
