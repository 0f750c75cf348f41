package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
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
	// EachMatching calls fn with each event whose subject matches a pattern, oldest first.
	EachMatching(ctx context.Context, pattern string, fn func(events.Event) error) error
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
	// Known are checkpoints that the caller kept, each signed with one of Keys, or with a key that
	// the statements about the signers introduce. The ledger MUST extend the tree of each.
	Known []proof.Checkpoint
	// Remembered is the number of checkpoints at the start of Known that earlier verifications compared with
	// each other: those of a Memory.
	Remembered int
	// Signers are the statements about the signers that the caller kept. nil is none.
	Signers *proof.Signers
	// MaxAge is the maximum age of the newest event that a checkpoint covers, or of the newest that
	// MinSigners signers cover. 0 accepts any age.
	MaxAge time.Duration
	// MinSigners is the number of signers that must cover the events with checkpoints, see Quorum. 0 and
	// 1 are one signer.
	MinSigners int
	// Tenant is the only tenant whose events the server to verify is expected to show. It is empty
	// for a server that shows all events. VerifyServer returns a *TenantError for any other server. Verify and
	// VerifyExport return one for any tenant: what they read is the whole, or says itself which part it is.
	Tenant string
	// Reach is the last position that a ledger at rest is known to have had. Missing events up to it
	// are a finding, unless a checkpoint shows already that events are missing at the end. 0 is
	// unknown.
	Reach uint64
	// Policy, if set, says which witnesses must have cosigned a checkpoint that covers the events. MaxAge
	// is then the maximum age of the cosignatures.
	Policy *proof.Policy
	// Dir is the audit directory to compare a ledger at rest with. nil compares none.
	Dir Directory
	// SkipBlobs skips the verification of heaps and texts.
	SkipBlobs bool
	// Source names what is verified, for the report.
	Source string
	// Progress, if set, is called periodically with the work done so far.
	Progress func(done, total uint64)
	// EventLines, if set, receives the lines of the events of an export as they are verified. With the verdict
	// Intact or IntactUpTo it has received the file of events that was verified.
	EventLines io.Writer

	// list are the statements about the signers that come with the data, trust follows them from
	// Keys, and notFollowed is why those of Signers were followed instead: forked is true if a trusted key
	// signed another list. follow sets all.
	list        *proof.Signers
	trust       *proof.Trust
	notFollowed error
	forked      bool
	// given are the keys that the caller gave, if Keys were replaced by those that come with the data.
	given []string
}

// Directory is an audit directory: the tree and the checkpoints that a running ledger keeps beside
// the stream.
type Directory interface {
	// VKeys reads the verification keys, the newest last.
	VKeys() ([]string, error)
	// Checkpoints returns all checkpoints, unverified, in the order of their sizes. The iteration ends
	// after an error.
	Checkpoints() iter.Seq2[proof.Checkpoint, error]
	// Signers reads the statements about the signers, unverified, in the form of
	// proof.Signers.Bytes.
	Signers() ([]byte, error)
	// Cosigned reads the newest checkpoint that enough witnesses cosigned, unverified.
	Cosigned() ([]byte, error)
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
	// beside are the checkpoints in the audit directory, kept others of the ledger that are to be compared,
	// by size, and known those of VerifyOptions.Known.
	beside      besideCheckpoints
	kept, known map[uint64][]proof.Checkpoint
	// times are the times of events after those that a checkpoint covers, in order.
	times eventTimes
	// counted are the newest sizes for which a checkpoint holds, in order.
	counted []uint64
	// lost are the positions that the source reports as lost. named are those that the newest event about
	// losses records, and listsAll is true if it lists those of earlier events too. holes are positions that
	// the source does not report, and that the event after them records.
	lost, named events.Lost
	listsAll    bool
	holes       []LostPositions
	// foreignOrigin is the ledger that the newest checkpoint of Report.Foreign names.
	foreignOrigin string
	// proven is true if each event comes with its own proof and no tree is computed.
	proven bool
	// startedAt is the position of the event that starts the first origin, or 0 before it. reasons has
	// what the events of successors state, by their origin.
	startedAt uint64
	reasons   map[string]OriginChange
	// stated are the hashes of the statements of the list that the events have.
	stated map[proof.Hash]bool
	// uncomparable has the sizes of the trusted checkpoints over lost events whose hashes are unknown, and
	// unconfirmed the starts of successors after such events, by the position of their event.
	uncomparable map[uncomparable][]uint64
	unconfirmed  map[uint64]proof.Statement
	// hidden are the known checkpoints that end inside a lost tile, and holds is the size of the largest
	// remembered one that holds.
	hidden []proof.Checkpoint
	holds  uint64
	removedState
	// unhashed is the number of lost positions so far whose hashes are not known, and mostUnhashed its maximum.
	unhashed, mostUnhashed uint64
	// recorded is the list that followRecorded followed; nil if the source states the list. ownKeys are
	// the keys of isOwn, and uncounted is the number of checkpoints beside the ledger that it refused.
	recorded  *proof.Signers
	ownKeys   []string
	uncounted int
	cosigned  cosignedState
	signers   signerState
}

