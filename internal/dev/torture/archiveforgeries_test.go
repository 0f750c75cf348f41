package torture_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/archive"
	"daybook/internal/store/stream"
	"daybook/proof"
)

// archived returns y after one more seal, with its oldest volume as an archive.
func (y *sound) archived(t *testing.T) *sound {
	t.Helper()
	dir := t.TempDir()
	if err := writeFiles(dir, y.files); err != nil {
		t.Fatal(err)
	}
	opts := proofOptions(dir, "")
	book := startWith(t, opts)
	post(t, book, "/api/ledger/volumes/seal", "")
	closeOrFail(t, book)
	archiveOldest(t, opts)
	after := &sound{key: y.key, signer: y.signer, forger: y.forger, files: readFiles(t, dir)}
	delete(after.files, "ballast")
	after.read(t)
	if len(archivedIn(after.files)) == 0 {
		t.Fatal("no archive")
	}
	return after
}

// partsInMemory are the parts of an archive by name.
type partsInMemory map[string][]byte

func (p partsInMemory) Put(_ context.Context, name string, part []byte) error {
	p[name] = slices.Clone(part)
	return nil
}

func (p partsInMemory) Get(_ context.Context, name string) ([]byte, error) {
	part, ok := p[name]
	if !ok {
		return nil, events.ErrNotFound
	}
	return part, nil
}

