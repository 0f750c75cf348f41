package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

const (
	firstOrigin  = "example.org/ledger"
	secondOrigin = "example.org/ledger/2"
)

// handmade is a ledger of up to 255 events that the holder of its keys writes as they like. It implements
// audit.Archive, audit.Stream and audit.Proofs.
type handmade struct {
	t        *testing.T
	messages []events.Stored
	tree     *proof.Tree
	signers  *proof.Signers
	vkeys    []string
	newest   proof.Checkpoint
	lost     events.Lost // what it reports
	removed  events.Removal
	ahead    time.Duration // by which the times of new events are in the future
}

func newHandmade(t *testing.T) *handmade {
	return &handmade{t: t, tree: proof.NewTree(verdicts.NoTiles{}), signers: &proof.Signers{}}
}

func (h *handmade) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *handmade) last() uint64 { return h.tree.Size() }

func (h *handmade) root(size uint64) proof.Hash {
	h.t.Helper()
	root, err := h.tree.RootAt(size)
	h.must(err)
	return root
}

// add records an event of the ledger, and returns its position.
func (h *handmade) add(d events.Data) uint64 {
	h.t.Helper()
	return h.addOf(events.LedgerTenant, d)
}

func (h *handmade) addOf(tenant string, d events.Data) uint64 {
	h.t.Helper()
	raw, err := events.Encode(events.New(tenant, time.Now().Add(h.ahead), d))
	h.must(err)
	m := events.Stored{Seq: h.last() + 1, Subject: stream.StoredSubject(1, raw.Subject), Header: raw.Header, Body: raw.Body}
	leaf, err := proof.LeafHash(eventproof.RecordOf(m))
	h.must(err)
	h.must(h.tree.Add(leaf))
	h.messages = append(h.messages, m)
	return m.Seq
}

// request records requests of a tenant, and returns the position of the last one.
func (h *handmade) request(tenant string, n int) uint64 {
	h.t.Helper()
	for range n {
		h.addOf(tenant, &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool})
	}
	return h.last()
}

// leaveOut leaves positions without an event, and records that after them in an opening that change changes.
func (h *handmade) leaveOut(n uint64, change func(d *events.LedgerVolumeOpened)) {
	h.t.Helper()
	from := h.last() + 1
	for range n {
		h.must(h.tree.Add(proof.HoleHash(h.last() + 1)))
	}
	d := &events.LedgerVolumeOpened{
		Volume: 2, First: h.last() + 1, Predecessor: events.Predecessor{Volume: 1}, Reason: events.VolumeDamaged,
		Hole: &events.Hole{From: from, To: h.last()}, Lost: events.Lost{{From: from, To: h.last(), NamedAt: h.last() + 1}},
	}
	if change != nil {
		change(d)
	}
	h.add(d)
}

// state signs a statement that continues the list, and records it. change changes it before.
func (h *handmade) state(signer note.Signer, action proof.Action, vkey string, change func(st *proof.Statement)) {
	h.t.Helper()
	st := h.signers.Next(action, vkey, h.last())
	if change != nil {
		change(&st)
	}
	st, err := st.Sign(signer)
	h.must(err)
	_, err = h.signers.Add(st.Note)
	h.must(err)
	if action == proof.StartOrigin || action == proof.IntroduceSigner {
		h.vkeys = append(h.vkeys, vkey)
	}
	h.add(eventOf(st))
}

// start starts the first origin with a new key.
func (h *handmade) start() (note.Signer, string) {
	h.t.Helper()
	signer, vkey := translogtest.NewSigner(h.t, firstOrigin)
	h.state(signer, proof.StartOrigin, vkey, func(st *proof.Statement) { st.Origin, st.Size = firstOrigin, 0 })
	return signer, vkey
}

// succeed starts the second origin with a new key. It confirms the first events.
func (h *handmade) succeed(size uint64) (note.Signer, string) {
	h.t.Helper()
	signer, vkey := translogtest.NewSigner(h.t, secondOrigin)
	h.state(signer, proof.StartOrigin, vkey, func(st *proof.Statement) {
		st.Origin, st.Predecessor, st.Size, st.Root = secondOrigin, firstOrigin, size, h.root(size)
	})
	return signer, vkey
}

// sign signs a checkpoint.
func (h *handmade) sign(signer note.Signer, size uint64) proof.Checkpoint {
	h.t.Helper()
	c, err := proof.Checkpoint{Origin: signer.Name(), Size: size, Root: h.root(size)}.Sign(signer)
	h.must(err)
	return c
}

// contradict signs a checkpoint with a wrong tree hash.
func (h *handmade) contradict(signer note.Signer, size uint64) proof.Checkpoint {
	h.t.Helper()
	c, err := proof.Checkpoint{Origin: signer.Name(), Size: size, Root: proof.Hash{1}}.Sign(signer)
	h.must(err)
	return c
}

// record records a checkpoint.
func (h *handmade) record(c proof.Checkpoint) {
	h.t.Helper()
	h.add(&events.LedgerCheckpointed{LedgerID: "l", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note)})
}

