package audit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// Archive is a ledger that is at rest: nobody writes to it.
type Archive interface {
	// FollowRaw calls fn with every message after a position, in batches as they
	// are at hand, until ctx is done or fn fails. last is the newest position
	// known.
	FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error
	// LastSeq is the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Blobs are what is stored apart from the events. Each method checks the content
// against its hash: events.ErrNotFound, or events.ErrDamaged.
type Blobs interface {
	Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// HeapVerifier reads heaps and compares them with their hash.
type HeapVerifier interface {
	// VerifyHeap holds a part of the heap at a time. Errors are those of Blobs.Heap.
	VerifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
}

// VerifyOptions say what to trust and what to look at.
type VerifyOptions struct {
	// Keys are the verification keys to trust; empty takes those found beside the
	// data, which proves that nothing was changed by mistake or by somebody
	// without the key, and no more.
	Keys []string
	// Dir is the audit directory to compare with, for a data directory; nil for none.
	Dir Directory
	// SkipBlobs leaves heaps and texts unread.
	SkipBlobs bool
	// Source names what is verified, for the report.
	Source string
	// Progress, if set, is told how far it has come, now and then.
	Progress func(done, total uint64)
}

// Directory is an audit directory: what a ledger keeps beside it of its tree and its
// checkpoints.
type Directory interface {
	// VKeys reads the verification keys of the ledger, the newest last.
	VKeys() ([]string, error)
	// Checkpoints reads all checkpoints, unchecked.
	Checkpoints() ([]proof.Checkpoint, error)
	// DurableSize reads the size of the tree whose files are known to be on disk. With an
	// error, the files are not compared.
	DurableSize() (uint64, error)
	// TilePath is the path of a tile's file, for the report.
	TilePath(t proof.Tile) string
	// ReadTile reads the hashes of a full tile, 32 bytes each.
	ReadTile(t proof.Tile) ([]byte, error)
	// Leaves returns a function that returns the leaf of a position, or false where the
	// files do not prove it.
	Leaves() func(position uint64) (proof.Hash, bool)
}

// verifier folds events, in order, into a report.
type verifier struct {
	opts   VerifyOptions
	report *Report
	rules  *rules
	tree   *proof.Tree
	recent *window // the tiles of tree
	// kept are checkpoints known beforehand, by size.
	kept map[uint64][]proof.Checkpoint
	// counted are the sizes of the checkpoints that hold.
	counted map[uint64]bool
	// lost is what is claimed to be lost, before the event that says so was read;
	// named is what such an event says.
	lost, named events.Lost
	// proven is true when each event comes with a proof of its own, and there is no
	// tree to compute.
	proven bool
	removedSoFar
}

func newVerifier(opts VerifyOptions, partial bool) *verifier {
	r := &Report{Source: opts.Source, Complete: true, Pinned: len(opts.Keys) > 0}
	recent := &window{tiles: map[proof.Tile][]byte{}}
	return &verifier{
		opts: opts, report: r, rules: newRules(r, partial), kept: map[uint64][]proof.Checkpoint{}, counted: map[uint64]bool{},
		tree: proof.NewTree(recent), recent: recent,
	}
}

// Verify computes everything anew from a ledger at rest and compares: the tree
// with every checkpoint, on record and in the audit directory, the files of the
// tree, signatures, positions, the rules of package rules, and blobs. What does
// not hold is in the report; an error means that it could not be found out.
func Verify(ctx context.Context, archive Archive, blobs Blobs, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	pinned := len(opts.Keys) > 0
	if opts.Dir != nil && !pinned {
		var err error
		if opts.Keys, err = opts.Dir.VKeys(); err != nil {
			return nil, fmt.Errorf("read the keys beside the ledger (give --key instead): %w", err)
		}
	}
	v := newVerifier(opts, false)
	v.report.Pinned = pinned
	if err := v.openDir(); err != nil {
		return nil, err
	}
	if l, ok := archive.(interface{ Lost() events.Lost }); ok {
		v.expectLost(l.Lost())
	}
	if r, ok := archive.(interface{ Removed() events.Removal }); ok {
		v.expectRemoved(r.Removed())
	}
	last, err := archive.LastSeq(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if last > 0 {
		err = v.follow(ctx, archive, last)
	}
	switch {
	case errors.Is(err, events.ErrDamaged):
		v.report.find(0, "%v", err)
		v.report.Complete = false
	case err != nil:
		return nil, fmt.Errorf("verify: %w", err)
	}
	v.finish()
	if !opts.SkipBlobs {
		if err := v.readBlobs(ctx, blobs); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	return v.report.conclude(began), nil
}

// openDir takes up what the audit directory says beforehand.
func (v *verifier) openDir() error {
	if v.opts.Dir == nil {
		return nil
	}
	list, err := v.opts.Dir.Checkpoints()
	if err != nil {
		return fmt.Errorf("read the checkpoints beside the ledger: %w", err)
	}
	for _, c := range list {
		v.kept[c.Size] = append(v.kept[c.Size], c)
	}
	durable, err := v.opts.Dir.DurableSize()
	if err != nil {
		return nil //nolint:nilerr // then the files of the tree are computed anew by the next start
	}
	v.recent.see = func(t proof.Tile, hashes []proof.Hash) {
		if (t.Index+1)<<(proof.TileHeight*(t.Level+1)) > durable {
			return // not safe on disk yet
		}
		v.report.Tiles++
		raw, err := v.opts.Dir.ReadTile(t)
		if err != nil || !slices.Equal(raw, proof.EncodeTile(hashes)) {
			v.report.find(0, "the file %s is not that part of the tree", v.opts.Dir.TilePath(t))
		}
	}
	return nil
}

// errRead ends the reading at the last event.
var errRead = errors.New("read")

// follow reads everything up to a position.
func (v *verifier) follow(ctx context.Context, archive Archive, last uint64) error {
	produce := func(emit func([]events.Stored) error) error {
		err := archive.FollowRaw(ctx, 0, func(batch []events.Stored, _ uint64) error {
			if over := batch[len(batch)-1].Seq; over >= last {
				batch = batch[:uint64(len(batch))-(over-last)]
			}
			if err := emit(slices.Clone(batch)); err != nil {
				return err
			}
			if batch[len(batch)-1].Seq == last {
				return errRead
			}
			return nil
		})
		if errors.Is(err, errRead) {
			return nil
		}
		return err
	}
	compute := func(batch []events.Stored) []prepared {
		list := make([]prepared, len(batch))
		buf := make([]byte, 0, 1<<10)
		for i := range batch {
			list[i], buf = prepare(buf, batch[i])
		}
		return list
	}
	return inOrder(ctx, produce, compute, func(list []prepared) error {
		for i := range list {
			if err := v.take(&list[i]); err != nil {
				return err
			}
		}
		if v.opts.Progress != nil {
			v.opts.Progress(v.tree.Size(), last)
		}
		return nil
	})
}

// take adds the next event.
func (v *verifier) take(p *prepared) error {
	seq := p.stored.Seq
	r := v.report
	if p.err != nil && p.leaf == (proof.Hash{}) {
		return fmt.Errorf("%w: %w", events.ErrDamaged, p.err)
	}
	if r.Events == 0 {
		r.First = seq
	}
	r.Events++
	r.Last = seq
	if !v.proven {
		if err := v.addRemoved(seq - 1); err != nil {
			return err
		}
		switch {
		case seq == v.tree.Size()+1:
		case seq > v.tree.Size()+1 && v.lost.Covers(v.tree.Size()+1, seq-1):
			if err := eventproof.AddLost(v.tree, v.lost, seq-1, v.keptHere); err != nil {
				return err
			}
		default:
			if err := eventproof.AddHoleLeaves(v.tree, p.stored); err != nil {
				return err
			}
		}
		if err := v.tree.Add(p.leaf); err != nil {
			return err
		}
	}
	if p.err != nil {
		r.find(seq, "%v", p.err)
		return nil //nolint:nilerr // it is told in the report, and the rest is still worth reading
	}
	if d, ok := p.event.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
		v.named = d.Losses(seq)
	}
	p.event.Skips, p.event.Removed = p.stored.Skips, p.stored.Removed
	if d, ok := p.event.Data.(*events.LedgerVolumeRemoved); ok {
		v.sawRemoval(&p.event, d)
	}
	v.rules.apply(&p.event)
	if eventproof.HoldsCheckpoint(p.stored) {
		v.recorded(p)
	}
	if !v.proven {
		v.keptHere()
	}
	return nil
}

// keptHere compares the checkpoints known beforehand of as many leaves as the tree
// has now.
func (v *verifier) keptHere() {
	for _, c := range v.kept[v.tree.Size()] {
		if !eventproof.IsIncomparable(v.lost, c.Size) {
			v.compare(c, v.tree.Root(), 0)
		} else {
			v.report.Incomparable++
		}
	}
	delete(v.kept, v.tree.Size())
}

// expectLost takes for granted that positions were lost, until the event that says
// so is read.
func (v *verifier) expectLost(lost events.Lost) {
	v.lost, v.rules.lost = lost, lost
}

// recorded compares a checkpoint on record with the events before it.
func (v *verifier) recorded(p *prepared) {
	c, err := eventproof.CheckpointIn(p.stored)
	switch {
	case err != nil:
		v.report.find(p.stored.Seq, "%v", err)
	case c.Note == nil:
		// A volume may be sealed without proofs.
	case c.Size >= p.stored.Seq:
		v.report.find(p.stored.Seq, "the checkpoint covers %d events, more than there were", c.Size)
	case v.proven:
		// Its signature was checked with the proof of the event it is in.
	case eventproof.IsIncomparable(v.lost, c.Size):
		v.report.Incomparable++
	default:
		root, err := v.tree.RootAt(c.Size)
		if err != nil {
			v.report.find(p.stored.Seq, "the checkpoint covers the first %d events only, too few to compare", c.Size)
			return
		}
		v.compare(c, root, p.stored.Seq)
	}
}

// compare checks a checkpoint against the tree hash that was computed.
func (v *verifier) compare(c proof.Checkpoint, root proof.Hash, seq uint64) {
	r := v.report
	if c.Root != root {
		r.find(seq, "a checkpoint of %s says that the first %d events have the tree hash %s; computed from the events it is %s", c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
		return
	}
	switch _, err := proof.OpenCheckpoint(c.Note, v.opts.Keys...); {
	case errors.Is(err, proof.ErrUnknownKey):
		r.Foreign++
	case err != nil:
		r.find(seq, "%v", err)
	default:
		if !v.counted[c.Size] { // mostly the file says what the stream says
			v.counted[c.Size] = true
			r.Checkpoints++
		}
		if c.Size >= r.Signed {
			r.Signed, r.Root, r.Origin = c.Size, proof.EncodeHash(c.Root), c.Origin
			r.Key = keyOf(c, v.opts.Keys)
		}
	}
}

// keyOf is the key among several that signed a checkpoint.
func keyOf(c proof.Checkpoint, keys []string) string {
	for _, key := range keys {
		if _, err := proof.OpenCheckpoint(c.Note, key); err == nil {
			return key
		}
	}
	return ""
}

// finish looks at what was expected and did not come.
func (v *verifier) finish() {
	r := v.report
	v.checkRemoved()
	v.checkLost()
	sizes := make([]uint64, 0, len(v.kept))
	for size := range v.kept {
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	for _, size := range sizes {
		for _, c := range v.kept[size] {
			if eventproof.IsIncomparable(v.lost, size) {
				r.Incomparable++
				continue
			}
			if _, err := proof.OpenCheckpoint(c.Note, v.opts.Keys...); err == nil || !errors.Is(err, proof.ErrUnknownKey) {
				r.find(0, "a checkpoint of %s covers %d events, but the ledger ends at %d", c.Origin, c.Size, r.Last)
			}
		}
	}
	r.Unsigned = r.Last - min(r.Signed, r.Last)
	if r.Events > 0 && r.Signed == 0 {
		switch {
		case r.Foreign > 0:
			var beside []string
			if v.opts.Dir != nil {
				beside, _ = v.opts.Dir.VKeys() // only to name it
			}
			r.signedByOthers(beside)
		default:
			r.find(0, "nothing is signed: there is no checkpoint")
		}
	}
}

// checkLost looks whether what was taken for lost is what the ledger says.
func (v *verifier) checkLost() {
	for _, r := range v.lost {
		if r.From > v.report.Last || v.report.Events == 0 {
			break
		}
		i := slices.IndexFunc(v.named, func(n events.LostRange) bool { return n.From == r.From })
		if i < 0 || v.named[i].To != r.To || v.named[i].NamedAt != r.NamedAt || !slices.Equal(v.named[i].Hashes, r.Hashes) {
			v.report.find(0, "positions %d to %d are missing, and no event that was read names them as lost", r.From, r.To)
			continue
		}
		v.report.Lost = append(v.report.Lost, LostPositions{From: r.From, To: r.To, NamedBy: r.NamedAt, Proven: len(r.Hashes) > 0})
	}
}

// verifyHeap checks a heap in pieces where blobs can do that.
func verifyHeap(ctx context.Context, blobs Blobs, b Blob) error {
	if stored, ok := blobs.(HeapVerifier); ok {
		_, err := stored.VerifyHeap(ctx, b.Tenant, b.SHA256)
		return err
	}
	_, _, err := blobs.Heap(ctx, b.Tenant, b.SHA256)
	return err
}

// readBlobs reads every blob that an event names, which checks its hash.
func (v *verifier) readBlobs(ctx context.Context, blobs Blobs) error {
	type outcome struct {
		blob Blob
		err  error
	}
	work := make(chan Blob)
	outcomes := make(chan outcome)
	var readers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Go(func() {
			for b := range work {
				var err error
				if b.Heap {
					err = verifyHeap(ctx, blobs, b)
				} else {
					_, err = blobs.Text(ctx, b.Tenant, b.SHA256)
				}
				outcomes <- outcome{b, err}
			}
		})
	}
	go func() {
		defer close(outcomes)
		for b := range v.rules.blobs {
			if ctx.Err() != nil {
				break
			}
			work <- b
		}
		close(work)
		readers.Wait()
	}()
	for o := range outcomes {
		if o.err != nil && ctx.Err() == nil {
			what := "the text"
			if o.blob.Heap {
				what = "the heap"
			}
			v.report.find(v.rules.blobs[o.blob], "%s %s cannot be read: %v", what, o.blob.SHA256, o.err)
			continue
		}
		v.report.Blobs++
	}
	return ctx.Err()
}