// archiveBlocks returns the paths of the blocks of the archives.
func archiveBlocks(files map[string][]byte) []string {
	var list []string
	for name := range files {
		if ok, err := path.Match(archiveFiles+"msgs/*.blk", name); ok && err == nil {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// archivedIn returns the events in the archives.
func archivedIn(files map[string][]byte) []events.Stored {
	var all []events.Stored
	for _, file := range archiveBlocks(files) {
		for _, m := range decodeBlock(files[file]) {
			_, part, ok := stream.ArchivePart(string(m.subject))
			if _, _, isFrame := archive.FrameExtent(part); !ok || !isFrame {
				continue
			}
			list, err := archive.DecodeFrame(m.body)
			if err != nil {
				panic(err) // the archive is intact
			}
			all = append(all, list...)
		}
	}
	slices.SortFunc(all, func(a, b events.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// allLeaves returns the leaf hashes of all events, in archives and in streams.
func allLeaves(files map[string][]byte) ([]proof.Hash, error) {
	var leaves []proof.Hash
	for _, m := range archivedIn(files) {
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		if err != nil {
			return nil, err
		}
		leaves = append(leaves, leaf)
	}
	later, err := leavesOf(ledgerIn(files))
	return append(leaves, later...), err
}

// rewriteArchive writes the archive of volume 1 again, over the events that edit returns, with all
// checksums and the index.
func rewriteArchive(files map[string][]byte, edit func(list []events.Stored) []events.Stored) error {
	list := edit(archivedIn(files))
	parts := partsInMemory{}
	info := archive.Info{Volume: 1, First: list[0].Seq, Last: list[len(list)-1].Seq}
	for _, file := range archiveBlocks(files) {
		for _, m := range decodeBlock(files[file]) {
			if _, part, ok := stream.ArchivePart(string(m.subject)); ok && part == archive.ManifestPart {
				m, err := archive.DecodeManifest(m.body)
				if err != nil {
					return err
				}
				info.Began, info.Ended = m.Began, m.Ended
			}
		}
	}
	w := archive.NewWriter(parts, info)
	defer w.Close()
	for _, m := range list {
		if err := w.Add(context.Background(), m); err != nil {
			return err
		}
	}
	m, err := w.Finish(context.Background())
	if err == nil {
		err = archive.Commit(context.Background(), parts, m)
	}
	if err != nil {
		return err
	}
	// A part whose name stays takes the place of the old one. The others take the places that are left.
	others := maps.Clone(parts)
	eachPart(files, func(m *message, part string) bool { delete(others, part); return true })
	names := slices.Sorted(maps.Keys(others))
	eachPart(files, func(m *message, part string) bool {
		if _, stays := parts[part]; !stays {
			if len(names) == 0 {
				return false
			}
			part, names = names[0], names[1:]
			m.subject = fmt.Appendf(nil, "archive.0001.%s", part)
		}
		m.body = parts[part]
		return true
	})
	if len(names) > 0 {
		return fmt.Errorf("the parts %q have no place", names)
	}
	return nil
}

// eachPart calls fn with the part in each message of the archives, and deletes the message if fn
// returns false.
func eachPart(files map[string][]byte, fn func(m *message, part string) bool) {
	for _, file := range archiveBlocks(files) {
		list := decodeBlock(files[file])
		kept := list[:0]
		for _, m := range list {
			_, part, ok := stream.ArchivePart(string(m.subject))
			if !ok || fn(&m, part) {
				kept = append(kept, m)
			}
		}
		files[file] = encodeBlock(file, kept)
	}
}

// inArchive returns an edit of one event of the archive. change returns false for an event to which it
// does not apply.
func inArchive(change func(r *rand.Rand, m *events.Stored) bool, then func(files map[string][]byte) error) func(*rand.Rand, *sound, map[string][]byte) (string, error) {
	return func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		err = rewriteArchive(files, func(list []events.Stored) []events.Stored {
			for {
				m := &list[r.IntN(len(list))]
				m.Body, m.Header = slices.Clone(m.Body), clone(m.Header)
				if change(r, m) {
					what = fmt.Sprintf("archived event %d", m.Seq)
					return list
				}
			}
		})
		if err == nil {
			err = then(files)
		}
		return what, err
	}
}

// letterInArchive changes a letter or digit of a payload.
func letterInArchive(r *rand.Rand, m *events.Stored) bool {
	at := r.IntN(len(m.Body))
	if c := m.Body[at]; c < '0' || c > 'z' || c == '\\' {
		return false
	}
	m.Body[at] ^= 1
	return true
}

// attributeInArchive changes the last character of an attribute.
func attributeInArchive(r *rand.Rand, m *events.Stored) bool {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(m.Header)), func(name string) bool { return !strings.HasPrefix(name, "ce-") })
	value := m.Header[names[r.IntN(len(names))]]
	value[0] = value[0][:len(value[0])-1] + string(rune(value[0][len(value[0])-1]^1))
	return true
}

func leaveFiles(map[string][]byte) error { return nil }

// archiveForgeries are edits of an archive whose checksums and index fit.
var archiveForgeries = []forgery{
	{"an archived event is changed, the checksums of the archive fit", []string{isNotIntact}, inArchive(letterInArchive, leaveFiles)},
	{"an attribute of an archived event is changed, the checksums fit", []string{isNotIntact}, inArchive(attributeInArchive, leaveFiles)},
	{"an archived event is changed together with its tile", []string{isNotIntact}, inArchive(letterInArchive, retileLeaf)},
	{"an archived event is changed together with all tiles over it", []string{isNotIntact}, inArchive(letterInArchive, retile)},
	{"an archived event is missing, the archive fits", []string{isNotIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		err = rewriteArchive(files, func(list []events.Stored) []events.Stored {
			at := r.IntN(len(list))
			what = fmt.Sprintf("archived event %d", list[at].Seq)
			return slices.Delete(list, at, at+1)
		})
		return what, err
	}},
	{"two archived events are swapped, with their positions", []string{isNotIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		err = rewriteArchive(files, func(list []events.Stored) []events.Stored {
			at := r.IntN(len(list) - 1)
			what = fmt.Sprintf("archived events %d and %d", list[at].Seq, list[at+1].Seq)
			list[at], list[at+1] = list[at+1], list[at]
			list[at].Seq, list[at+1].Seq = list[at+1].Seq, list[at].Seq
			return list
		})
		return what, err
	}},
	{"the last archived events are missing, the archive fits", []string{isNotIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		err = rewriteArchive(files, func(list []events.Stored) []events.Stored {
			n := 1 + r.IntN(len(list)-1)
			what = fmt.Sprintf("archived events after %d", list[n-1].Seq)
			return list[:n]
		})
		return what, err
	}},
	{"a part of an archive has the content of another one", []string{isIntact, isNotIntact}, func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		var bodies [][]byte
		eachPart(files, func(m *message, _ string) bool { bodies = append(bodies, m.body); return true })
		at, from, n := r.IntN(len(bodies)), r.IntN(len(bodies)), 0
		eachPart(files, func(m *message, part string) bool {
			if n == at {
				m.body, what = bodies[from], "part "+part
			}
			n++
			return true
		})
		return what, nil
	}},
	{"a part of an archive is missing", damages, func(r *rand.Rand, _ *sound, files map[string][]byte) (what string, err error) {
		var names []string
		eachPart(files, func(_ *message, part string) bool { names = append(names, part); return true })
		gone := names[r.IntN(len(names))]
		eachPart(files, func(_ *message, part string) bool { return part != gone })
		return "part " + gone, nil
	}},
}