// finish signs all events.
func (h *handmade) finish(signer note.Signer) proof.Checkpoint {
	h.t.Helper()
	h.newest = h.sign(signer, h.last())
	return h.newest
}

func (h *handmade) ReadRaw(_ context.Context, after uint64, limit int) ([]events.Stored, error) {
	i := slices.IndexFunc(h.messages, func(m events.Stored) bool { return m.Seq > after })
	if i < 0 {
		return nil, nil
	}
	return h.messages[i:min(len(h.messages), i+limit)], nil
}
func (h *handmade) LastSeq(context.Context) (uint64, error) { return h.last(), nil }
func (h *handmade) FollowRaw(_ context.Context, _ uint64, fn func([]events.Stored, uint64) error) error {
	return fn(h.messages, h.last())
}

func (h *handmade) EachMatching(_ context.Context, pattern string, fn func(events.Event) error) error {
	for _, m := range h.messages {
		if subject, _ := events.WithoutVolume(m.Subject); subject == pattern {
			e, err := events.Decode(m.Seq, m.Message())
			if err == nil {
				err = fn(e)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// VKeys returns the keys of the origin of the newest checkpoint.
func (h *handmade) VKeys() []string {
	return slices.DeleteFunc(slices.Clone(h.vkeys), func(key string) bool { return !strings.HasPrefix(key, h.newest.Origin+"+") })
}
func (h *handmade) Signers() *proof.Signers          { return h.signers.Clone() }
func (h *handmade) Lost() events.Lost                { return h.lost }
func (h *handmade) Removed() events.Removal          { return h.removed }
func (h *handmade) Latest() (proof.Checkpoint, bool) { return h.newest, true }

func (h *handmade) Checkpoint(context.Context, uint64) (proof.Checkpoint, error) {
	return h.newest, nil
}

func (h *handmade) CheckpointThrough(context.Context, uint64) (proof.Checkpoint, error) {
	return h.newest, nil
}
func (h *handmade) Prover(proof.Checkpoint) proof.Prover { return handProver{h.tree} }

// handProver proves from a tree.
type handProver struct{ tree *proof.Tree }

func (p handProver) Root(size uint64) (proof.Hash, error) { return p.tree.RootAt(size) }

func (p handProver) Inclusion(seq, size uint64) (proof.Inclusion, error) {
	hashes, err := tlog.ProveRecord(int64(size), int64(seq)-1, p.tree)
	if err != nil {
		return proof.Inclusion{}, err
	}
	leaf, err := p.Leaf(seq)
	return proof.Inclusion{Seq: seq, Size: size, Leaf: leaf, Hashes: hashes}, err
}

func (p handProver) Leaf(seq uint64) (proof.Hash, error) {
	leaf, err := p.tree.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(seq)-1)})
	if err != nil {
		return proof.Hash{}, err
	}
	return leaf[0], nil
}

func (p handProver) Consistency(from, to uint64) (proof.Consistency, error) {
	hashes, err := tlog.ProveTree(int64(to), int64(from), p.tree)
	if err != nil {
		return proof.Consistency{}, err
	}
	root, err := p.tree.RootAt(from)
	return proof.Consistency{From: from, To: to, FromRoot: root, Hashes: hashes}, err
}

func (h *handmade) local() audit.Local { return audit.Local{Log: h, Stream: h} }

// exports returns the directory of an export.
func (h *handmade) exports(s proof.ExportSelection) string {
	h.t.Helper()
	out := filepath.Join(h.t.TempDir(), "export")
	_, err := audit.Export(h.t.Context(), h.local(), audit.ExportOptions{Dir: out, Selection: s})
	h.must(err)
	return out
}

// dir returns an audit directory with the newest checkpoint and others.
func (h *handmade) dir(others ...proof.Checkpoint) translog.Dir {
	h.t.Helper()
	dir := h.t.TempDir()
	var notes []byte
	for _, c := range append(others, h.newest) {
		notes = append(append(notes, c.Note...), '\n')
	}
	h.must(os.WriteFile(filepath.Join(dir, "checkpoints"), notes, 0o644))
	h.must(os.WriteFile(filepath.Join(dir, "vkey"), []byte(strings.Join(h.vkeys, "\n")+"\n"), 0o644))
	h.must(os.WriteFile(filepath.Join(dir, "signers"), h.signers.Bytes(), 0o644))
	return translog.Dir(dir)
}

// verifyAll verifies the ledger at rest, as an export, as a part, behind a server and as a sample.
func (h *handmade) verifyAll(opts audit.VerifyOptions, others ...proof.Checkpoint) map[string]func() (*audit.Report, error) {
	h.t.Helper()
	opts.SkipBlobs = true
	ctx := h.t.Context()
	return map[string]func() (*audit.Report, error){
		"at rest": func() (*audit.Report, error) {
			o := opts
			o.Dir = h.dir(others...)
			return audit.Verify(ctx, h, nil, o)
		},
		"an export": func() (*audit.Report, error) {
			return audit.VerifyExport(ctx, h.exports(proof.ExportSelection{}), opts)
		},
		"a part": func() (*audit.Report, error) {
			return audit.VerifyExport(ctx, h.exports(proof.ExportSelection{From: 2}), opts)
		},
		"a server": func() (*audit.Report, error) {
			return audit.VerifyServer(ctx, audit.NewRemote((&liar{local: h.local()}).get, nil), opts)
		},
		"a sample": func() (*audit.Report, error) {
			return audit.Watch(ctx, audit.NewRemote((&liar{local: h.local()}).get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 200})
		},
	}
}

// expect requires a verdict of all verifications, and of verify.py on the exports.
func (h *handmade) expect(name string, want audit.Verdict, keys []string, others ...proof.Checkpoint) {
	h.t.Helper()
	for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: keys}, others...) {
		if r, err := verify(); err != nil || r.Verdict != want {
			h.t.Errorf("%s: %s: %v, want %s\n%s", name, of, err, want, r)
		}
	}
	h.expectPython(name, want, keys)
}

