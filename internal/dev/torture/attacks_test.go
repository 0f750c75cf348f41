package torture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/proof"
)

var tableOfAttacks = verdicts.Table{Test: "TestAttacks", Command: "make torture-proofs"}

// place is a data directory and the place of its key, which an attack has changed.
type place struct {
	y         *sound
	dir, keys string
}

// newPlace writes files into new directories.
func (y *sound) newPlace(t *testing.T, files, keyFiles map[string][]byte) *place {
	t.Helper()
	p := &place{y, filepath.Join(t.TempDir(), "data"), t.TempDir()}
	if err := writeFiles(p.dir, files); err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(p.keys, keyFiles); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) options() embed.Options {
	return proofOptions(p.dir, filepath.Join(p.keys, "key"))
}

// files returns the files of the data directory and of the key.
func (p *place) files(t *testing.T) (data, keys map[string][]byte) {
	t.Helper()
	data = readFiles(t, p.dir)
	delete(data, "ballast")
	return data, readFiles(t, p.keys)
}

// run starts the real server, makes it do one run, and stops it.
func (p *place) run(t *testing.T, code string) *place {
	t.Helper()
	book := startWith(t, p.options())
	runOnce(t.Context(), t, book, embed.Script{Code: code})
	closeOrFail(t, book)
	return p
}

// The outcomes of a start.
const (
	readOnly  = "read-only"
	continues = "continues"
	isRefused = "refused"
)

// start starts the real server and waits until it reports damage, or until it has signed every event and
// accepted a run. If want is readOnly, it only waits for damage. A read-only server signs nothing and
// accepts no run.
func (p *place) start(t *testing.T, want string) string {
	t.Helper()
	signed := filepath.Join(p.keys, "key.signed")
	before, _ := os.ReadFile(signed)
	book, err := embed.Start(t.Context(), p.options())
	if err != nil {
		if !isListed(err) {
			t.Errorf("the start failed with %v", err)
		}
		return isRefused
	}
	defer book.Close()
	isSigned := false
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(10 * time.Millisecond) { // polling
		if book.Ready(t.Context()) != nil {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/exec", strings.NewReader(`{"code":"1"}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if book.Handler().ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
				t.Errorf("a damaged ledger answers a run with %d: %s", w.Code, w.Body)
			}
			if list, _ := book.Damage(); len(list) > 0 {
				t.Logf("the damage: %v", list[0])
			} else {
				t.Errorf("the server is not ready and lists no damage: %v", book.Ready(t.Context()))
			}
			closeOrFail(t, book)
			// A missing signed file is made again from the newest checkpoint that was signed before.
			if after, _ := os.ReadFile(signed); !bytes.Equal(before, after) && (before != nil || !bytes.Contains(p.y.files["audit/checkpoints"], after)) {
				t.Errorf("the read-only server signed\n%s", after)
			}
			return readOnly
		}
		status, body := ask(book, "/api/ledger/checkpoint")
		c, err := proof.ParseCheckpoint([]byte(body))
		if status != http.StatusOK || err != nil || want == readOnly {
			continue
		}
		if list, err := readEvents(book); err == nil && c.Size >= uint64(len(list)) {
			isSigned = true
			break
		}
	}
	if !isSigned {
		t.Error("the server reports no damage and does not sign all events")
	}
	if _, err := book.Submit(t.Context(), embed.Script{Code: "1"}); err != nil {
		t.Errorf("a server without damage refuses a run: %v", err)
	}
	closeOrFail(t, book)
	return continues
}

