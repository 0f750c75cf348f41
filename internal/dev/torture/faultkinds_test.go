package torture_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
)

// faultKind is a kind of change to the files of a store.
type faultKind struct {
	name string
	// want are the verdicts that a verification before a start may give with the genuine key.
	want []string
	// inject changes one or more of the files and returns a description.
	inject func(r *rand.Rand, files map[string][]byte) string
}

const (
	streamFiles  = "jetstream/jetstream/$G/streams/"
	ledgerFiles  = streamFiles + "LEDGER-*/"
	archiveFiles = streamFiles + "ARCHIVE/"
	blobFiles    = streamFiles + "OBJ_BLOBS/"
	copyFiles    = "projection-copies/"
)

var (
	// damages are the verdicts on a fault in something that the proof covers or a reader needs.
	damages = []string{isNotIntact}
	// losesEnd are the verdicts on a fault after which the newest events may be missing.
	losesEnd = []string{isNotIntact, isRolledBack}
	// keepsProof are the verdicts on a fault in something that can be computed again.
	keepsProof = []string{isIntact}
	// mayDamage are the verdicts on a fault in a part that is needed, or in one that is not: a tile is needed
	// if it is not beside a larger one, a file of checkpoints if no newer checkpoint follows.
	mayDamage = []string{isIntact, isNotIntact}
	// mayBlock are the verdicts on a fault after which the embedded server may not open a stream.
	mayBlock = []string{isIntact, string(unanswered)}
)