// expectPython requires a verdict of verify.py on exports, by default one of everything and one of a part.
func (h *handmade) expectPython(name string, want audit.Verdict, keys []string, selections ...proof.ExportSelection) {
	h.t.Helper()
	if selections == nil {
		selections = []proof.ExportSelection{{}, {From: 2}}
	}
	var args []string
	for _, k := range keys {
		args = append(args, "--key", k)
	}
	python := verdicts.StartPython(h.t, args...)
	for _, s := range selections {
		if got, line, err := python.Verdict(h.exports(s)); err != nil || got != verdicts.Words(want) {
			h.t.Errorf("%s: verify.py says %s about %+v, want %s: %s, %v", name, got, s, want, line, err)
		}
	}
}

// A checkpoint that a successor superseded covers nothing, also for a monitor and for a part without events.
func TestASupersededCheckpointCoversNothing(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.request(events.DefaultTenant, 3)
	_, secondKey := h.succeed(2)
	h.request(events.DefaultTenant, 2)
	c := h.finish(first)
	both := []string{firstKey, secondKey}
	for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: both}) {
		want := audit.IntactUpTo
		if of == "a part" { // the list under the checkpoint has no successor
			want = audit.NotIntact
		}
		if r, err := verify(); err != nil || r.Verdict != want {
			t.Errorf("%s: %v, want %s\n%s", of, err, want, r)
		}
	}
	h.expectPython("both keys", audit.IntactUpTo, both, proof.ExportSelection{})

	shown := &liar{local: h.local(), change: func(answer map[string]any) { answer["tenant"] = "x" }, lines: func([]byte) []byte { return nil }}
	r, err := audit.VerifyServer(t.Context(), audit.NewRemote(shown.get, nil), audit.VerifyOptions{Keys: both, Tenant: "x"})
	if err != nil || r.Verdict != audit.IntactUpTo || r.Unsigned != c.Size {
		t.Errorf("a part without events: %v\n%s", err, r)
	}
}

// The checkpoints of an ended origin that contradict the events are superseded also if only the key of the successor
// is given.
func TestTheKeyOfTheSuccessorIsEnough(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.request(events.DefaultTenant, 4)
	h.record(h.contradict(first, 4))
	second, secondKey := h.succeed(2)
	h.request(events.DefaultTenant, 2)
	h.finish(second)
	beside := []proof.Checkpoint{h.contradict(first, 5), h.contradict(first, 100)}
	for name, keys := range map[string][]string{"the second key": {secondKey}, "both keys": {firstKey, secondKey}} {
		h.expect(name, audit.Intact, keys, beside...)
	}
	for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: []string{firstKey}}, beside...) {
		if r, err := verify(); err != nil || r.Verdict == audit.Intact {
			t.Errorf("the first key: %s: %v\n%s", of, err, r)
		}
	}
	// What the successor confirms is compared.
	h.newest = proof.Checkpoint{}
	h.record(h.contradict(first, 2))
	h.finish(second)
	if r, err := h.verifyAll(audit.VerifyOptions{Keys: []string{secondKey}})["an export"](); err != nil || r.Verdict != audit.NotIntact {
		t.Errorf("a contradiction in the confirmed events: %v\n%s", err, r)
	}
}

// A second start of the first origin says nothing in a part either, that begins after the first one.
func TestASecondStartInAPart(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	otherSigner, otherKey := translogtest.NewSigner(t, "example.org/other")
	other := (&proof.Signers{}).Next(proof.StartOrigin, otherKey, 0)
	other.Origin = "example.org/other"
	other, err := other.Sign(otherSigner)
	h.must(err)
	h.add(eventOf(other))
	h.request(events.DefaultTenant, 2)
	h.finish(first)
	h.expect("without other statements", audit.Intact, []string{firstKey})
	_, secondKey := translogtest.NewSigner(t, firstOrigin)
	h.state(first, proof.IntroduceSigner, secondKey, nil)
	h.request(events.DefaultTenant, 2)
	h.finish(first)
	h.expect("with another statement", audit.Intact, []string{firstKey})
}