// accept starts the real server with AcceptDamage, makes it do one run, and starts it again. It returns the
// verdict with the genuine key, and that with the newest key too. If the key changed, the first MUST NOT
// be INTACT, and the second one MUST report that an origin ended.
func (p *place) accept(t *testing.T) string {
	t.Helper()
	accepting := p.options()
	accepting.Storage.AcceptDamage = true
	signed := p.signedNotes(t)
	book, err := embed.Start(t.Context(), accepting)
	if err != nil {
		if !isListed(err) {
			t.Errorf("the start with AcceptDamage failed with %v", err)
		}
		return isRefused
	}
	runOnce(t.Context(), t, book, embed.Script{Code: "'after the damage'"})
	next := book.AuditKey()
	closeOrFail(t, book)
	p.run(t, "'without the permission'")
	if next != p.y.key {
		for n := range p.signedNotes(t) {
			if !signed[n] {
				t.Errorf("after the damage was accepted, the key of the origin that ended signed\n%s", n)
			}
		}
	}
	data, _ := p.files(t)
	dir := t.TempDir()
	if err := writeFiles(dir, data); err != nil {
		t.Fatal(err)
	}
	verify := func(keys ...string) *audit.Report {
		r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: dir, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	both := verify(p.y.key, next)
	if next == p.y.key {
		if both.Verdict != audit.Intact {
			t.Errorf("after the damage was accepted:\n%s", both)
		}
		return verdicts.Words(both.Verdict)
	}
	old := verify(p.y.key)
	if old.Verdict == audit.Intact || len(old.Origins) != 1 || old.Origins[0].Trusted {
		t.Errorf("after the damage was accepted, with the key of the origin that ended:\n%s", old)
	}
	if both.Verdict != audit.Intact || len(both.Origins) != 1 || !both.Origins[0].Trusted || both.Origins[0].Ended != p.y.signer.Name() {
		t.Errorf("after the damage was accepted, with both keys:\n%s", both)
	}
	return verdicts.Words(old.Verdict) + ", then " + verdicts.Words(both.Verdict)
}

// thenIntact ends an outcome of accept: the verdict with the new key too.
const thenIntact = ", then " + isIntact

// signedNotes returns the checkpoints of the genuine key in the files.
func (p *place) signedNotes(t *testing.T) map[string]bool {
	t.Helper()
	notes := map[string]bool{}
	data, keys := p.files(t)
	maps.Copy(data, keys)
	for name, raw := range data {
		if base := filepath.Base(name); base != "checkpoints" && !strings.HasPrefix(base, "key.signed") {
			continue
		}
		for _, n := range notesOf(append(slices.Clone(raw), '\n')) {
			if _, err := proof.OpenCheckpoint(n, p.y.key); err == nil {
				notes[string(n)] = true
			}
		}
	}
	return notes
}

// attack is an attack on the proof by a person who can write the data directory, or the files of the key.
type attack struct {
	name string
	// prepare makes the place after the attack. kept is the newest checkpoint that an auditor kept
	// before it.
	prepare func(t *testing.T, y *sound) (p *place, kept proof.Checkpoint)
	// key is the verdict with the genuine key, and memory that with the kept checkpoint too. start is the
	// outcome of a start with the genuine key, and after the verdict after it, with the kept checkpoint.
	// exported is the outcome of export, and accepted that of accept; "" if the start continues.
	key, memory, exported, start, after, accepted string
}

// earlier returns a checkpoint before which and after which many events are.
func (y *sound) earlier(t *testing.T) proof.Checkpoint {
	t.Helper()
	for _, raw := range notesOf(y.files["audit/checkpoints"]) {
		if c, err := proof.ParseCheckpoint(raw); err == nil && c.Size > 20 && c.Size+100 < y.newest.Size {
			return c
		}
	}
	t.Fatal("there is no checkpoint in the middle")
	return proof.Checkpoint{}
}

// edited returns the place after an edit of an event after a position, and what follows it.
func (y *sound) edited(t *testing.T, after uint64, then func(files map[string][]byte) error) *place {
	t.Helper()
	files := maps.Clone(y.files)
	random := rand.New(rand.NewPCG(1, after))
	rewrite(random, files, func(m *message) bool { return m.seq > after && changeSource(random)(m) })
	if err := then(files); err != nil {
		t.Fatal(err)
	}
	return y.newPlace(t, files, y.keyFiles)
}

// foreign returns a copy of a message, as the event of another run at another position.
func foreign(m message, seq uint64) message {
	id := fmt.Appendf(nil, "01a20af7-0000-7000-8000-%012x", seq)
	event := regexp.MustCompile(`ce-id: *([0-9a-f-]{36})`).FindSubmatch(m.header)[1]
	replace := func(raw []byte, old, new []byte) []byte { return bytes.ReplaceAll(raw, old, new) }
	m.seq = seq
	m.header = replace(m.header, event, fmt.Appendf(nil, "01a20af7-0000-7000-9000-%012x", seq))
	for part := range bytes.SplitSeq(m.subject, []byte(".")) {
		if len(part) == len(id) {
			m.subject, m.header, m.body = replace(m.subject, part, id), replace(m.header, part, id), replace(m.body, part, id)
		}
	}
	return m
}

// appendForeign appends requests of runs without the server, and with checkpoint set a checkpoint of
// them that the key of the forger signs.
func (y *sound) appendForeign(t *testing.T, checkpoint bool) map[string][]byte {
	t.Helper()
	files := maps.Clone(y.files)
	all := ledgerIn(files)
	request := all[slices.IndexFunc(all, func(m message) bool { return bytes.Contains(m.body, []byte(`"source"`)) })]
	volume := ".0002."
	request.subject = bytes.Replace(request.subject, []byte(".0001."), []byte(volume), 1)
	last := y.newest.Size
	for range 3 {
		last++
		all = append(all, foreign(request, last))
	}
	if checkpoint {
		leaves, err := leavesOf(all)
		if err != nil {
			t.Fatal(err)
		}
		_, root, err := allTiles(leaves)
		if err != nil {
			t.Fatal(err)
		}
		c, err := proof.Checkpoint{Origin: y.newest.Origin, Size: last, Root: root}.Sign(y.forger.Signer)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(m message) bool {
			return eventproof.IsCheckpoint(m.stored()) && bytes.Contains(m.subject, []byte(volume))
		})
		m := foreign(all[at], last+1)
		var d events.LedgerCheckpointed
		if err := json.Unmarshal(m.body, &d); err != nil {
			t.Fatal(err)
		}
		d.Size, d.RootHash, d.Note = c.Size, proof.EncodeHash(c.Root), string(c.Note)
		if m.body, err = json.Marshal(d); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
		files["audit/checkpoints"] = append(slices.Clone(files["audit/checkpoints"]), append(c.Note, '\n')...)
	}
	editBlock(files, func(list []message) []message { return append(list, all[y.newest.Size:]...) })
	return files
}

