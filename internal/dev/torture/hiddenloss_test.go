package torture_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/verdicts"
	"daybook/internal/eventproof"
	"daybook/internal/store/stream"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

// written is a ledger in memory that the holder of its keys writes as they like. It implements
// audit.Source.
type written struct {
	t        *testing.T
	messages []events.Stored
	volume   events.Volume
	tree     *proof.Tree
	// roots are the tree hashes by size, as far as the ledger had trees of that size.
	roots   map[uint64]proof.Hash
	lost    events.Lost
	signers proof.Signers
	signer  note.Signer
	vkeys   []string
	newest  proof.Checkpoint
}

func newWritten(t *testing.T) *written {
	return &written{t: t, volume: 1, tree: proof.NewTree(verdicts.NoTiles{}), roots: map[uint64]proof.Hash{}}
}

// must ends the test after an error.
func (w *written) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add records an event, and returns its leaf.
func (w *written) add(e events.Event) proof.Hash {
	w.t.Helper()
	raw, err := events.Encode(e)
	w.must(err)
	m := events.Stored{Seq: w.tree.Size() + 1, Subject: stream.StoredSubject(w.volume, raw.Subject), Header: raw.Header, Body: raw.Body}
	leaf, err := proof.LeafHash(eventproof.RecordOf(m))
	w.must(err)
	w.must(w.tree.Add(leaf))
	w.roots[w.tree.Size()] = w.tree.Root()
	w.messages = append(w.messages, m)
	return leaf
}

// request records requests up to a position.
func (w *written) request(upTo uint64) {
	w.t.Helper()
	for w.tree.Size() < upTo {
		w.add(translogtest.Request(events.NewID(time.Now())))
	}
}

// sign signs a checkpoint of a size.
func (w *written) sign(size uint64) proof.Checkpoint {
	w.t.Helper()
	c, err := proof.Checkpoint{Origin: w.signer.Name(), Size: size, Root: w.roots[size]}.Sign(w.signer)
	w.must(err)
	return c
}

// checkpoint records a checkpoint of all events, and signs one that covers it too.
func (w *written) checkpoint() proof.Checkpoint {
	w.t.Helper()
	c := w.sign(w.tree.Size())
	w.add(events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{LedgerID: "l", Origin: c.Origin, Size: c.Size, RootHash: proof.EncodeHash(c.Root), Note: string(c.Note)}))
	w.newest = w.sign(w.tree.Size())
	return c
}

// startOrigin starts an origin that confirms the first events of the one before, if there is one.
func (w *written) startOrigin(name string, size uint64) {
	w.t.Helper()
	signer, vkey := translogtest.NewSigner(w.t, name)
	st := w.signers.Next(proof.StartOrigin, vkey, 0)
	var ended *events.EndedOrigin
	if w.signer != nil {
		st.Predecessor, st.Size, st.Root = w.signer.Name(), size, w.roots[size]
		ended = &events.EndedOrigin{Origin: st.Predecessor, Size: size, RootHash: proof.EncodeHash(st.Root), Reason: "signed events were lost"}
	}
	st.Origin = name
	st, err := st.Sign(signer)
	w.must(err)
	_, err = w.signers.Add(st.Note)
	w.must(err)
	w.signer, w.vkeys = signer, append(w.vkeys, vkey)
	w.add(events.New(events.LedgerTenant, time.Now(), &events.LedgerSignersChanged{
		LedgerID: "l", Origin: name, Number: st.Number, Action: string(st.Action), Key: vkey, Ended: ended, Note: string(st.Note),
	}))
}