// A checkpoint does not count if a statement among its events retired its key at a smaller size, although the list
// of the source hides the statement.
func TestAHiddenRetirement(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	rootSigner, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	h.state(first, proof.AddRoot, root, nil)
	h.request(events.DefaultTenant, 2)
	shown := h.signers.Clone()
	h.state(rootSigner, proof.RetireSigner, firstKey, func(st *proof.Statement) { st.Size = 2 })
	h.request(events.DefaultTenant, 2)
	h.finish(first)
	h.signers = shown
	_, stranger := translogtest.NewSigner(t, firstOrigin)
	for name, key := range map[string]string{"the retired key": firstKey, "another key": stranger} {
		for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: []string{key}}) {
			want, findings := audit.WrongKey, 1
			if of == "an export" { // its list is not that of its events
				want, findings = audit.NotIntact, 2
			}
			if r, err := verify(); err != nil || r.Verdict != want || r.Found != findings || len(r.Findings) != findings {
				t.Errorf("%s: %s: %v, want %s\n%s", name, of, err, want, r)
			}
		}
		h.expectPython(name+", in an export", audit.NotIntact, []string{key}, proof.ExportSelection{})
		h.expectPython(name+", in a part", audit.WrongKey, []string{key}, proof.ExportSelection{From: 2})
	}
}

// A retirement at a smaller size than that of the checkpoint is in the list of an export also if it was recorded
// after the events of the export, with the statements before it.
func TestALaterRetirement(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	rootSigner, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	h.state(first, proof.AddRoot, root, nil)
	second, secondKey := translogtest.NewSigner(t, firstOrigin)
	h.state(rootSigner, proof.IntroduceSigner, secondKey, nil)
	h.request(events.DefaultTenant, 4)
	c := h.finish(second)
	_, thirdKey := translogtest.NewSigner(t, firstOrigin)
	h.state(rootSigner, proof.IntroduceSigner, thirdKey, nil)
	h.expectPython("before", audit.Intact, []string{secondKey}, proof.ExportSelection{})
	h.state(rootSigner, proof.RetireSigner, firstKey, func(st *proof.Statement) { st.Size = c.Size - 1 })
	if got := len(h.signers.Under(c)); got != len(h.signers.Bytes()) {
		t.Fatalf("%d bytes of the list come with the checkpoint", got)
	}
	r, err := audit.VerifyExport(t.Context(), h.exports(proof.ExportSelection{}), audit.VerifyOptions{Keys: []string{secondKey}})
	if err != nil || r.Verdict != audit.Intact {
		t.Errorf("%v\n%s", err, r)
	}
	h.expectPython("after", audit.Intact, []string{secondKey}, proof.ExportSelection{})
}

// A memory has checkpoints of a key that was retired since at a smaller size. They still count as kept: the
// retirement of a key changes no event.
func TestMemoryOfARetiredKey(t *testing.T) {
	t.Parallel()
	first, firstKey := translogtest.NewSigner(t, firstOrigin)
	second, secondKey := translogtest.NewSigner(t, firstOrigin)
	rootSigner, root := translogtest.NewSigner(t, proof.RootKeyPrefix+"x")
	newLedger := func() (*handmade, proof.Checkpoint) {
		h := newHandmade(t)
		h.state(first, proof.StartOrigin, firstKey, func(st *proof.Statement) { st.Origin, st.Size = firstOrigin, 0 })
		h.state(first, proof.AddRoot, root, nil)
		h.state(rootSigner, proof.IntroduceSigner, secondKey, nil)
		h.request(events.DefaultTenant, 5)
		return h, h.finish(first)
	}
	path := filepath.Join(t.TempDir(), "seen")
	verify := func(h *handmade, want audit.Verdict) {
		t.Helper()
		for of := range h.verifyAll(audit.VerifyOptions{}) {
			if of == "a part" { // it cannot be compared with smaller ones
				continue
			}
			m, err := audit.OpenMemory(path, []string{firstKey})
			h.must(err)
			opts := audit.VerifyOptions{Keys: m.Keys(), Known: m.Checkpoints(), Remembered: len(m.Checkpoints()), Signers: m.Signers()}
			r, err := h.verifyAll(opts)[of]()
			if err != nil || r.Verdict != want {
				t.Errorf("%s: %v, want %s\n%s", of, err, want, r)
				continue
			}
			h.must(m.Keep(r))
		}
	}
	h, c := newLedger()
	verify(h, audit.Intact)
	h.state(rootSigner, proof.RetireSigner, firstKey, func(st *proof.Statement) { st.Size = 4 })
	h.request(events.DefaultTenant, 2)
	h.finish(second)
	verify(h, audit.Intact)
	verify(h, audit.Intact) // the memory has the retirement now
	m, err := audit.OpenMemory(path, nil)
	h.must(err)
	if !slices.ContainsFunc(m.Checkpoints(), func(k proof.Checkpoint) bool { return k.Size == c.Size }) {
		t.Error("the checkpoint of the retired key is forgotten")
	}

	// A history that differs from the kept one after the retirement.
	path = filepath.Join(t.TempDir(), "other")
	m, err = audit.OpenMemory(path, []string{firstKey})
	h.must(err)
	forked, _ := newLedger()
	r, err := forked.verifyAll(audit.VerifyOptions{Keys: m.Keys()})["an export"]()
	h.must(err)
	h.must(m.Keep(r))
	m, err = audit.OpenMemory(path, nil)
	h.must(err)
	r, err = h.verifyAll(audit.VerifyOptions{Keys: m.Keys(), Known: m.Checkpoints(), Remembered: 1, Signers: &proof.Signers{}})["an export"]()
	if err != nil || r.Verdict != audit.Forked {
		t.Errorf("another history: %v\n%s", err, r)
	}
}