// withoutSigning makes a server without proofs accept the loss of everything after y, on the data directory
// of y.later. Then it puts the genuine proofs back. With forget set, that server knows no hashes of the
// lost events.
func (y *sound) withoutSigning(t *testing.T, forget bool) *place {
	t.Helper()
	files := maps.Clone(y.later.files)
	removeBelow("jetstream/")(nil, files)
	for name, raw := range y.files {
		if strings.HasPrefix(name, "jetstream/") {
			files[name] = raw
		}
	}
	if forget {
		removeBelow("audit/")(nil, files)
	}
	p := y.newPlace(t, files, nil)
	opts := p.options()
	opts.Proof = embed.ProofOptions{Off: true}
	opts.Storage.AcceptDamage = true
	book := startWith(t, opts)
	runOnce(t.Context(), t, book, embed.Script{Code: "'forged'"})
	closeOrFail(t, book)
	data, _ := p.files(t)
	removeBelow("audit/")(nil, data)
	for name, raw := range y.later.files {
		if strings.HasPrefix(name, "audit/") {
			data[name] = raw
		}
	}
	return y.newPlace(t, data, y.later.keyFiles)
}

// withoutBelow returns the place without the files below a directory.
func (y *sound) withoutBelow(t *testing.T, dir string, keys map[string][]byte) (*place, proof.Checkpoint) {
	t.Helper()
	files := maps.Clone(y.files)
	removeBelow(dir)(nil, files)
	return y.newPlace(t, files, keys), y.newest
}