// lose removes positions whose hashes it knows or not, computes the tree again, and records the loss.
func (w *written) lose(from, to uint64, known bool) {
	w.t.Helper()
	r := events.LostRange{From: from, To: to, NamedAt: w.tree.Size() + 1}
	if known {
		leaves := map[uint64]proof.Hash{}
		for _, m := range w.messages {
			leaf, err := proof.LeafHash(eventproof.RecordOf(m))
			w.must(err)
			leaves[m.Seq] = leaf
		}
		for at := from; at <= to; {
			if at%proof.TileWidth == 1 && at+proof.TileWidth-1 <= to {
				var tile []proof.Hash
				for range proof.TileWidth {
					tile = append(tile, leaves[at])
					at++
				}
				r.Hashes = append(r.Hashes, proof.EncodeHash(proof.HashSubtrees(tile)))
				continue
			}
			r.Hashes = append(r.Hashes, proof.EncodeHash(leaves[at]))
			at++
		}
	}
	w.lost = append(w.lost, r)
	slices.SortFunc(w.lost, func(a, b events.LostRange) int { return int(int64(a.From) - int64(b.From)) })
	before := w.messages
	w.messages, w.tree = nil, proof.NewTree(verdicts.NoTiles{})
	for _, m := range before {
		if m.Seq >= from && m.Seq <= to {
			continue
		}
		if m.Seq > w.tree.Size()+1 {
			w.must(eventproof.AddLost(w.tree, w.lost, m.Seq-1, nil))
		}
		leaf, err := proof.LeafHash(eventproof.RecordOf(m))
		w.must(err)
		w.must(w.tree.Add(leaf))
		w.roots[m.Seq] = w.tree.Root()
		w.messages = append(w.messages, m)
	}
	w.volume++
	at := w.tree.Size() + 1
	w.add(events.New(events.LedgerTenant, time.Now(), &events.LedgerVolumeOpened{
		Volume: w.volume, First: at, Predecessor: events.Predecessor{Volume: w.volume - 1, Last: at - 1}, Reason: events.VolumeDamaged, Lost: slices.Clone(w.lost),
	}))
}

// Signed implements audit.Source.
func (w *written) Signed(context.Context, uint64) (audit.SourceState, error) {
	return audit.SourceState{Checkpoint: w.newest, VKeys: w.vkeys[len(w.vkeys)-1:], Signers: string(w.signers.Bytes()), Lost: w.lost}, nil
}