// Two lists of signers that contradict each other are two histories of the operator only if a trusted key signed
// the second one: anyone can start an origin.
func TestContradictoryListsOfSigners(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	older := h.signers.Clone()
	_, secondKey := translogtest.NewSigner(t, firstOrigin)
	h.state(first, proof.IntroduceSigner, secondKey, nil)
	h.request(events.DefaultTenant, 3)
	h.finish(first)
	kept := h.signers.Clone()
	stranger, strangerKey := translogtest.NewSigner(t, secondOrigin)
	_, thirdKey := translogtest.NewSigner(t, firstOrigin)
	for name, tt := range map[string]struct {
		signer note.Signer
		action proof.Action
		key    string
		keys   []string
		want   audit.Verdict
	}{
		"a stranger":                {stranger, proof.StartOrigin, strangerKey, []string{firstKey}, audit.NotIntact},
		"a stranger that was given": {stranger, proof.StartOrigin, strangerKey, []string{firstKey, strangerKey}, audit.Forked},
		"the trusted key":           {first, proof.IntroduceSigner, thirdKey, []string{firstKey}, audit.Forked},
	} {
		st := older.Next(tt.action, tt.key, 1)
		if tt.action == proof.StartOrigin {
			st.Origin, st.Predecessor, st.Root = secondOrigin, firstOrigin, h.root(1)
		}
		st, err := st.Sign(tt.signer)
		h.must(err)
		other := older.Clone()
		_, err = other.Add(st.Note)
		h.must(err)
		server := &liar{local: h.local(), change: func(answer map[string]any) { answer["signers"] = string(other.Bytes()) }}
		opts := audit.VerifyOptions{Keys: tt.keys, Signers: kept, SkipBlobs: true}
		r, err := audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), opts)
		if err != nil || r.Verdict != tt.want {
			t.Errorf("%s: a server: %v, want %s\n%s", name, err, tt.want, r)
		}
		if r, err = audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts}); err != nil || r.Verdict != tt.want {
			t.Errorf("%s: a sample: %v, want %s\n%s", name, err, tt.want, r)
		}
	}
}

// A loss that the source does not report is in the report, if the newest opening names it. Otherwise it is a finding.
func TestLossesThatTheSourceHides(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(d *events.LedgerVolumeOpened)
		want   audit.Verdict
	}{
		"named":              {nil, audit.Intact},
		"of an early build":  {func(d *events.LedgerVolumeOpened) { d.Lost = nil }, audit.Intact},
		"not named":          {func(d *events.LedgerVolumeOpened) { d.Lost = events.Lost{{From: 2, To: 2, NamedAt: d.First}} }, audit.NotIntact},
		"a list of nonsense": {func(d *events.LedgerVolumeOpened) { d.Lost = events.Lost{{From: 5, To: 2, NamedAt: 1}} }, audit.NotIntact},
	} {
		h := newHandmade(t)
		first, firstKey := h.start()
		h.request(events.DefaultTenant, 3)
		h.leaveOut(4, tt.change)
		h.request(events.DefaultTenant, 2)
		h.finish(first)
		for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: []string{firstKey}}) {
			if of == "a sample" {
				continue // it believes what the server reports as lost
			}
			r, err := verify()
			if err != nil || r.Verdict != tt.want {
				t.Errorf("%s: %s: %v, want %s\n%s", name, of, err, tt.want, r)
			} else if named := len(r.Lost) == 1 && r.Lost[0] == (audit.LostPositions{From: 5, To: 8, NamedBy: 9}); named != (tt.want == audit.Intact) {
				t.Errorf("%s: %s: %v are lost\n%s", name, of, r.Lost, r)
			}
		}
		h.expectPython(name, tt.want, []string{firstKey})
	}
}