// cutTail cuts off the events after the newest checkpoint but one of the newest volume, with everything in the
// data directory that depends on them.
func (y *sound) cutTail(t *testing.T) *place {
	t.Helper()
	files := maps.Clone(y.files)
	var stay [][]byte
	size := uint64(0)
	for _, raw := range notesOf(files["audit/checkpoints"]) {
		c, err := proof.ParseCheckpoint(raw)
		if err != nil {
			t.Fatal(err)
		}
		if c.Size < y.newest.Size {
			stay, size = append(stay, raw), max(size, c.Size)
		}
	}
	left := 0
	editBlock(files, func(list []message) []message {
		list = slices.DeleteFunc(list, func(m message) bool { return m.seq > size && m.seq < deletedBits })
		left = len(list)
		return list
	})
	if left == 0 || len(ledgerIn(files)) != int(size) {
		t.Fatalf("%d events stay before %d, %d of them in the newest block", len(ledgerIn(files)), size, left)
	}
	files["audit/checkpoints"] = joinNotes(stay)
	lines := strings.Split(string(files["audit/durable"]), "\n")
	lines[1] = fmt.Sprint(size)
	files["audit/durable"] = []byte(strings.Join(lines, "\n"))
	if err := retile(files); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return strings.HasPrefix(name, "mark") || strings.HasPrefix(name, "projections.db") || filepath.Base(name) == "index.db"
	})
	return y.newPlace(t, files, y.keyFiles)
}

// without returns files without some.
func without(files map[string][]byte, names ...string) map[string][]byte {
	files = maps.Clone(files)
	for _, name := range names {
		delete(files, name)
	}
	return files
}

