package torture_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// rewrite replaces one message of the ledger by what change returns for it, with the checksum that
// the embedded server expects. change returns false for a message to which it does not apply.
func rewrite(r *rand.Rand, files map[string][]byte, change func(m *message) bool) string {
	list := ledgerBlocks(files)
	for {
		file := list[r.IntN(len(list))]
		messages := decodeBlock(files[file])
		if i := r.IntN(len(messages)); messages[i].seq < deletedBits && change(&messages[i]) {
			files[file] = encodeBlock(file, messages)
			return fmt.Sprintf("event %d in %s", messages[i].seq, file)
		}
	}
}

// changeBody changes a letter or digit of a payload.
func changeBody(r *rand.Rand) func(*message) bool {
	return func(m *message) bool {
		at := r.IntN(len(m.body))
		if c := m.body[at]; c < '0' || c > 'z' || c == '\\' {
			return false
		}
		m.body[at] ^= 1
		return true
	}
}

// changeHeader changes the last character of a header whose name has a prefix.
func changeHeader(r *rand.Rand, prefix string) func(*message) bool {
	return func(m *message) bool {
		lines := strings.Split(string(m.header), "\r\n")
		i := 1 + r.IntN(len(lines)-1)
		if !strings.HasPrefix(lines[i], prefix) {
			return false
		}
		lines[i] = lines[i][:len(lines[i])-1] + string(rune(lines[i][len(lines[i])-1]^1))
		m.header = []byte(strings.Join(lines, "\r\n"))
		return true
	}
}

// changeSource changes the source of a run, about which there are no rules.
func changeSource(r *rand.Rand) func(*message) bool {
	return func(m *message) bool {
		old := m.body
		m.body = bytes.Replace(old, []byte("console.log("), fmt.Appendf(nil, "forged%d(", r.IntN(1000)), 1)
		return !bytes.Equal(old, m.body)
	}
}

// editBlock replaces the messages of the newest block.
func editBlock(files map[string][]byte, edit func(list []message) []message) string {
	list := ledgerBlocks(files)
	file := list[len(list)-1]
	files[file] = encodeBlock(file, edit(decodeBlock(files[file])))
	return file
}

// retile computes the tree over the events again: its tiles and the file "durable".
func retile(files map[string][]byte) error {
	lines := strings.Split(string(files["audit/durable"]), "\n")
	size, err := strconv.Atoi(lines[1])
	if err != nil {
		return err
	}
	leaves, err := allLeaves(files)
	if err != nil {
		return err
	}
	tiles, root, err := allTiles(leaves[:size])
	if err != nil {
		return err
	}
	for name := range files {
		if strings.HasPrefix(name, "audit/tile/") {
			delete(files, name)
		}
	}
	for name, raw := range tiles {
		files[name] = raw
	}
	lines[3] = proof.EncodeHash(root)
	files["audit/durable"] = []byte(strings.Join(lines, "\n"))
	return nil
}

// retileLeaf writes the leaf of a changed event into its tile of level 0, and no other tile.
func retileLeaf(files map[string][]byte) error {
	leaves, err := allLeaves(files)
	if err != nil {
		return err
	}
	for name, raw := range files {
		if t, err := proof.ParseTilePath(strings.TrimPrefix(name, "audit/")); err == nil && t.Level == 0 && len(raw) == t.Width*32 {
			at := int(t.Index) * proof.TileWidth
			files[name] = proof.EncodeTile(leaves[at : at+t.Width])
		}
	}
	return nil
}

// resign signs the tree of changed events: the checkpoints in audit/ that cover more than inFile
// events, and those that events after a position record. Then it computes the tiles.
func resign(files map[string][]byte, signer note.Signer, inFile, recorded uint64) error {
	var list []proof.Record
	for _, m := range ledgerIn(files) {
		list = append(list, eventproof.RecordOf(m.stored()))
	}
	_, roots, err := verdicts.Resign(list, signer, recorded)
	if err != nil {
		return err
	}
	for _, file := range ledgerBlocks(files) {
		messages := decodeBlock(files[file])
		for i := range messages {
			if messages[i].seq < deletedBits {
				messages[i].body = list[messages[i].seq-1].Body
			}
		}
		files[file] = encodeBlock(file, messages)
	}
	var again bytes.Buffer
	for _, raw := range notesOf(files["audit/checkpoints"]) {
		c, err := proof.ParseCheckpoint(raw)
		if err == nil && c.Size > inFile {
			c, err = verdicts.ResignNote(c, signer, roots)
		}
		if err != nil {
			return err
		}
		again.Write(c.Note)
		again.WriteByte('\n')
		if files["audit/key.signed"] != nil {
			files["audit/key.signed"] = c.Note
		}
	}
	files["audit/checkpoints"] = again.Bytes()
	return retile(files)
}