// Both verifiers agree on recorded checkpoints over lost events whose hashes are unknown.
func TestRecordedCheckpointsOverLostEvents(t *testing.T) {
	t.Parallel()
	lose := func(h *handmade, position uint64) { // the event is there, which changes nothing for the checkpoints
		at := h.last() + 1
		h.add(&events.LedgerVolumeOpened{
			Volume: 2, First: at, Predecessor: events.Predecessor{Volume: 1}, Reason: events.VolumeDamaged, Lost: events.Lost{{From: position, To: position, NamedAt: at}},
		})
	}
	signer, vkey := translogtest.NewSigner(t, firstOrigin)
	start := func(h *handmade) {
		h.state(signer, proof.StartOrigin, vkey, func(st *proof.Statement) { st.Origin, st.Size = firstOrigin, 0 })
	}
	sign := func(h *handmade) { h.record(h.sign(signer, 2)) }
	for name, tt := range map[string]struct {
		steps []func(h *handmade)
		want  audit.Verdict
	}{
		"the origin started after the loss": {[]func(h *handmade){sign, func(h *handmade) { lose(h, 2) }, start}, audit.Intact},
		"before the loss":                   {[]func(h *handmade){start, sign, func(h *handmade) { lose(h, 2) }}, audit.NotIntact},
		"after the checkpoint":              {[]func(h *handmade){sign, start, func(h *handmade) { lose(h, 2) }}, audit.NotIntact},
		"with a wrong signature": {[]func(h *handmade){start, func(h *handmade) {
			c := h.sign(signer, 2)
			other := h.sign(signer, 1)
			text, _, _ := strings.Cut(string(c.Note), "\n\n")
			_, signature, _ := strings.Cut(string(other.Note), "\n\n")
			c.Note = []byte(text + "\n\n" + signature)
			h.record(c)
		}, func(h *handmade) { lose(h, 2) }}, audit.NotIntact},
	} {
		h := newHandmade(t)
		h.request(events.DefaultTenant, 2)
		for _, step := range tt.steps {
			step(h)
		}
		h.request(events.DefaultTenant, 2)
		if h.finish(signer); h.vkeys == nil {
			h.vkeys = []string{vkey}
		}
		r, err := h.verifyAll(audit.VerifyOptions{Keys: []string{vkey}})["an export"]()
		if err != nil || r.Verdict != tt.want {
			t.Errorf("%s: %v, want %s\n%s", name, err, tt.want, r)
		}
		h.expectPython(name, tt.want, []string{vkey}, proof.ExportSelection{})
	}
}

// A member that an event of its type does not have names no blob.
func TestUnknownMembersNameNoBlob(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	text := `{"text":"","blob":{"sha256":"` + strings.Repeat("0", 64) + `","bytes":1}}`
	id := events.NewID(time.Now())
	for _, e := range []struct {
		kind    events.Type
		members string
	}{
		{events.TypeExecutionRequested, `"callable":` + text + `,"content":{"plain":{"source":{"text":"1"},"result":` + text + `,"error":` + text + `}}`},
		{events.TypeExecutionStarted, `"attempt":1,"heap":{"sha256":"1"},"content":{"plain":{"result":` + text + `}}`},
		{events.TypeHostCalled, `"attempt":1,"number":1,"callable":` + text + `,"content":{"plain":{"result":` + text + `}}`},
		{events.TypeHostReturned, `"attempt":1,"number":1,"callable":` + text + `,"content":{"plain":{"error":` + text + `,"arguments":` + text + `}}`},
	} {
		h.addOf(events.DefaultTenant, &events.Unknown{Type: e.kind, StoredSubject: "x", Concerns: id, Body: []byte(`{"execution_id":"` + id + `",` + e.members + `}`)})
	}
	h.finish(first)
	out := filepath.Join(t.TempDir(), "export")
	_, err := audit.Export(t.Context(), h.local(), audit.ExportOptions{Dir: out, Blobs: true})
	h.must(err)
	r, err := audit.VerifyExport(t.Context(), out, audit.VerifyOptions{Keys: []string{firstKey}})
	if err != nil || r.Verdict != audit.Intact {
		t.Errorf("%v\n%s", err, r)
	}
	if got, line, err := verdicts.StartPython(t, "--key", firstKey).Verdict(out); err != nil || got != verdicts.Words(audit.Intact) {
		t.Errorf("verify.py says %s: %s, %v", got, line, err)
	}
}

// Both verifiers agree on openings that contradict themselves or each other.
func TestContradictoryOpenings(t *testing.T) {
	t.Parallel()
	early := func(d *events.LedgerVolumeOpened) { d.Lost = nil }
	opening := func(first uint64, lost events.Lost) *events.LedgerVolumeOpened {
		return &events.LedgerVolumeOpened{Volume: 3, First: first, Predecessor: events.Predecessor{Volume: 2}, Reason: events.VolumeDamaged, Lost: lost}
	}
	for name, tt := range map[string]struct {
		open func(h *handmade)
		want audit.Verdict
	}{
		"of another position": {func(h *handmade) { h.leaveOut(2, nil); h.add(opening(h.last(), nil)) }, audit.NotIntact},
		"of another position, with the list": {func(h *handmade) {
			h.leaveOut(2, nil)
			h.add(opening(h.last(), events.Lost{{From: 5, To: 6, NamedAt: 7}}))
		}, audit.NotIntact},
		"of another position, without a loss": {func(h *handmade) { h.add(opening(h.last(), nil)) }, audit.Intact},
		"an empty list":                       {func(h *handmade) { h.leaveOut(2, nil); h.add(opening(h.last()+1, nil)) }, audit.NotIntact},
		"an empty list after a range with events": {func(h *handmade) {
			h.add(opening(h.last()+1, events.Lost{{From: 3, To: 3, NamedAt: h.last() + 1}}))
			h.add(opening(h.last()+1, events.Lost{}))
		}, audit.NotIntact},
		"out of order, before a right one": {func(h *handmade) {
			h.leaveOut(2, func(d *events.LedgerVolumeOpened) {
				d.Lost = events.Lost{{From: 6, To: 6, NamedAt: 7}, {From: 5, To: 5, NamedAt: 7}}
			})
			h.add(opening(h.last()+1, events.Lost{{From: 5, To: 6, NamedAt: 7}}))
		}, audit.NotIntact},
		"two of an early build": {func(h *handmade) { h.leaveOut(2, early); h.request(events.DefaultTenant, 1); h.leaveOut(2, early) }, audit.Intact},
		"two of an early build, one without its loss": {func(h *handmade) {
			h.leaveOut(2, func(d *events.LedgerVolumeOpened) { d.Lost, d.Hole.From = nil, 4 })
			h.leaveOut(2, early)
		}, audit.NotIntact},
		"one of an early build last": {func(h *handmade) { h.leaveOut(2, nil); h.leaveOut(2, early) }, audit.Intact},
	} {
		h := newHandmade(t)
		first, firstKey := h.start()
		h.request(events.DefaultTenant, 3)
		tt.open(h)
		h.request(events.DefaultTenant, 2)
		h.finish(first)
		for _, of := range []string{"an export", "a part"} {
			if r, err := h.verifyAll(audit.VerifyOptions{Keys: []string{firstKey}})[of](); err != nil || r.Verdict != tt.want {
				t.Errorf("%s: %s: %v, want %s\n%s", name, of, err, tt.want, r)
			}
		}
		h.expectPython(name, tt.want, []string{firstKey})
	}
}