var attacks = []attack{
	{
		name: "forged tail: events after a kept checkpoint are changed, and signed with another key",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			kept := y.earlier(t)
			return y.edited(t, kept.Size+1, func(files map[string][]byte) error { return y.forge(files, kept.Size, kept.Size+1) }), kept
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isRefused, start: readOnly, after: isIntactUpTo, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "foreign tail: events follow that no key signed, as after a crash",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.appendForeign(t, false), y.keyFiles), y.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "foreign tail: events follow that another key signed",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.appendForeign(t, true), y.keyFiles), y.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isRefused, start: readOnly, after: isIntactUpTo, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "rollback: an earlier genuine state of the data directory, the key and its signed file are elsewhere",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.files, y.later.keyFiles), y.later.newest
		},
		key: isIntact, memory: isRolledBack, exported: isRefused, start: readOnly, after: isRolledBack, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "cut tail: the newest events are cut off, with their tiles, checkpoints and marks",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.cutTail(t), y.newest
		},
		key: isIntact, memory: isRolledBack, exported: isRefused, start: readOnly, after: isRolledBack, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "restored copy: an earlier genuine state of everything, also of the signed file",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.files, y.keyFiles), y.later.newest
		},
		key: isIntact, memory: isRolledBack, exported: isRolledBack, start: continues, after: isRolledBack,
	},
	{
		name: "restored copy of everything that has grown longer than before",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			p := y.newPlace(t, y.files, y.keyFiles)
			for range 3 {
				p.run(t, "'another history'")
			}
			return p, y.later.newest
		},
		key: isIntact, memory: isForked, exported: isForked, start: continues, after: isForked,
	},
	{
		name: "deleted key",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.files, without(y.keyFiles, "key")), y.newest
		},
		key: isIntact, memory: isIntact, exported: isRefused, start: readOnly, after: isIntact, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "deleted key and signed file",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.newPlace(t, y.files, nil), y.newest
		},
		key: isIntact, memory: isIntact, exported: isRefused, start: readOnly, after: isIntact, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "deleted audit directory",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.withoutBelow(t, "audit/", y.keyFiles)
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "deleted audit directory, key and signed file",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.withoutBelow(t, "audit/", nil)
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isRefused, start: readOnly, after: isIntactUpTo, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "replaced key: another key of the same name is where the key was",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			keys := maps.Clone(y.keyFiles)
			keys["key"] = []byte(y.forger.Private + "\n")
			return y.newPlace(t, y.files, keys), y.newest
		},
		key: isIntact, memory: isIntact, exported: isRefused, start: readOnly, after: isIntact, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "replaced key: all events are signed with another key",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.edited(t, 0, func(files map[string][]byte) error { return y.forge(files, 0, 0) }), y.newest
		},
		key: isWrongKey, memory: isNotIntact, exported: isRefused, start: readOnly, after: isNotIntact, accepted: isWrongKey + thenIntact,
	},
	{
		name: "replaced key: a server without it accepts the damage, continues, and the genuine key is put back",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			p := y.newPlace(t, y.files, nil)
			opts := p.options()
			opts.Storage.AcceptDamage = true
			book := startWith(t, opts)
			runOnce(t.Context(), t, book, embed.Script{Code: "'forged'"})
			closeOrFail(t, book)
			data, _ := p.files(t)
			return y.newPlace(t, data, y.keyFiles), y.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isRefused, start: isRefused, after: isIntactUpTo, accepted: isRefused,
	},
	{
		name: "deleted tiles",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.withoutBelow(t, "audit/tile/", y.keyFiles)
		},
		key: isNotIntact, memory: isNotIntact, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "cut checkpoints",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			files := maps.Clone(y.files)
			files["audit/checkpoints"] = joinNotes(notesOf(files["audit/checkpoints"])[:2])
			return y.newPlace(t, files, y.keyFiles), y.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "a full file of checkpoints is missing",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			files := maps.Clone(y.files)
			delete(files, splitCheckpoints(files))
			return y.newPlace(t, files, y.keyFiles), y.newest
		},
		key: isIntact, memory: isIntact, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "the newest file of checkpoints is missing, and a full one stays",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			files := maps.Clone(y.files)
			splitCheckpoints(files)
			return y.newPlace(t, without(files, "audit/checkpoints"), y.keyFiles), y.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isIntact, start: continues, after: isIntact,
	},
	{
		name: "an event is changed together with its tile",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.edited(t, 0, retileLeaf), y.newest
		},
		key: isNotIntact, memory: isNotIntact, exported: isRefused, start: readOnly, after: isNotIntact, accepted: isNotIntact + thenIntact,
	},
	{
		name: "an event is changed together with its tile and all parents",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.edited(t, 0, retile), y.newest
		},
		key: isNotIntact, memory: isNotIntact, exported: isRefused, start: readOnly, after: isNotIntact, accepted: isNotIntact + thenIntact,
	},
	{
		name: "an event is changed, and the genuine key signs all again in `audit` and in the events",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			p := y.edited(t, 0, func(files map[string][]byte) error { return resign(files, y.signer, 0, 0) })
			return p, y.newest
		},
		key: isIntact, memory: isForked, exported: isRefused, start: readOnly, after: isForked, accepted: isIntactUpTo + thenIntact,
	},
	{
		name: "forged opening: a server without proofs accepts the loss of the newest events, then the proofs are put back",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.withoutSigning(t, false), y.later.newest
		},
		key: isIntactUpTo, memory: isIntactUpTo, exported: isRefused, start: readOnly, after: isIntactUpTo, accepted: isIntact,
	},
	{
		name: "forged opening: the same, and that server did not have the hashes of the lost events",
		prepare: func(t *testing.T, y *sound) (*place, proof.Checkpoint) {
			return y.withoutSigning(t, true), y.later.newest
		},
		key: isNotIntact, memory: isNotIntact, exported: isRefused, start: readOnly, after: isNotIntact, accepted: isNotIntact + thenIntact,
	},
}