// notesOf returns the notes in a file of checkpoints.
func notesOf(raw []byte) [][]byte {
	var list [][]byte
	parts := strings.SplitAfter(string(raw), "\n\n")
	for i := 0; i+1 < len(parts); i += 2 {
		list = append(list, []byte(parts[i]+strings.TrimSuffix(parts[i+1], "\n")))
	}
	return list
}

// joinNotes is the inverse of notesOf.
func joinNotes(list [][]byte) []byte {
	var b bytes.Buffer
	for _, raw := range list {
		b.Write(raw)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// splitCheckpoints moves the older half of the checkpoints to a full file, and returns its name.
func splitCheckpoints(files map[string][]byte) string {
	const full = "audit/checkpoints.000001"
	notes := notesOf(files["audit/checkpoints"])
	files[full], files["audit/checkpoints"] = joinNotes(notes[:len(notes)/2]), joinNotes(notes[len(notes)/2:])
	return full
}

// forgery is a kind of edit of a data directory that knows its structure.
type forgery struct {
	name string
	// want are the verdicts that may follow. INTACT and INTACT UP TO also demand that a reader sees
	// the same events.
	want []string
	edit func(r *rand.Rand, y *sound, files map[string][]byte) (what string, err error)
}

const (
	isIntact     = "INTACT"
	isIntactUpTo = "INTACT UP TO"
	isNotIntact  = "NOT INTACT"
	isRolledBack = "ROLLED BACK"
	isForked     = "FORKED"
	isWrongKey   = "WRONG KEY"
)

// simple returns an edit that cannot fail.
func simple(edit func(r *rand.Rand, files map[string][]byte) string) func(*rand.Rand, *sound, map[string][]byte) (string, error) {
	return func(r *rand.Rand, _ *sound, files map[string][]byte) (string, error) { return edit(r, files), nil }
}

// thenDo edits a message and then does more.
func thenDo(change func(r *rand.Rand) func(*message) bool, then func(y *sound, files map[string][]byte) error) func(*rand.Rand, *sound, map[string][]byte) (string, error) {
	return func(r *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		what := rewrite(r, files, change(r))
		return what, then(y, files)
	}
}

func covered(r *rand.Rand) func(*message) bool   { return changeHeader(r, "ce-") }
func transport(r *rand.Rand) func(*message) bool { return changeHeader(r, "Nats-") }
func nothing(*sound, map[string][]byte) error    { return nil }

// forgeries are edits whose checksums fit. With the genuine key given, a changed event is never INTACT.
var forgeries = []forgery{
	{"an event is changed, its checksum fits", []string{isNotIntact}, thenDo(changeBody, nothing)},
	{"an attribute is changed, its checksum fits", []string{isNotIntact}, thenDo(covered, nothing)},
	{"a header of the transport is changed, its checksum fits", []string{isIntact}, thenDo(transport, nothing)},
	{"an event is changed together with its tile", []string{isNotIntact}, thenDo(changeBody, func(_ *sound, files map[string][]byte) error { return retileLeaf(files) })},
	{"an event is changed together with all tiles over it", []string{isNotIntact}, thenDo(changeBody, func(_ *sound, files map[string][]byte) error { return retile(files) })},
	{"an event is changed together with all tiles, and the checkpoints in `audit` are signed with another key", []string{isNotIntact}, thenDo(changeSource, func(y *sound, files map[string][]byte) error {
		return y.forge(files, 0, verdicts.None)
	})},
	{"an event is changed together with all tiles, and all checkpoints are signed with another key", []string{isWrongKey}, thenDo(changeSource, func(y *sound, files map[string][]byte) error {
		return y.forge(files, 0, 0)
	})},
	{"a message has another time, its checksum fits", []string{isIntact}, simple(func(r *rand.Rand, files map[string][]byte) string {
		return rewrite(r, files, func(m *message) bool { m.time++; return true })
	})},
	{"an event is missing inside the newest volume", []string{isNotIntact}, simple(func(r *rand.Rand, files map[string][]byte) string {
		return editBlock(files, func(list []message) []message {
			at := r.IntN(len(list) - 1)
			for list[at].seq >= deletedBits { // it stands for the positions of other volumes
				at++
			}
			return slices.Delete(list, at, at+1)
		})
	})},
	{"two events are swapped, with their positions", []string{isNotIntact}, simple(func(r *rand.Rand, files map[string][]byte) string {
		return editBlock(files, func(list []message) []message {
			i := r.IntN(len(list) - 1)
			j := i + 1 + r.IntN(len(list)-i-1)
			list[i], list[j] = list[j], list[i]
			list[i].seq, list[j].seq = list[j].seq, list[i].seq
			return list
		})
	})},
	{"the newest events are missing", []string{isNotIntact, isRolledBack}, simple(func(r *rand.Rand, files map[string][]byte) string {
		return editBlock(files, func(list []message) []message { return list[:1+r.IntN(len(list)-1)] })
	})},
	{"an event more at the end", []string{isIntactUpTo, isNotIntact}, simple(func(r *rand.Rand, files map[string][]byte) string {
		return editBlock(files, func(list []message) []message {
			m := list[len(list)-1-r.IntN(len(list)/2)]
			m.seq = list[len(list)-1].seq + 1
			return append(list, m)
		})
	})},
	{"checkpoints are cut off the file", []string{isIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (string, error) {
		notes := notesOf(files["audit/checkpoints"])
		n := r.IntN(len(notes))
		files["audit/checkpoints"] = joinNotes(notes[:n])
		return fmt.Sprintf("%d of %d stay", n, len(notes)), nil
	}},
	{"checkpoints are cut off the file, and the signed file is missing", []string{isIntact, isIntactUpTo}, func(r *rand.Rand, _ *sound, files map[string][]byte) (string, error) {
		notes := notesOf(files["audit/checkpoints"])
		n := r.IntN(len(notes))
		files["audit/checkpoints"] = joinNotes(notes[:n])
		delete(files, "audit/key.signed")
		return fmt.Sprintf("%d of %d stay", n, len(notes)), nil
	}},
	{"checkpoints in another order", []string{isIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (string, error) {
		notes := notesOf(files["audit/checkpoints"])
		r.Shuffle(len(notes), func(i, j int) { notes[i], notes[j] = notes[j], notes[i] })
		files["audit/checkpoints"] = joinNotes(notes)
		return "shuffled", nil
	}},
	{"a checkpoint of another key over more events", []string{isIntact}, func(r *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		c, err := proof.Checkpoint{Origin: y.newest.Origin, Size: y.newest.Size + 1 + uint64(r.IntN(9)), Root: y.newest.Root}.Sign(y.forger.Signer)
		files["audit/checkpoints"] = append(slices.Clone(files["audit/checkpoints"]), append(c.Note, '\n')...)
		return fmt.Sprint(c.Size), err
	}},
	{"a checkpoint of the genuine key over more events", []string{isNotIntact, isRolledBack}, func(r *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		c, err := proof.Checkpoint{Origin: y.newest.Origin, Size: y.newest.Size + 1 + uint64(r.IntN(9)), Root: y.newest.Root}.Sign(y.signer)
		files["audit/checkpoints"] = append(slices.Clone(files["audit/checkpoints"]), append(c.Note, '\n')...)
		return fmt.Sprint(c.Size), err
	}},
	{"a checkpoint of the genuine key over another tree", []string{isForked}, func(r *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		c, err := proof.Checkpoint{Origin: y.newest.Origin, Size: 1 + uint64(r.IntN(int(y.newest.Size))), Root: proof.Hash{1}}.Sign(y.signer)
		files["audit/checkpoints"] = append(slices.Clone(files["audit/checkpoints"]), append(c.Note, '\n')...)
		return fmt.Sprint(c.Size), err
	}},
	{"a checkpoint of the genuine key over another tree, in a full file", []string{isForked}, func(r *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		c, err := proof.Checkpoint{Origin: y.newest.Origin, Size: 1 + uint64(r.IntN(int(y.newest.Size))), Root: proof.Hash{1}}.Sign(y.signer)
		full := splitCheckpoints(files)
		files[full] = append(files[full], append(c.Note, '\n')...)
		return fmt.Sprint(c.Size), err
	}},
	{"a full file of checkpoints is damaged or missing", []string{isIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (string, error) {
		full := splitCheckpoints(files)
		return either(truncate(full), remove(full))(r, files), nil
	}},
	{"the key beside the data is another one", []string{isIntact}, func(_ *rand.Rand, y *sound, files map[string][]byte) (string, error) {
		files["audit/vkey"] = []byte(y.forger.VKey + "\n")
		return y.forger.VKey, nil
	}},
	{"the end of every file of one kind is set to zeros", nil, simple(func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, "audit/*", "audit/tile/*/*", "mark*", "descriptions/*/*", ledgerFiles+"msgs/*.blk", ledgerFiles+"meta.*")
		for file, raw := range files {
			if path.Ext(file) == path.Ext(name) && path.Dir(file) == path.Dir(name) {
				raw = slices.Clone(raw)
				clear(raw[len(raw)-min(len(raw), 1+r.IntN(64)):])
				files[file] = raw
			}
		}
		return name
	})},
}

// forge signs the changed events with the key of the forger and puts this key beside the data.
func (y *sound) forge(files map[string][]byte, inFile, recorded uint64) error {
	files["audit/vkey"] = append(slices.Clone(y.files["audit/vkey"]), y.forger.VKey+"\n"...)
	return resign(files, y.forger.Signer, inFile, recorded)
}