var faultKinds = []faultKind{
	{"a bit of the ledger's blocks", damages, flip(ledgerFiles + "msgs/*.blk")},
	{"a bit of a record's header", damages, flipHeader(ledgerFiles + "msgs/*.blk")},
	{"a bit of the last block's end", damages, flipTail(ledgerFiles + "msgs/*.blk")},
	{"a block of the ledger is cut", damages, truncate(ledgerFiles + "msgs/*.blk")},
	{"the last block is cut between records", damages, cutAtRecord(ledgerFiles + "msgs/*.blk")},
	{"a block of the ledger is missing", damages, remove(ledgerFiles + "msgs/*.blk")},
	{"two blocks are swapped", damages, swap(ledgerFiles+"msgs/*.blk", ledgerFiles+"msgs/*.blk")},
	{"a block is swapped with one of the blobs", damages, swap(ledgerFiles+"msgs/*.blk", blobFiles+"msgs/*.blk")},
	{"a page of zeros in a block", damages, zero(ledgerFiles + "msgs/*.blk")},
	{"garbage after a block", mayDamage, garbage(ledgerFiles + "msgs/*.blk")},
	{"all blocks of the ledger are missing", damages, removeAll(ledgerFiles + "msgs/*.blk")},
	{"the ledger's stream is missing", losesEnd, removeVolume(func(list []string) string { return list[len(list)-1] })},
	{"all streams are missing", damages, removeBelow("jetstream/")},
	{"a bit of the ledger's index", keepsProof, flip(ledgerFiles + "msgs/index.db")},
	{"the ledger's index is cut", keepsProof, truncate(ledgerFiles + "msgs/index.db")},
	{"the ledger's index is missing", keepsProof, remove(ledgerFiles + "msgs/index.db")},
	{"a bit of the stream's configuration", damages, flip(ledgerFiles + "meta.*")},
	{"the stream's configuration is cut", keepsProof, truncate(ledgerFiles + "meta.*")},
	{"the stream's configuration is missing", keepsProof, remove(ledgerFiles + "meta.*")},
	{"a bit of a consumer's state", mayBlock, flip(ledgerFiles + "obs/*/*")},
	{"a consumer's state is cut", keepsProof, truncate(ledgerFiles + "obs/*/*")},
	{"a consumer's state is missing", keepsProof, remove(ledgerFiles + "obs/*/*")},
	{"a sealed volume is missing", damages, removeVolume(func(list []string) string { return list[0] })},
	{"a bit of an archive", damages, flip(archiveFiles + "msgs/*.blk")},
	{"an archive is cut", damages, truncate(archiveFiles + "msgs/*.blk")},
	{"a page of zeros in an archive", damages, zero(archiveFiles + "msgs/*.blk")},
	{"garbage after an archive", mayDamage, garbage(archiveFiles + "msgs/*.blk")},
	{"an archive is swapped with a block of the ledger", damages, swap(archiveFiles+"msgs/*.blk", ledgerFiles+"msgs/*.blk")},
	{"an archive is missing", damages, removeAll(archiveFiles + "msgs/*.blk")},
	{"the stream of archives is missing", damages, removeBelow(archiveFiles)},
	{"the archives' index", keepsProof, either(flip(archiveFiles+"msgs/index.db"), truncate(archiveFiles+"msgs/index.db"), remove(archiveFiles+"msgs/index.db"))},
	{"the configuration of the archives' stream", mayDamage, either(flip(archiveFiles+"meta.*"), truncate(archiveFiles+"meta.*"), remove(archiveFiles+"meta.*"))},
	{"a bit of the blobs' blocks", damages, flip(blobFiles + "msgs/*.blk")},
	{"a block of the blobs is cut", damages, truncate(blobFiles + "msgs/*.blk")},
	{"a block of the blobs is missing", damages, remove(blobFiles + "msgs/*.blk")},
	{"the blobs' index", keepsProof, flip(blobFiles + "msgs/index.db")},
	{"the configuration of the blobs' stream", keepsProof, flip(blobFiles + "meta.*")},
	{"a bit of a tile", mayDamage, flip("audit/tile/*/*/*", "audit/tile/*/*")},
	{"a tile is cut", mayDamage, truncate("audit/tile/*/*/*", "audit/tile/*/*")},
	{"a tile is missing", mayDamage, remove("audit/tile/*/*/*", "audit/tile/*/*")},
	{"a bit of the checkpoints", mayDamage, flip("audit/checkpoints")},
	{"the checkpoints are missing", keepsProof, remove("audit/checkpoints")},
	{"a bit of the file `durable`", keepsProof, flip("audit/durable")},
	{"a bit of a key or of the identity", mayDamage, flip("audit/key", "audit/vkey", "audit/ledger.json")},
	{"a key or the identity is missing", keepsProof, remove("audit/key", "audit/vkey", "audit/ledger.json")},
	{"the newest signed checkpoint", mayDamage, either(flip("audit/key.signed"), truncate("audit/key.signed"), remove("audit/key.signed"))},
	{"all of the proofs are missing", []string{isIntactUpTo}, // the events have checkpoints too
		removeBelow("audit/")},
	{"a bit of a mark", keepsProof, flip("mark", "mark-blobs")},
	{"a mark is cut or missing", keepsProof, either(truncate("mark", "mark-blobs"), remove("mark", "mark-blobs"))},
	{"a bit of the projections", keepsProof, flip("projections.db")},
	{"the projections are cut", keepsProof, truncate("projections.db")},
	{"the projections are missing", keepsProof, remove("projections.db")},
	{"the projections' hash", keepsProof, either(flip("projections.db.sum"), remove("projections.db.sum"))},
	{"a copy of the projections", keepsProof, either(flip(copyFiles+"*"), truncate(copyFiles+"*"), remove(copyFiles+"*"))},
	{"the projections are missing, and a copy of them is damaged", keepsProof, func(r *rand.Rand, files map[string][]byte) string {
		return remove("projections.db")(r, files) + ", " + either(flip(copyFiles+"*"), truncate(copyFiles+"*"))(r, files)
	}},
	{"a copy of a stream's configuration", keepsProof, either(flip("descriptions/*/*"), remove("descriptions/*/*"))},
	{"the subscribers' credentials", keepsProof, either(flip("nats/default.creds"), remove("nats/default.creds"), remove("nats/credentials.jsonl"))},
}

// pick returns one of the matching files that are not empty.
func pick(r *rand.Rand, files map[string][]byte, patterns ...string) string {
	list := match(files, patterns...)
	return list[r.IntN(len(list))]
}