// Each attack on a sound ledger, whose key is outside of the data directory, has its verdict with the
// genuine key, with a kept checkpoint, after a start of the real server, and from both verifiers of an
// export.
func TestAttacks(t *testing.T) {
	t.Parallel()
	y := ledgerToAttack(t, true)
	y.continueHistory(t)
	rows := make([]string, len(attacks))
	thorough := tier.Nightly() || *proofTables // exports, and what follows after damage is accepted
	t.Run("each", func(t *testing.T) {
		for i, a := range attacks {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				p, kept := a.prepare(t, y)
				key := p.judge(t, a.key)
				memory := p.judge(t, a.memory, kept)
				exported, accepted := "", ""
				if thorough {
					if exported = p.export(t, kept); exported != a.exported {
						t.Errorf("the export: %s, want %s", exported, a.exported)
					}
				}
				start := p.start(t, a.start)
				if start != a.start {
					t.Errorf("the start: %s, want %s", start, a.start)
				}
				after := p.judge(t, a.after, kept)
				if thorough && start != continues {
					if accepted = p.accept(t); accepted != a.accepted {
						t.Errorf("after the damage was accepted: %s, want %s", accepted, a.accepted)
					}
				}
				rows[i] = a.row(key, memory, exported, start, after, accepted)
			})
		}
	})
	table := "| attack | with the key | with a kept checkpoint too | its export | a start | after the start | after `--accept-damage` |\n|---|---|---|---|---|---|---|\n" + strings.Join(rows, "\n")
	t.Log("\n" + table)
	if *proofTables && !t.Failed() {
		tableOfAttacks.Write(t, table)
	}
}

// The document has the table of a run without a failure.
func TestTableOfAttacks(t *testing.T) {
	t.Parallel()
	lines := strings.Split(tableOfAttacks.Read(t), "\n")
	if len(lines) != len(attacks)+2 {
		t.Fatalf("the table has %d lines for %d attacks; run make torture-proofs", len(lines), len(attacks))
	}
	for i, a := range attacks {
		if want := a.row(a.key, a.memory, a.exported, a.start, a.after, a.accepted); lines[i+2] != want {
			t.Errorf("the table has\n%s\nwant\n%s\nrun make torture-proofs", lines[i+2], want)
		}
	}
}

// row returns a row of the table.
func (a attack) row(outcomes ...string) string {
	return "| " + a.name + " | " + strings.Join(outcomes, " | ") + " |"
}

// An event that was changed together with its tile does not leave the ledger read-only: after the damage is
// accepted, the origin has ended, its key has signed nothing more, and the server records runs.
func TestAcceptedForgery(t *testing.T) {
	t.Parallel()
	y := ledgerToAttack(t, true)
	p := y.edited(t, 0, retileLeaf)
	if got := p.start(t, readOnly); got != readOnly {
		t.Errorf("the start: %s", got)
	}
	if got := p.accept(t); !strings.HasSuffix(got, thenIntact) {
		t.Errorf("after the damage was accepted: %s", got)
	}
}

// continueHistory fills y.later: the same ledger after two more runs.
func (y *sound) continueHistory(t *testing.T) {
	t.Helper()
	p := y.newPlace(t, y.files, y.keyFiles)
	p.run(t, "'later'").run(t, "'later still'")
	y.later = &sound{key: y.key, signer: y.signer, forger: y.forger}
	y.later.files, y.later.keyFiles = p.files(t)
	y.later.read(t)
}

// judge requires a verdict on a copy of a place, and returns the verdict.
func (p *place) judge(t *testing.T, want string, kept ...proof.Checkpoint) string {
	t.Helper()
	data, _ := p.files(t)
	dir := t.TempDir()
	if err := writeFiles(dir, data); err != nil {
		t.Fatal(err)
	}
	got, report := p.y.words(t, dir, kept...)
	if got != want {
		t.Errorf("with %d kept checkpoints the verdict is %s, want %s:\n%s", len(kept), got, want, report)
	}
	return got
}