// A newer opening lists the losses of earlier ones too.
func TestANewerOpeningHidesNoLoss(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.leaveOut(2, nil)
	h.request(events.DefaultTenant, 1)
	h.leaveOut(2, nil)
	h.finish(first)
	for _, of := range []string{"at rest", "an export", "a server"} {
		if r, err := h.verifyAll(audit.VerifyOptions{Keys: []string{firstKey}})[of](); err != nil || r.Verdict != audit.NotIntact {
			t.Errorf("%s: %v\n%s", of, err, r)
		}
	}
	h.expectPython("two openings", audit.NotIntact, []string{firstKey}, proof.ExportSelection{})
}

// The newest event that the checkpoint covers may belong to another tenant than the one whose events a server shows.
// Then the time of the newest shown one counts for the maximum age.
func TestWatchTheAgeOfATenant(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.request("acme", 3)
	h.request("other", 5)
	h.finish(first)
	server := &liar{local: h.local(), tenant: "acme", change: func(answer map[string]any) { answer["tenant"] = "acme" }}
	for age, want := range map[time.Duration]audit.Verdict{time.Hour: audit.Intact, time.Nanosecond: audit.IntactUpTo} {
		opts := audit.VerifyOptions{Keys: []string{firstKey}, Tenant: "acme", MaxAge: age, SkipBlobs: true}
		r, err := audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 3})
		if err != nil || r.Verdict != want || r.SignedTime == nil {
			t.Errorf("%s: %v, want %s\n%s", age, err, want, r)
		}
	}
}

// An event of the future says nothing about the age of a ledger: the clock of its server was ahead.
func TestAgeOfTheFuture(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]audit.Verdict{0: audit.Intact, time.Minute: audit.Intact, time.Hour: audit.IntactUpTo, 9000 * time.Hour: audit.IntactUpTo} {
		h := newHandmade(t)
		first, firstKey := h.start()
		h.ahead = ahead
		h.request(events.DefaultTenant, 3)
		h.finish(first)
		for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: []string{firstKey}, MaxAge: time.Hour}) {
			r, err := verify()
			if err != nil || r.Verdict != want || want != audit.Intact && !strings.Contains(r.String(), "is of the future") {
				t.Errorf("%s, %s ahead: %v, want %s\n%s", of, ahead, err, want, r)
			}
		}
		out := filepath.Join(t.TempDir(), "export")
		_, err := audit.Export(t.Context(), h.local(), audit.ExportOptions{Dir: out})
		h.must(err)
		if got, line, err := verdicts.StartPython(t, "--key", firstKey, "--max-age", "1h").Verdict(out); err != nil || got != verdicts.Words(want) {
			t.Errorf("%s ahead: verify.py says %s: %s, %v", ahead, got, line, err)
		}
	}
}

// The text of an event adds no line to a report, and no control characters.
func TestReportsShowNoControlCharacters(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	h.start()
	signer, vkey := translogtest.NewSigner(t, secondOrigin)
	st := h.signers.Next(proof.StartOrigin, vkey, 1)
	st.Origin, st.Predecessor, st.Root = secondOrigin, firstOrigin, h.root(1)
	st, err := st.Sign(signer)
	h.must(err)
	_, err = h.signers.Add(st.Note)
	h.must(err)
	d := eventOf(st)
	d.Ended.Reason = "lost\r\x1b[2KINTACT\n\u009b1A\u202e\u2028 größer"
	h.vkeys = append(h.vkeys, vkey)
	h.add(d)
	h.finish(signer)
	r, err := h.verifyAll(audit.VerifyOptions{Keys: []string{vkey}})["an export"]()
	if err != nil || r.Verdict != audit.Intact || !strings.Contains(r.String(), `says: lost\r\x1b[2KINTACT\n\u009b1A\u202e\u2028 größer`) {
		t.Errorf("%v\n%s", err, r)
	}
}

