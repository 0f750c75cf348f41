package translog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// Feed delivers the ledger in order, as it is stored.
type Feed interface {
	// FollowRaw calls fn with every message after a position, in batches as they
	// are at hand, until ctx is done or fn fails. last is the newest position
	// known.
	FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error
}

// Ledger is what checkpoints are written to.
type Ledger interface {
	// Append stores an event; a negative after expects nothing.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// LastSeq is the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Options set up a Log. Dir is required.
type Options struct {
	// Dir holds tiles, checkpoints and, without KeyFile, the signing key. It must
	// not be inside the directory of the stream.
	Dir string
	// KeyFile holds the signing key; it is made if it does not exist.
	KeyFile string
	// Every is the least time between two checkpoints that nobody asked for;
	// default 1 s.
	Every time.Duration
	// WitnessURL is sent every checkpoint, by POST; empty sends none.
	WitnessURL string
	// Lost, if set, tells which positions are on record as lost; any other that is
	// missing is damage.
	Lost func() events.Lost
	// Removed, if set, tells up to where volumes were removed: of their events there
	// are hashes only.
	Removed func() events.Removal
	// Kept, if set, is called after a checkpoint was written beside the ledger.
	Kept func()
	// NoSync does not wait for the disk. Only for tests.
	NoSync bool
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// durableEvery is how many events may have to be hashed again after a crash.
const durableEvery = 1 << 16

// Log is the tree over a ledger that grows, and its checkpoints. It is safe for
// concurrent use; one Run makes it follow.
type Log struct {
	opts    Options
	keys    keys
	log     *slog.Logger
	witness *witness // nil without one
	poke    chan struct{}
	// exhaustedPause is how long Run waits before it continues after the machine was
	// out of something.
	exhaustedPause time.Duration

	keeping sync.Mutex // of the file of checkpoints

	mu   sync.Mutex
	tree *proof.Tree
	file *tileFiles
	// confirm are the leaves on file behind the last full tile: the first ones
	// that are read must be equal.
	confirm []proof.Hash
	// durable is the size that is safe on disk, target the end of the ledger when
	// Run began, real the position of the last event that is no checkpoint, latest
	// the newest checkpoint of our own.
	durable, target, real uint64
	latest                proof.Checkpoint
	wanted                uint64 // the server waits for a checkpoint of this size
	asked                 uint64 // a client waits for a checkpoint of this size
	started               bool
	final                 bool              // Seal waits: what fails is tried again at once
	failing               error             // why the last checkpoint could not be recorded
	unkept                *proof.Checkpoint // recorded, but not written to its file yet
	damage                error
	changed               chan struct{} // closed and replaced when any of these changed
}

// Open reads what is kept in opts.Dir, and makes the ledger's identity and key
// if there are none. What cannot be confirmed is computed again by Run.
func Open(opts Options) (*Log, error) {
	opts.Every = cmp.Or(opts.Every, time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{file: &tileFiles{dir: opts.Dir}, opts: opts, log: opts.Logger, exhaustedPause: exhaustedPause, poke: make(chan struct{}, 1), changed: make(chan struct{})}
	var err error
	if l.keys, err = openKeys(opts.Dir, opts.KeyFile); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if l.witness, err = newWitness(opts.WitnessURL, opts.Logger); err != nil {
		return nil, err
	}
	if l.latest, err = lastCheckpoint(opts.Dir, l.keys.known); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l.load()
	return l, nil
}

// load takes up the tree where it was last safe on disk, or begins anew.
func (l *Log) load() {
	d, err := readDurable(l.opts.Dir)
	if err == nil {
		l.tree, err = l.file.load(d.size)
	}
	if err == nil && l.tree.Root() != d.root {
		err = errors.New("its files do not have the hash on record")
	}
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			l.log.Warn("the tree of hashes is computed anew", "err", err)
		}
		l.tree = proof.NewTree(l.file)
		return
	}
	l.durable, l.real = d.size, d.real
	// The stream is read again from the last full tile on.
	l.confirm = l.tree.PartialLeaves()
}

// Origin is the name that checkpoints are signed under.
func (l *Log) Origin() string { return l.keys.Origin }

// VKey is the key that checkpoints of this ledger are verified with.
func (l *Log) VKey() string { return l.keys.vkey }

// VKeys are that key and, before it, any earlier ones.
func (l *Log) VKeys() []string { return l.keys.known }

// exhaustedPause is the default of Log.exhaustedPause.
const exhaustedPause = time.Second

// Run hashes what feed delivers and writes checkpoints to ledger, until ctx is
// done or the feed fails. Damage ends it with events.ErrDamaged: it is also told
// by Damage, and nothing is signed any more. While the disk is full, or descriptors
// are missing, it tries again.
func (l *Log) Run(ctx context.Context, feed Feed, ledger Ledger) error {
	err := l.run(ctx, feed, ledger)
	for logged := false; exhausted.Is(err) && ctx.Err() == nil; err = l.run(ctx, feed, ledger) {
		if !logged {
			l.log.WarnContext(ctx, "the ledger cannot be hashed and signed now; it is tried again until it can", "err", err)
			logged = true
		}
		select {
		case <-time.After(l.exhaustedPause):
		case <-ctx.Done():
		}
	}
	if errors.Is(err, events.ErrDamaged) {
		l.mu.Lock()
		l.damage = err
		l.wake()
		l.mu.Unlock()
		return err
	}
	return errors.Join(err, l.makeDurable())
}

func (l *Log) run(ctx context.Context, feed Feed, ledger Ledger) error {
	last, err := ledger.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("follow the ledger: %w", err)
	}
	l.mu.Lock()
	from := l.tree.Size() - uint64(len(l.confirm))
	l.target, l.started = last, true
	hashed, signed := l.tree.Size(), l.latest
	l.mu.Unlock()
	if hashed > last {
		return fmt.Errorf("%w: the ledger ends at event %d, but %d had been hashed; restore the ledger from a copy, or start once with --accept-damage", events.ErrDamaged, last, hashed)
	}
	if signed.Size > last {
		return fmt.Errorf("%w: the ledger ends at event %d, but a checkpoint of %d events was signed; restore the ledger from a copy, or start once with --accept-damage", events.ErrDamaged, last, signed.Size)
	}
	if err := l.agrees(signed); err != nil {
		return err
	}
	signing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { l.sign(signing, ledger) })
	if l.witness != nil {
		beside.Go(func() { l.witness.run(signing) })
	}
	l.signal()
	err = feed.FollowRaw(ctx, from, l.take)
	stop()
	beside.Wait()
	return err
}

