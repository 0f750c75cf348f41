package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/spans"
	"daybook/proof"
)

// Archive is a ledger at rest: no process appends to it.
type Archive interface {
	// FollowRaw calls fn with every message after a position, in batches, until ctx is done or fn
	// fails. last is the newest known position.
	FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error
	// LastSeq returns the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Blobs reads content that is stored apart from its event. Each method compares the content with
// its hash. The error is events.ErrNotFound or events.ErrDamaged. Blobs may also implement
// HeapVerifier.
type Blobs interface {
	Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// HeapVerifier is an optional interface of Blobs that verifies large heaps in less memory.
type HeapVerifier interface {
	// VerifyHeap compares a heap with its hash. It holds a part of the heap in memory at a time.
	// Its errors are those of Blobs.Heap.
	VerifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
}

// VerifyOptions configure a verification.
type VerifyOptions struct {
	// Keys are the trusted verification keys. If empty, those found beside the data are used. This
	// detects accidents only, because anyone who can write the data can replace them.
	Keys []string
	// Known are checkpoints that the caller kept, each signed with one of Keys. The ledger MUST
	// extend the tree of each.
	Known []proof.Checkpoint
	// MaxAge is the maximum age of the newest event that a checkpoint covers. 0 accepts any age.
	MaxAge time.Duration
	// Dir is the audit directory to compare a ledger at rest with. nil compares none.
	Dir Directory
	// SkipBlobs skips the verification of heaps and texts.
	SkipBlobs bool
	// Source names what is verified, for the report.
	Source string
	// Progress, if set, is called periodically with the work done so far.
	Progress func(done, total uint64)
}

// Directory is an audit directory: the tree and the checkpoints that a running ledger keeps beside
// the stream.
type Directory interface {
	// VKeys reads the verification keys, the newest last.
	VKeys() ([]string, error)
	// Checkpoints reads all checkpoints, unverified.
	Checkpoints() ([]proof.Checkpoint, error)
	// DurableSize reads the size of the tree whose files are on disk. If it fails, the files are
	// not compared.
	DurableSize() (uint64, error)
	// TilePath returns the path of the file of a tile, for the report.
	TilePath(t proof.Tile) string
	// ReadTile reads the hashes of a full tile, 32 bytes each.
	ReadTile(t proof.Tile) ([]byte, error)
	// Leaves returns a function that returns the leaf of a position. It reports false if the files
	// do not prove the leaf.
	Leaves() func(position uint64) (proof.Hash, bool)
}

// verifier folds events, in order, into a report.
type verifier struct {
	opts   VerifyOptions
	report *Report
	rules  *rules
	tree   *proof.Tree
	recent *recentTiles // the tiles of tree
	// kept are the checkpoints of the ledger that are to be compared, by size, and known those of
	// VerifyOptions.Known.
	kept, known map[uint64][]proof.Checkpoint
	// times are the times of the last two events, the newer one last.
	times [2]time.Time
	// counted are the sizes of the checkpoints that hold.
	counted map[uint64]bool
	// lost are the positions that the source reports as lost. named are those that an event
	// records as lost.
	lost, named events.Lost
	// proven is true if each event comes with its own proof and no tree is computed.
	proven bool
	removedState
}

func newVerifier(opts VerifyOptions, partial bool) *verifier {
	r := &Report{Source: opts.Source, Complete: true, Pinned: len(opts.Keys) > 0}
	recent := &recentTiles{tiles: map[proof.Tile][]byte{}}
	return &verifier{
		opts: opts, report: r, rules: newRules(r, partial), kept: map[uint64][]proof.Checkpoint{}, counted: map[uint64]bool{},
		tree: proof.NewTree(recent), recent: recent, known: bySize(opts.Known),
	}
}

// bySize groups checkpoints by their size.
func bySize(list []proof.Checkpoint) map[uint64][]proof.Checkpoint {
	sizes := map[uint64][]proof.Checkpoint{}
	for _, c := range list {
		sizes[c.Size] = append(sizes[c.Size], c)
	}
	return sizes
}

// Verify checks a ledger at rest: the tree against every checkpoint in the ledger and in the audit
// directory, the files of the tree, signatures, positions, the rules between events, and blobs.
// Findings are in the report. The error is for a check that could not be completed.
func Verify(ctx context.Context, archive Archive, blobs Blobs, opts VerifyOptions) (*Report, error) {
	began := time.Now()
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	if err := checkKnown(opts); err != nil {
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
		v.report.addFinding(0, "%v", err)
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
	return v.report.finish(began), nil
}

// openDir reads the checkpoints and the durable size from the audit directory.
func (v *verifier) openDir() error {
	if v.opts.Dir == nil {
		return nil
	}
	list, err := v.opts.Dir.Checkpoints()
	if err != nil {
		return fmt.Errorf("read the checkpoints beside the ledger: %w", err)
	}
	v.kept = bySize(list)
	durable, err := v.opts.Dir.DurableSize()
	if err != nil {
		return nil //nolint:nilerr // the next start computes the files of the tree again
	}
	v.recent.see = func(t proof.Tile, hashes []proof.Hash) {
		if (t.Index+1)<<(proof.TileHeight*(t.Level+1)) > durable {
			return // not on disk yet
		}
		v.report.Tiles++
		raw, err := v.opts.Dir.ReadTile(t)
		if err != nil || !slices.Equal(raw, proof.EncodeTile(hashes)) {
			v.report.addFinding(0, "the file %s differs from the computed tree", v.opts.Dir.TilePath(t))
		}
	}
	return nil
}

// errRead stops FollowRaw after the last event.
var errRead = errors.New("read")

// follow verifies everything up to a position.
func (v *verifier) follow(ctx context.Context, archive Archive, last uint64) error {
	produce := func(emit func([]events.Stored) error) error {
		err := archive.FollowRaw(ctx, 0, func(batch []events.Stored, _ uint64) error {
			if newest := batch[len(batch)-1].Seq; newest >= last {
				batch = batch[:uint64(len(batch))-(newest-last)]
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
	compute := func(batch []events.Stored) []hashedEvent {
		list := make([]hashedEvent, len(batch))
		buf := make([]byte, 0, 1<<10)
		for i := range batch {
			list[i], buf = prepare(buf, batch[i])
		}
		return list
	}
	return parallelOrdered(ctx, produce, compute, func(list []hashedEvent) error {
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
func (v *verifier) take(p *hashedEvent) error {
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
		case seq > v.tree.Size()+1 && spans.Covers(v.lost, v.tree.Size()+1, seq-1):
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
		r.addFinding(seq, "%v", p.err)
		return nil //nolint:nilerr // reported; the rest is still verified
	}
	if d, ok := p.event.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
		v.named = d.Losses(seq)
	}
	p.event.RemovedBefore, p.event.Removed = p.stored.RemovedBefore, p.stored.Removed
	if d, ok := p.event.Data.(*events.LedgerVolumeRemoved); ok {
		v.sawRemoval(&p.event, d)
	}
	v.times[0], v.times[1] = v.times[1], p.event.Time
	v.rules.apply(&p.event)
	if eventproof.HoldsCheckpoint(p.stored) {
		v.checkRecordedCheckpoint(p)
	}
	if !v.proven {
		v.keptHere()
	}
	if seq > r.Signed && r.UnsignedSince == nil {
		since := p.event.Time
		r.UnsignedSince = &since
	}
	return nil
}

// keptHere compares the known checkpoints whose size is the current size of the tree.
func (v *verifier) keptHere() {
	for _, c := range v.kept[v.tree.Size()] {
		if !eventproof.IsIncomparable(v.lost, c.Size) {
			v.compare(c, v.tree.Root(), 0)
		} else {
			v.report.Incomparable++
		}
	}
	delete(v.kept, v.tree.Size())
	for _, c := range v.known[v.tree.Size()] {
		v.compareKnown(c, v.tree.Root())
	}
	delete(v.known, v.tree.Size())
}

// expectLost accepts positions as lost. checkLost later requires an event that records them.
func (v *verifier) expectLost(lost events.Lost) {
	v.lost, v.rules.losses = lost, newLosses(lost)
}

// checkRecordedCheckpoint compares the checkpoint in an event with the events before it.
func (v *verifier) checkRecordedCheckpoint(p *hashedEvent) {
	c, err := eventproof.CheckpointIn(p.stored)
	switch {
	case err != nil:
		v.report.addFinding(p.stored.Seq, "%v", err)
	case c.Note == nil:
		// A volume may be sealed without proofs.
	case c.Size >= p.stored.Seq:
		v.report.addFinding(p.stored.Seq, "the checkpoint covers %d events, more than there were", c.Size)
	case v.proven:
		// No tree is computed to compare it with. Its event has a proof.
	case eventproof.IsIncomparable(v.lost, c.Size):
		v.report.Incomparable++
	default:
		root, err := v.tree.RootAt(c.Size)
		if err != nil {
			v.report.addFinding(p.stored.Seq, "the checkpoint covers the first %d events only, too few to compare", c.Size)
			return
		}
		v.compare(c, root, p.stored.Seq)
	}
}

// compare checks a checkpoint against the computed tree hash.
func (v *verifier) compare(c proof.Checkpoint, root proof.Hash, seq uint64) {
	r := v.report
	_, err := proof.OpenCheckpoint(c.Note, v.opts.Keys...)
	if c.Root != root {
		add := r.addFinding
		if err == nil {
			add = func(seq uint64, format string, args ...any) { r.addContradiction(seq, c.Size, format, args...) }
		}
		add(seq, "a checkpoint of %s says that the first %d events have the tree hash %s; computed from the events it is %s", c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
		return
	}
	switch {
	case errors.Is(err, proof.ErrUnknownKey):
		r.Foreign++
	case err != nil:
		r.addFinding(seq, "%v", err)
	default:
		if !v.counted[c.Size] { // file and stream usually have the same checkpoints
			v.counted[c.Size] = true
			r.Checkpoints++
		}
		if c.Size >= r.Signed {
			r.Signed, r.Root, r.Origin = c.Size, proof.EncodeHash(c.Root), c.Origin
			r.Key, r.Checkpoint = keyOf(c, v.opts.Keys), string(c.Note)
			v.signedUpTo(c.Size)
		}
	}
}

// signedUpTo records the time of the newest event that a checkpoint of the given size covers, if
// that is one of the last two events.
func (v *verifier) signedUpTo(size uint64) {
	v.report.UnsignedSince = nil
	t := v.times[1]
	if size < v.report.Last {
		t = v.times[0]
	}
	if size+1 >= v.report.Last && !t.IsZero() {
		v.report.SignedTime = &t
	}
}

// keyOf returns the key that signed a checkpoint, or an empty string.
func keyOf(c proof.Checkpoint, keys []string) string {
	for _, key := range keys {
		if _, err := proof.OpenCheckpoint(c.Note, key); err == nil {
			return key
		}
	}
	return ""
}

// finish reports known checkpoints and lost positions that the ledger does not confirm.
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
			switch _, err := proof.OpenCheckpoint(c.Note, v.opts.Keys...); {
			case err == nil:
				r.addBeyond("a checkpoint of %s covers %d events, but the ledger ends at %d", c.Origin, c.Size, r.Last)
			case !errors.Is(err, proof.ErrUnknownKey):
				r.addFinding(0, "a checkpoint of %s covers %d events, but the ledger ends at %d", c.Origin, c.Size, r.Last)
			}
		}
	}
	for _, size := range slices.Sorted(maps.Keys(v.known)) {
		for _, c := range v.known[size] {
			v.knownBeyond(c, r.Last)
		}
	}
	r.Unsigned = r.Last - min(r.Signed, r.Last)
	v.checkAge()
	if r.Signed == 0 && r.Foreign > 0 {
		var beside []string
		if v.opts.Dir != nil {
			beside, _ = v.opts.Dir.VKeys() // only to name it
		}
		r.signedByOthers(beside)
	}
}

// checkLost compares the positions accepted as lost with those that the ledger records as lost.
func (v *verifier) checkLost() {
	for _, r := range v.lost {
		if r.From > v.report.Last || v.report.Events == 0 {
			break
		}
		i := slices.IndexFunc(v.named, func(n events.LostRange) bool { return n.From == r.From })
		if i < 0 || v.named[i].To != r.To || v.named[i].NamedAt != r.NamedAt || !slices.Equal(v.named[i].Hashes, r.Hashes) {
			v.report.addFinding(0, "positions %d to %d are missing, and no event that was read records them as lost", r.From, r.To)
			continue
		}
		v.report.Lost = append(v.report.Lost, LostPositions{From: r.From, To: r.To, NamedBy: r.NamedAt, Proven: len(r.Hashes) > 0})
	}
}

// verifyHeap verifies a heap in pieces if blobs supports it.
func verifyHeap(ctx context.Context, blobs Blobs, b Blob) error {
	if stored, ok := blobs.(HeapVerifier); ok {
		_, err := stored.VerifyHeap(ctx, b.Tenant, b.SHA256)
		return err
	}
	_, _, err := blobs.Heap(ctx, b.Tenant, b.SHA256)
	return err
}

// readBlobs reads every blob that an event names, which verifies its hash. It returns an
// *AnswerError if a server did not answer and nothing else is wrong.
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
	var unread error
	for o := range outcomes {
		what := "the text"
		if o.blob.Heap {
			what = "the heap"
		}
		_, noAnswer := errors.AsType[*AnswerError](o.err)
		switch {
		case o.err == nil:
			v.report.Blobs++
		case noAnswer: // says nothing about the blob
			unread = fmt.Errorf("read %s %s: %w", what, o.blob.SHA256, o.err)
		case ctx.Err() == nil:
			v.report.addFinding(v.rules.blobs[o.blob], "%s %s cannot be read: %v", what, o.blob.SHA256, o.err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if v.report.Found > 0 {
		return nil // the verdict is known
	}
	return unread
}