func newVerifier(opts VerifyOptions, partial bool) *verifier {
	r := &Report{Source: opts.Source, Complete: true, Pinned: len(opts.Keys) > 0}
	recent := &recentTiles{tiles: map[proof.Tile][]byte{}}
	if opts.trust == nil { // the statements are those that were kept, and those in the events
		opts.followKept()
	}
	v := &verifier{
		opts: opts, reasons: map[string]OriginChange{}, stated: map[proof.Hash]bool{}, unconfirmed: map[uint64]proof.Statement{}, report: r, rules: newRules(r, partial), kept: map[uint64][]proof.Checkpoint{}, uncomparable: map[uncomparable][]uint64{},
		tree: proof.NewTree(recent), recent: recent, mostUnhashed: mostUnhashed, known: bySize(opts.Known), signers: signerState{newest: map[string]uint64{}, offered: map[string]proof.Checkpoint{}},
	}
	v.reportSigners()
	return v
}

// uncomparable is the origin of checkpoints that cannot be compared because of a loss, and the position of the
// event that records the loss first.
type uncomparable struct {
	origin  string
	namedAt uint64
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
	if opts.Tenant != "" {
		return nil, &TenantError{errors.New("a data directory is verified with the events of all tenants; leave the tenant out, or verify a server with a token of that tenant (--server)")}
	}
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	if err := checkKnown(opts); err != nil {
		return nil, err
	}
	pinned := len(opts.Keys) > 0
	r, err := readRecorded(ctx, archive)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if !pinned {
		if opts.Keys, err = r.keysBeside(opts.Dir); err != nil {
			return nil, fmt.Errorf("read the keys beside the ledger (give --key instead): %w", err)
		}
	}
	v := newVerifier(opts, false)
	v.report.Pinned = pinned
	defer v.close()
	v.followRecorded(r)
	if err := v.opts.checkKnownSigned(); err != nil {
		return nil, err
	}
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
	if err := v.failed(); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if err := v.opts.checkOrigin(cmp.Or(v.report.Origin, v.foreignOrigin)); err != nil {
		return nil, err
	}
	if !opts.SkipBlobs {
		if err := v.readBlobs(ctx, blobs); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	v.finishQuorum()
	v.finishCosigned()
	return v.conclude(began)
}

// close ends what the verification reads, and removes its temporary files.
func (v *verifier) close() {
	v.beside.close()
	v.rules.close()
}

// failed returns why the verification cannot be completed, or nil.
func (v *verifier) failed() error {
	if v.beside.err != nil {
		return fmt.Errorf("read the checkpoints beside the ledger: %w", v.beside.err)
	}
	return v.rules.failed()
}

// openDir opens the checkpoints and reads the durable size from the audit directory.
func (v *verifier) openDir() error {
	if v.opts.Dir == nil {
		return nil
	}
	if v.expectCosigned(v.opts.Dir.Cosigned()); v.cosigned.c.Note != nil {
		v.kept[v.cosigned.c.Size] = append(v.kept[v.cosigned.c.Size], v.cosigned.c)
	}
	v.beside.open(v.opts.Dir.Checkpoints())
	if err := v.failed(); err != nil {
		return err
	}
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
			if err := v.take(ctx, &list[i]); err != nil {
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
func (v *verifier) take(ctx context.Context, p *hashedEvent) error {
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
	if !eventproof.IsCheckpoint(p.stored) {
		v.signers.lastOther = seq
	}
	if !v.proven {
		if err := v.addRemoved(seq - 1); err != nil {
			return err
		}
		if err := v.checkUnhashed(seq - 1); err != nil {
			return err
		}
		switch {
		case seq == v.tree.Size()+1:
		case seq > v.tree.Size()+1 && spans.Covers(v.lost, v.tree.Size()+1, seq-1):
			if err := eventproof.AddLostContext(ctx, v.tree, v.lost, seq-1, v.keptHere); err != nil {
				return err
			}
		default:
			from := v.tree.Size() + 1
			if err := eventproof.AddHoleLeavesContext(ctx, v.tree, p.stored); err != nil {
				return err
			}
			v.holes = append(v.holes, LostPositions{From: from, To: seq - 1, NamedBy: seq})
		}
		if err := v.tree.Add(p.leaf); err != nil {
			return err
		}
	}
	if p.err != nil {
		r.addFinding(seq, "%v", p.err)
		v.keptHere()
		return v.failed() // the error is reported, and the rest is still verified
	}
	if d, ok := p.event.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
		v.named, v.listsAll = d.Losses(seq), len(d.Lost) > 0
		if v.named == nil && d.First == seq && (v.listsAll || d.Hole != nil) {
			r.addFinding(seq, "it names lost positions that cannot be lost")
		}
	}
	p.event.RemovedBefore, p.event.Removed = p.stored.RemovedBefore, p.stored.Removed
	if d, ok := p.event.Data.(*events.LedgerVolumeRemoved); ok {
		v.sawRemoval(&p.event, d)
	}
	if d, ok := p.event.Data.(*events.LedgerSignersChanged); ok {
		v.sawStatement(&p.event, d)
	}
	v.times.add(seq, p.event.Time)
	v.rules.apply(&p.event)
	if eventproof.HoldsCheckpoint(p.stored) {
		v.checkRecordedCheckpoint(p)
	}
	v.keptHere()
	if seq > r.Signed && r.UnsignedSince == nil {
		since := p.event.Time
		r.UnsignedSince = &since
	}
	return v.failed()
}

// keptHere compares the known checkpoints whose size is the current size of the tree, if there is one.
func (v *verifier) keptHere() {
	if v.proven {
		return
	}
	size := v.tree.Size()
	for {
		c, ok := v.beside.upTo(size)
		if !ok {
			break
		}
		if c.Size < size { // no tree of its size was computed
			v.noteUncomparable(c)
			continue
		}
		v.compareKept(c)
	}
	for _, c := range v.kept[size] {
		v.compareKept(c)
	}
	delete(v.kept, size)
	for _, c := range v.known[size] {
		v.compareKnown(c, v.tree.Root())
	}
	delete(v.known, size)
}

// compareKept compares a checkpoint whose size is that of the tree.
func (v *verifier) compareKept(c proof.Checkpoint) {
	if !eventproof.IsIncomparable(v.lost, c.Size) {
		v.compare(c, v.tree.Root(), 0)
	} else {
		v.noteUncomparable(c)
	}
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
	case v.proven: // no tree is computed to compare it with; its event has a proof
		if v.opts.needsSigners() {
			v.offer(c)
		}
	case eventproof.IsIncomparable(v.lost, c.Size):
		if _, err := v.opts.trust.Open(c.Note); err != nil && !errors.Is(err, proof.ErrUnknownKey) {
			v.report.addFinding(p.stored.Seq, "%v", err)
		}
		v.noteUncomparable(c)
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
	_, by, err := v.opts.trust.OpenBy(c.Note)
	if v.isSuperseded(c, err) {
		r.Superseded++
		return
	}
	if err != nil && seq == 0 && (c.Root != root || !errors.Is(err, proof.ErrUnknownKey)) && !v.isOwn(c) {
		v.uncounted++
		return
	}
	if c.Root != root {
		add := r.addFinding
		if err == nil {
			add = func(seq uint64, format string, args ...any) { r.addContradiction(seq, c.Size, format, args...) }
		}
		add(seq, "a checkpoint of %s says that the first %d events have the tree hash %s; computed from the events it is %s", c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
		return
	}
	v.cosigned.agreed(c)
	switch {
	case errors.Is(err, proof.ErrUnknownKey):
		r.Foreign++
		v.foreignOrigin = c.Origin
	case err != nil:
		r.addFinding(seq, "%v", err)
	default:
		v.signers.saw(c, by)
		v.count(c.Size)
		if c.Size > r.Signed {
			r.Signed, r.Root, r.Origin = c.Size, proof.EncodeHash(c.Root), c.Origin
			r.Key, r.Checkpoint = by[0], string(c.Note)
			v.signedUpTo(c.Size)
		}
	}
}

// isSuperseded reports whether a trusted successor gave up what a checkpoint says. The key of the checkpoint need
// not be trusted, if the ledger names it. err is why no trusted key signed it.
func (v *verifier) isSuperseded(c proof.Checkpoint, err error) bool {
	return v.opts.trust.Superseded(c) && (err == nil || v.isOwn(c))
}

// count counts a size for which a checkpoint holds, unless it is counted already: files and stream usually
// have the same checkpoints.
func (v *verifier) count(size uint64) {
	i, counted := slices.BinarySearch(v.counted, size)
	if counted {
		return
	}
	v.report.Checkpoints++
	v.counted = slices.Insert(v.counted, i, size)
	const some = 4096
	if len(v.counted)%some == 0 { // the tree no longer has the hashes for a checkpoint of an older size
		old, _ := slices.BinarySearch(v.counted, v.tree.Size()-min(v.tree.Size(), mostTimes))
		v.counted = slices.Delete(v.counted, 0, old)
	}
}

// signedUpTo records the times of the newest event that a checkpoint of the given size covers and of
// the first event after it. Both are nil if they are not known.
func (v *verifier) signedUpTo(size uint64) {
	if v.opts.needsSigners() { // the times after smaller checkpoints are needed
		v.report.SignedTime, v.report.UnsignedSince = v.times.around(size)
		return
	}
	v.report.SignedTime, v.report.UnsignedSince = v.times.cut(size)
}

// finish reports known checkpoints and lost positions that the ledger does not confirm.
func (v *verifier) finish() {
	r := v.report
	v.checkRemoved()
	v.checkLost()
	for {
		c, ok := v.beside.upTo(math.MaxUint64)
		if !ok {
			break
		}
		v.keptBeyond(c)
	}
	for _, size := range slices.Sorted(maps.Keys(v.kept)) {
		for _, c := range v.kept[size] {
			v.keptBeyond(c)
		}
	}
	for _, size := range slices.Sorted(maps.Keys(v.known)) {
		for _, c := range v.known[size] {
			v.knownBeyond(c, r.Last)
		}
	}
	v.checkHidden()
	v.checkUncomparable()
	v.describeOrigins()
	if v.uncounted > 0 {
		r.addNote("checkpoints beside the ledger that no key of the ledger signed, which were not counted: %d", v.uncounted)
	}
	if v.opts.Reach > r.Last && r.beyond == 0 {
		r.addFinding(0, "recorded events are missing: positions %d to %d", r.Last+1, v.opts.Reach)
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

// keptBeyond reports a checkpoint of the ledger that was not compared with the tree.
func (v *verifier) keptBeyond(c proof.Checkpoint) {
	r := v.report
	if c.Size <= r.Last { // no tree of this size was computed, because of lost events
		v.noteUncomparable(c)
		return
	}
	switch _, err := v.opts.trust.Open(c.Note); {
	case v.isSuperseded(c, err):
		r.Superseded++
	case err == nil:
		r.addBeyond("a checkpoint of %s covers %d events, but the ledger ends at %d", c.Origin, c.Size, r.Last)
	case !v.isOwn(c):
		v.uncounted++
	}
}

// noteUncomparable counts a checkpoint that cannot be compared because of lost events.
func (v *verifier) noteUncomparable(c proof.Checkpoint) {
	v.report.Incomparable++
	r, unknown := eventproof.UnknownIn(v.lost, c.Size)
	if !unknown {
		return
	}
	if _, err := v.opts.trust.Open(c.Note); err != nil {
		return
	}
	of := uncomparable{strings.Clone(c.Origin), r.NamedAt}
	sizes := v.uncomparable[of]
	i, _ := slices.BinarySearch(sizes, c.Size)
	if sizes = slices.Insert(sizes, i, c.Size); len(sizes) > mostFindings {
		sizes = sizes[:mostFindings] // if the smaller ones are superseded, the larger ones are too
	}
	v.uncomparable[of] = sizes
}

// checkLost compares the positions accepted as lost with those that the ledger records as lost.
func (v *verifier) checkLost() {
	for _, r := range v.lost {
		if r.From > v.report.Last || v.report.Events == 0 {
			break
		}
		i := slices.IndexFunc(v.named, func(n events.LostRange) bool { return n.From == r.From })
		if i < 0 && r.To <= v.removedUpTo { // the event that records it was removed too
			continue
		}
		if i < 0 || v.named[i].To != r.To || v.named[i].NamedAt != r.NamedAt || v.named[i].Unreadable != r.Unreadable || !slices.Equal(v.named[i].Hashes, r.Hashes) {
			v.report.addFinding(0, "positions %d to %d are missing, and no event that was read records them as lost", r.From, r.To)
			continue
		}
		v.report.Lost = append(v.report.Lost, LostPositions{From: r.From, To: r.To, NamedBy: r.NamedAt, Proven: len(r.Hashes) > 0})
	}
	for _, h := range v.holes {
		// Events of early versions list only their own hole.
		if !spans.Covers(v.named, h.From, h.To) && (v.listsAll || len(v.named) == 0) {
			v.report.addFinding(0, "positions %d to %d are missing, and the newest event that records losses does not name them", h.From, h.To)
			continue
		}
		v.report.Lost = append(v.report.Lost, h)
	}
	slices.SortFunc(v.report.Lost, func(a, b LostPositions) int { return cmp.Compare(a.From, b.From) })
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

var errNoSuchHash = errors.New("the event does not name it by a SHA-256")

// readBlobs reads every blob that an event names, which verifies its hash. It returns an
// *AnswerError if a server did not answer and nothing else is wrong.
func (v *verifier) readBlobs(ctx context.Context, blobs Blobs) error {
	type outcome struct {
		blob Blob
		seq  uint64 // of the first event that names it
		err  error
	}
	work := make(chan outcome)
	outcomes := make(chan outcome)
	var readers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		readers.Go(func() {
			for o := range work {
				if !events.ValidHash(o.blob.SHA256) { // a server could answer anything to such a path
					o.err = errNoSuchHash
				} else if o.blob.Heap {
					o.err = verifyHeap(ctx, blobs, o.blob)
				} else {
					_, o.err = blobs.Text(ctx, o.blob.Tenant, o.blob.SHA256)
				}
				outcomes <- o
			}
		})
	}
	var listed error
	go func() {
		defer close(outcomes)
		listed = v.rules.blobs.each(func(b Blob, seq uint64) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			work <- outcome{blob: b, seq: seq}
			return nil
		})
		close(work)
		readers.Wait()
	}()
	var unread error
	var failed []outcome // the first ones, by position
	more := 0
	sortFailed := func() {
		slices.SortFunc(failed, func(a, b outcome) int {
			return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.blob.SHA256, b.blob.SHA256))
		})
	}
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
			o.err = fmt.Errorf("%s %s cannot be read: %w", what, o.blob.SHA256, o.err)
			if failed = append(failed, o); len(failed) == 2*mostFindings {
				sortFailed()
				failed, more = failed[:mostFindings], more+mostFindings
			}
		}
	}
	sortFailed()
	for _, o := range failed {
		v.report.addFinding(o.seq, "%v", o.err)
	}
	v.report.Found += more // the report lists no more than mostFindings
	if err := cmp.Or(ctx.Err(), listed); err != nil {
		return err
	}
	if v.report.Found > 0 {
		return nil // the verdict is known
	}
	return unread
}