// A running server still reports a loss after it removed the volume that has the event about it.
func TestALossInARemovedVolume(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.request(events.DefaultTenant, 2)
	h.leaveOut(2, nil)
	h.lost = events.Lost{{From: 4, To: 5, NamedAt: 6}}
	closing := h.sign(first, 6)
	last := h.add(&events.LedgerVolumeSealed{Volume: 2, First: 6, Reason: events.VolumeAsked, Closing: &events.ClosingCheckpoint{Origin: closing.Origin, Size: closing.Size, RootHash: proof.EncodeHash(closing.Root), Note: string(closing.Note)}})
	h.request(events.DefaultTenant, 1)
	removed := &events.LedgerVolumeRemoved{
		Volume: 2, First: 6, Last: last, Ended: events.Instant{Time: time.Now()}, RootHash: proof.EncodeHash(h.root(last)),
		Closing: events.ClosingCheckpoint{Origin: closing.Origin, Size: closing.Size, RootHash: proof.EncodeHash(closing.Root), Note: string(closing.Note)},
	}
	h.removed = events.Removal{LedgerVolumeRemoved: removed, Seq: h.add(removed), At: time.Now()}
	h.request(events.DefaultTenant, 1)
	h.finish(first)
	server := &liar{local: h.local(), change: func(answer map[string]any) { answer["lost"], answer["removed"] = h.lost, last }}
	opts := audit.VerifyOptions{Keys: []string{firstKey}, SkipBlobs: true}
	r, err := audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), opts)
	if err != nil || r.Verdict != audit.Intact || len(r.Removed) != 1 || !r.Complete {
		t.Errorf("a server: %v\n%s", err, r)
	}
	if r, err = audit.Watch(t.Context(), audit.NewRemote(server.get, nil), audit.WatchOptions{VerifyOptions: opts, Samples: 20}); err != nil || r.Verdict != audit.Intact {
		t.Errorf("a sample: %v\n%s", err, r)
	}
	// A loss after the removed volumes must be recorded.
	h.lost = events.Lost{{From: last + 1, To: last + 1, NamedAt: last + 2}}
	if r, err = audit.VerifyServer(t.Context(), audit.NewRemote(server.get, nil), opts); err != nil || r.Verdict != audit.NotIntact {
		t.Errorf("a loss that no event records: %v\n%s", err, r)
	}
}

// A monitor compares the newest remembered checkpoint, which stands for the older ones, and all others that it knows.
func TestWatchComparesOtherCheckpoints(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	h.request(events.DefaultTenant, 6)
	h.finish(first)
	sound, other := h.sign(first, 5), h.contradict(first, 3)
	for remembered, want := range []audit.Verdict{audit.Forked, audit.Forked, audit.Intact} {
		opts := audit.VerifyOptions{Keys: []string{firstKey}, Known: []proof.Checkpoint{sound, other}, Remembered: remembered}
		r, err := audit.Watch(t.Context(), audit.NewRemote((&liar{local: h.local()}).get, nil), audit.WatchOptions{VerifyOptions: opts})
		if err != nil || r.Verdict != want {
			t.Errorf("%d remembered: %v, want %s\n%s", remembered, err, want, r)
		}
	}
}

// A kept checkpoint of a key that was retired at a smaller size is refused, and the reason is not a missing key.
func TestKeptCheckpointOfARetiredKey(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, firstKey := h.start()
	second, secondKey := translogtest.NewSigner(t, firstOrigin)
	h.state(first, proof.IntroduceSigner, secondKey, nil)
	h.request(events.DefaultTenant, 3)
	kept := h.sign(first, 5)
	h.state(second, proof.RetireSigner, firstKey, func(st *proof.Statement) { st.Size = 4 })
	h.request(events.DefaultTenant, 1)
	h.finish(second)
	_, stranger := translogtest.NewSigner(t, firstOrigin)
	for key, want := range map[string]string{
		firstKey: "proves nothing: the key that signed it was retired at fewer events",
		stranger: "give the key that signed it with --key",
	} {
		for of, verify := range h.verifyAll(audit.VerifyOptions{Keys: []string{key}, Known: []proof.Checkpoint{kept}}) {
			if _, err := verify(); !isKnownError(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", of, err, want)
			}
		}
	}
}

// An event that was changed since it was signed is not exported, in an export of everything either.
func TestNoExportOfAChangedEvent(t *testing.T) {
	t.Parallel()
	h := newHandmade(t)
	first, _ := h.start()
	h.request(events.DefaultTenant, 4)
	h.finish(first)
	h.messages[2].Body = slices.Concat(h.messages[2].Body, []byte(" "))
	for name, s := range map[string]proof.ExportSelection{"everything": {}, "a part": {From: 2}} {
		local := h.local()
		local.CompareEvents = true
		_, err := audit.Export(t.Context(), local, audit.ExportOptions{Dir: filepath.Join(t.TempDir(), "export"), Selection: s})
		if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "event 3 does not match the hash") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