// take adds a batch to the tree.
func (l *Log) take(batch []events.Stored, _ uint64) error {
	leaves := make([]proof.Hash, len(batch))
	var buf []byte
	for i := range batch {
		var err error
		if leaves[i], buf, err = proof.HashLeaf(buf, eventproof.RecordOf(batch[i])); err != nil {
			return fmt.Errorf("%w: %w", events.ErrDamaged, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.Lost()
	for i, m := range batch {
		if err := l.cross(m, lost); err != nil {
			return err
		}
		if len(l.confirm) > 0 {
			if leaves[i] != l.confirm[0] {
				return fmt.Errorf("%w: event %d is not the one that was hashed when it was recorded", events.ErrDamaged, m.Seq)
			}
			l.confirm = l.confirm[1:]
			continue
		}
		if m.Seq != l.tree.Size()+1 {
			if err := eventproof.AddHoleLeaves(l.tree, m); err != nil {
				return err
			}
		}
		if eventproof.HoldsCheckpoint(m) { // before the leaf: what fails here for lack of something is done again
			if err := l.passed(m); err != nil {
				return err
			}
		}
		if err := l.tree.Add(leaves[i]); err != nil {
			return err
		}
		if l.tree.Size() == l.latest.Size && l.tree.Root() != l.latest.Root && !eventproof.IsIncomparable(lost, l.tree.Size()) {
			return disagrees(l.latest, l.tree.Root())
		}
		if !eventproof.IsCheckpoint(m) {
			l.real = m.Seq
		}
	}
	l.wake()
	if due, _ := l.due(); due {
		l.signal()
	}
	if l.tree.Size()-l.durable >= durableEvery {
		// The lock is given up while the disk is waited for.
		l.mu.Unlock()
		defer l.mu.Lock()
		return l.makeDurable()
	}
	return nil
}

// Lost are the positions that are on record as lost.
func (l *Log) Lost() events.Lost {
	if l.opts.Lost == nil {
		return nil
	}
	return l.opts.Lost()
}

// cross takes the positions between what was read and a message as lost, if that
// is on record; what else is missing is for others to judge. It is called with mu
// held.
func (l *Log) cross(m events.Stored, lost events.Lost) error {
	at := l.tree.Size() - uint64(len(l.confirm))
	if gone := min(l.Removed().UpTo(), m.Seq-1); at < gone {
		if gone-at > uint64(len(l.confirm)) {
			return fmt.Errorf("%w: the hashes of events %d to %d are missing, which were removed with their volume; restore the directory %s from a copy", events.ErrDamaged, l.tree.Size()+1, gone, l.opts.Dir)
		}
		l.confirm = l.confirm[gone-at:]
		at = gone
	}
	if m.Seq <= at+1 || !lost.Covers(at+1, m.Seq-1) {
		return nil
	}
	known := min(m.Seq-1-at, uint64(len(l.confirm)))
	l.confirm = l.confirm[known:]
	return eventproof.AddLost(l.tree, lost, m.Seq-1, nil)
}

// passed compares a checkpoint on record with the events before it. It is called
// with mu held.
func (l *Log) passed(m events.Stored) error {
	c, err := eventproof.CheckpointIn(m)
	if err != nil {
		return err
	}
	if c.Note == nil || c.Origin == l.latest.Origin && c.Size == l.latest.Size && c.Root == l.latest.Root {
		return nil // none, or just made
	}
	if c.Size >= m.Seq {
		return fmt.Errorf("%w: the checkpoint at position %d covers %d events", events.ErrDamaged, m.Seq, c.Size)
	}
	if eventproof.IsIncomparable(l.Lost(), c.Size) {
		return nil
	}
	root, err := l.tree.RootAt(c.Size)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	if root != c.Root {
		return disagrees(c, root)
	}
	if c.Origin != l.keys.Origin || c.Size <= l.latest.Size {
		return nil
	}
	if _, err := proof.OpenCheckpoint(c.Note, l.keys.known...); err != nil {
		l.log.Warn("a checkpoint on record has no signature of this ledger's keys", "position", m.Seq, "err", err)
		return nil
	}
	l.latest = c
	return nil
}

func disagrees(c proof.Checkpoint, root proof.Hash) error {
	return fmt.Errorf("%w: a checkpoint of %s says that the first %d events have the tree hash %s, those on record have %s",
		events.ErrDamaged, c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
}

// agrees compares a checkpoint with the tree, if that has come so far.
func (l *Log) agrees(c proof.Checkpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Note == nil || c.Size > l.tree.Size() || eventproof.IsIncomparable(l.Lost(), c.Size) {
		return nil
	}
	root, err := l.tree.RootAt(c.Size)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	if root != c.Root {
		return disagrees(c, root)
	}
	return nil
}

// wake tells those who wait that something changed. It is called with mu held.
func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// signal makes the signer look.
func (l *Log) signal() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// Damage is what stopped Run for good, or nil.
func (l *Log) Damage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// Size is how many events the tree has.
func (l *Log) Size() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.Size() - uint64(len(l.confirm))
}

// Latest is the newest checkpoint, or false when there is none yet.
func (l *Log) Latest() (proof.Checkpoint, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest, l.latest.Note != nil
}