// Lines implements audit.Source for everything.
func (w *written) Lines(_ context.Context, _ proof.Checkpoint, _ proof.ExportSelection, _ uint64, fn func(line, proof []byte) error) error {
	for _, m := range w.messages {
		line, err := proof.AppendLine(nil, eventproof.RecordOf(m))
		if err == nil {
			err = fn(line, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Blob implements audit.Source.
func (*written) Blob(context.Context, audit.Blob) ([]byte, error) { return nil, events.ErrNotFound }

// judge requires that both verifiers have a verdict on an export with keys and kept checkpoints.
func (w *written) judge(want audit.Verdict, keys []string, remembered int, kept ...proof.Checkpoint) {
	w.t.Helper()
	out := filepath.Join(w.t.TempDir(), "export")
	_, err := audit.Export(w.t.Context(), w, audit.ExportOptions{Dir: out})
	w.must(err)
	r, err := audit.VerifyExport(w.t.Context(), out, audit.VerifyOptions{Keys: keys, Known: kept, Remembered: remembered})
	w.must(err)
	if r.Verdict != want {
		w.t.Errorf("the verdict is %s, want %s:\n%s", r.Verdict, want, r)
	}
	if remembered > 0 {
		return // verify.py has no memory
	}
	var args []string
	for _, k := range keys {
		args = append(args, "--key", k)
	}
	for _, c := range kept {
		file := filepath.Join(w.t.TempDir(), "kept")
		w.must(os.WriteFile(file, c.Note, 0o644))
		args = append(args, "--checkpoint", file)
	}
	if got, line, err := verdicts.StartPython(w.t, args...).Verdict(out); err != nil || got != verdicts.Words(want) {
		w.t.Errorf("verify.py says %s, want %s: %s, %v", got, want, line, err)
	}
}

// The holder of the key changes an event, and names it and others as lost with the hashes of the changed
// history, under the same origin. No verifier that keeps a checkpoint of the genuine history says INTACT,
// whatever its size. If nothing was changed, only a checkpoint that cannot be compared is no proof, unless
// the verifier compared it with a later one before.
func TestLossesHideNoContradiction(t *testing.T) {
	t.Parallel()
	genuine := newWritten(t)
	genuine.startOrigin("example.org/ledger", 0)
	genuine.request(600)
	honest, forged := newWritten(t), newWritten(t)
	for _, w := range []*written{honest, forged} {
		w.signers, w.signer, w.vkeys = genuine.signers, genuine.signer, genuine.vkeys
		for _, m := range genuine.messages {
			e, err := events.Decode(m.Seq, m.Message())
			w.must(err)
			if w == forged && m.Seq == 230 {
				e = translogtest.Request(events.NewID(time.Now()))
			}
			w.add(e)
		}
		w.lose(200, 550, true)
		w.request(610)
		w.checkpoint()
	}
	for size, want := range map[uint64][2]audit.Verdict{
		199: {audit.Intact, audit.Intact},
		229: {audit.Intact, audit.Intact}, // the events before the changed one
		230: {audit.Intact, audit.Forked},
		256: {audit.Intact, audit.Forked},
		257: {audit.NotIntact, audit.NotIntact}, // inside a tile with one hash
		511: {audit.NotIntact, audit.NotIntact},
		512: {audit.Intact, audit.Forked},
		530: {audit.Intact, audit.Forked},
		600: {audit.Intact, audit.Forked},
	} {
		c := genuine.sign(size)
		honest.judge(want[0], genuine.vkeys, 0, c)
		forged.judge(want[1], genuine.vkeys, 0, c)
	}
	hidden, later := genuine.sign(300), genuine.sign(600)
	honest.judge(audit.Intact, genuine.vkeys, 2, hidden, later)
	honest.judge(audit.NotIntact, genuine.vkeys, 1, hidden, later) // never compared with each other
	honest.judge(audit.NotIntact, genuine.vkeys, 0, hidden, later)
	honest.judge(audit.NotIntact, genuine.vkeys, 1, hidden)
}

// Two losses end two origins. The second one is in events that the successor had confirmed: the checkpoints
// of the first origin over them, and the start of the second origin, are excused by the third one.
func TestALossEndsTheSuccessorToo(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.startOrigin("example.org/ledger", 0)
	w.request(40)
	w.checkpoint()
	w.request(50)
	held := w.sign(20)
	w.request(79)
	w.lose(60, 70, false)
	w.startOrigin("example.org/ledger/2", 50)
	w.request(99)
	w.checkpoint()
	w.judge(audit.Intact, w.vkeys, 0, held)
	unfinished := *w
	w.lose(30, 35, false)
	w.startOrigin("example.org/ledger/3", 25)
	w.checkpoint()
	w.judge(audit.Intact, w.vkeys, 0, held)
	w.judge(audit.WrongKey, w.vkeys[:2], 0, held)

	// Without the third origin, the second loss hides what the second origin says.
	w = &unfinished
	w.roots = map[uint64]proof.Hash{}
	w.lost = slices.Clone(w.lost)
	w.lose(30, 35, false)
	w.checkpoint()
	w.judge(audit.NotIntact, w.vkeys, 0, held)
}

// A successor confirms no events after its start. A checkpoint of no events agrees with every ledger.
func TestSizesOfSuccessors(t *testing.T) {
	t.Parallel()
	start := func() *written {
		w := newWritten(t)
		w.startOrigin("example.org/ledger", 0)
		w.request(5)
		return w
	}
	w := start()
	w.roots[0] = proof.NewTree(verdicts.NoTiles{}).Root()
	w.checkpoint()
	w.judge(audit.Intact, w.vkeys, 0, w.sign(0))

	for size, want := range map[uint64]audit.Verdict{5: audit.Intact, 6: audit.NotIntact, 7: audit.NotIntact, 100: audit.NotIntact} {
		w = start()
		w.startOrigin("example.org/ledger/2", size)
		w.request(9)
		w.checkpoint()
		w.judge(want, w.vkeys, 0)
	}
}