func match(files map[string][]byte, patterns ...string) []string {
	var list []string
	for name, content := range files {
		for _, p := range patterns {
			// Names may contain $, which path.Match takes literally, but no [.
			if ok, err := path.Match(p, name); err == nil && ok && len(content) > 0 {
				list = append(list, name)
			}
		}
	}
	if len(list) == 0 {
		panic(fmt.Sprintf("no file matches %q", patterns))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

type injection = func(r *rand.Rand, files map[string][]byte) string

func either(list ...injection) injection {
	return func(r *rand.Rand, files map[string][]byte) string { return list[r.IntN(len(list))](r, files) }
}

func flipAt(r *rand.Rand, files map[string][]byte, name string, at int) string {
	content, bit := slices.Clone(files[name]), r.IntN(8)
	content[at] ^= 1 << bit
	files[name] = content
	return fmt.Sprintf("bit %d of byte %d of %s", bit, at, name)
}

func flip(patterns ...string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, patterns...)
		return flipAt(r, files, name, r.IntN(len(files[name])))
	}
}

// records returns the offsets of the records of a block.
func records(block []byte) []int {
	var list []int
	for at := 0; at < len(block); at += int(binary.LittleEndian.Uint32(block[at:]) &^ (1 << 31)) {
		list = append(list, at)
	}
	return list
}

func flipHeader(pattern string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, pattern)
		list := records(files[name])
		at := list[r.IntN(len(list))]
		// The first 22 bytes hold the lengths of the record and of the subject, the position
		// and the time. After the subject, 4 bytes hold the length of the headers.
		offset := r.IntN(22 + 4)
		if offset >= 22 {
			offset += int(binary.LittleEndian.Uint16(files[name][at+20:]))
		}
		return flipAt(r, files, name, at+offset)
	}
}

func flipTail(pattern string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		list := match(files, pattern)
		name := list[len(list)-1]
		return flipAt(r, files, name, len(files[name])-1-r.IntN(min(2000, len(files[name]))))
	}
}

func truncate(patterns ...string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, patterns...)
		n := r.IntN(len(files[name]))
		files[name] = files[name][:n]
		return fmt.Sprintf("%s cut to %d bytes", name, n)
	}
}

func cutAtRecord(pattern string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		list := match(files, pattern)
		name := list[len(list)-1]
		begins := records(files[name])
		n := begins[r.IntN(len(begins))]
		files[name] = files[name][:n]
		return fmt.Sprintf("%s cut to %d bytes", name, n)
	}
}

func remove(patterns ...string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, patterns...)
		delete(files, name)
		return name + " removed"
	}
}

func removeAll(pattern string) injection {
	return func(_ *rand.Rand, files map[string][]byte) string {
		for _, name := range match(files, pattern) {
			delete(files, name)
		}
		return pattern + " removed"
	}
}

func removeBelow(dir string) injection {
	return func(_ *rand.Rand, files map[string][]byte) string {
		for name := range files {
			if strings.HasPrefix(name, dir) {
				delete(files, name)
			}
		}
		return dir + " removed"
	}
}

// removeVolume removes the stream of the volume that choose returns of all that have a stream, in order.
func removeVolume(choose func(list []string) string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		list := match(files, ledgerFiles+"meta.inf")
		return removeBelow(path.Dir(choose(list))+"/")(r, files)
	}
}

func swap(a, b string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		one := pick(r, files, a)
		others := slices.DeleteFunc(match(files, b), func(name string) bool { return name == one })
		other := others[r.IntN(len(others))]
		files[one], files[other] = files[other], files[one]
		return one + " and " + other + " swapped"
	}
}

func zero(pattern string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, pattern)
		content := slices.Clone(files[name])
		at := r.IntN(max(1, len(content)/4096)) * 4096
		clear(content[at:min(len(content), at+4096)])
		files[name] = content
		return fmt.Sprintf("4 KiB of zeros at byte %d of %s", at, name)
	}
}

func garbage(pattern string) injection {
	return func(r *rand.Rand, files map[string][]byte) string {
		name := pick(r, files, pattern)
		content := slices.Clone(files[name])
		n := 1 + r.IntN(5000)
		for range n {
			content = append(content, byte(r.Uint32()))
		}
		files[name] = content
		return fmt.Sprintf("%d random bytes behind %s", n, name)
	}
}