// export exports a copy of a place, and returns the verdict on it with a kept checkpoint, on which both
// verifiers MUST agree. A damaged ledger cannot be exported.
func (p *place) export(t *testing.T, kept proof.Checkpoint) string {
	t.Helper()
	data, keys := p.files(t)
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "export")
	for name, raw := range keys {
		data["audit/"+name] = raw
	}
	if err := writeFiles(dir, data); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // without its proofs, a ledger is never exported
	defer stop()
	if _, err := embed.Export(ctx, embed.ExportOptions{DataDir: dir, Dir: out, Blobs: true}); err != nil {
		t.Logf("the export is refused: %v", err)
		if ctx.Err() != nil || !errors.Is(err, events.ErrDamaged) && !isListed(err) {
			t.Errorf("the export failed with %v", err)
		}
		return isRefused
	}
	got, line := p.y.judgeExport(t, out, kept)
	t.Logf("the export: %s", line)
	return got
}

// judgeExport returns the verdict of both verifiers on an export.
func (y *sound) judgeExport(t *testing.T, dir string, kept proof.Checkpoint) (verdict, line string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(file, kept.Note, 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := audit.VerifyExport(t.Context(), dir, audit.VerifyOptions{Keys: []string{y.key}, Known: []proof.Checkpoint{kept}})
	if err != nil {
		t.Fatal(err)
	}
	verdict = verdicts.Words(report.Verdict)
	other, line, err := verdicts.StartPython(t, "--key", y.key, "--checkpoint", file).Verdict(dir)
	if err != nil || other != verdict {
		t.Errorf("package audit says %s, verify.py %s (%v):\n%s\n%s", verdict, other, err, report, line)
	}
	return verdict, line
}

// Two auditors, each with a memory, verify two continuations of one copy that the genuine key signed.
// Each finds its own history intact. As soon as one of them sees the other history, it is FORKED, or ROLLED BACK
// if it has fewer events, in the data directory and in an export.
func TestTwoHistories(t *testing.T) {
	t.Parallel()
	y := ledgerToAttack(t, true)
	histories := []*place{y.newPlace(t, y.files, y.keyFiles).run(t, "'left'"), y.newPlace(t, y.files, y.keyFiles).run(t, "'right'")}
	memories := []string{filepath.Join(t.TempDir(), "seen"), filepath.Join(t.TempDir(), "seen")}
	verify := func(history, auditor int) *audit.Report {
		t.Helper()
		r, err := embed.Verify(t.Context(), embed.VerifyOptions{DataDir: histories[history].dir, Keys: []string{y.key}, Memory: memories[auditor]})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var own [2]*audit.Report
	for i := range histories {
		for range 2 {
			if own[i] = verify(i, i); own[i].Verdict != audit.Intact {
				t.Errorf("auditor %d on its own history:\n%s", i, own[i])
			}
		}
	}
	for i := range histories {
		want := audit.Forked
		if own[1-i].Last < own[i].Signed {
			want = audit.RolledBack
		}
		if r := verify(1-i, i); r.Verdict != want {
			t.Errorf("auditor %d on the other history, want %s:\n%s", i, want, r)
		}
		if r := verify(i, i); r.Verdict != audit.Intact {
			t.Errorf("auditor %d on its own history again:\n%s", i, r)
		}
		c, err := proof.ParseCheckpoint([]byte(verify(i, i).Checkpoint))
		if err != nil {
			t.Fatal(err)
		}
		if got := histories[1-i].export(t, c); got != verdicts.Words(want) {
			t.Errorf("the export of the other history: %s, want %s", got, want)
		}
		if got := histories[i].export(t, c); got != isIntact {
			t.Errorf("the export of its own history: %s", got)
		}
	}
}
