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
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/internal/resources/exhausted"
	"daybook/internal/spans"
	"daybook/proof"
)

// Feed delivers the stored messages of the ledger in order.
type Feed interface {
	// FollowRaw calls fn with every message after a position, in batches, until ctx is done or fn
	// fails. last is the newest known position.
	FollowRaw(ctx context.Context, after uint64, fn func(batch []events.Stored, last uint64) error) error
}

// Ledger receives the checkpoints.
type Ledger interface {
	// Append stores an event and returns its position. after is the expected position; if it is
	// negative, Append stores the event without condition.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// LastSeq returns the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Options configure a Log. Dir is required.
type Options struct {
	// Dir is the audit directory. It contains tiles, checkpoints and, without KeyFile, the signing
	// key. It MUST NOT be inside the directory of the stream.
	Dir string
	// KeyFile is the file of the signing key. Open creates it if it does not exist. Default: the
	// file "key" in Dir.
	KeyFile string
	// SignedFile is the file with the newest checkpoint that this server signed. It SHOULD be
	// where only the server can write. Default: the name of the key file and ".signed".
	SignedFile string
	// Every is the minimum time between two checkpoints without a request. Default: 1 s.
	Every time.Duration
	// WitnessURL receives every checkpoint by POST. Empty disables the witness.
	WitnessURL string
	// Lost, if set, returns the positions that events name as lost. Any other missing position is
	// damage.
	Lost func() events.Lost
	// Removed, if set, returns the end of the removed volumes. Only the hashes of their events
	// remain.
	Removed func() events.Removal
	// OnCheckpointStored, if set, is called after a checkpoint was written to its file in Dir.
	OnCheckpointStored func()
	// NoSync skips all waiting for the disk. Only for tests.
	NoSync bool
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// durableEvery is the maximum number of events that are hashed again after a crash.
const durableEvery = 1 << 16

// Log is the Merkle tree of a growing ledger, with its checkpoints. It is safe for concurrent use.
// The caller MUST call Run once to make it follow the ledger.
type Log struct {
	opts    Options
	keys    keys
	log     *slog.Logger
	witness *witness // nil without one
	signNow chan struct{}
	// exhaustedPause is the time that Run waits before it continues after an error, such as that the
	// machine ran out of a resource.
	exhaustedPause time.Duration

	checkpointsMu sync.Mutex // guards the file of checkpoints and the signed file; locked before mu
	filesMu       sync.Mutex // guards the files of the tree except full tiles; locked before mu

	mu   sync.Mutex
	tree *proof.Tree
	file *tileFiles
	// confirm holds the stored leaves after the last full tile. The leaves of the first events that
	// are read MUST equal them.
	confirm []proof.Hash
	// durable is the size that is on disk, target the end of the ledger when Run started,
	// lastNonCheckpoint the position of the last event that is not a checkpoint, and latest the
	// newest checkpoint of this ledger that is in the file of checkpoints.
	durable, target, lastNonCheckpoint uint64
	latest                             proof.Checkpoint
	signed                             proof.Checkpoint // the newest one that was signed, in the signed file
	urgentSize                         uint64           // the server waits for a checkpoint of at least this size
	clientSize                         uint64           // a client waits for a checkpoint of at least this size
	started                            bool
	final                              bool              // FinalCheckpoint waits: retry after finalPause
	failing                            error             // why the last checkpoint could not be recorded
	unstored                           *proof.Checkpoint // recorded, not written to its file yet
	damage                             error
	changedCh                          chan struct{} // closed and replaced by wake
}

// Open reads the audit directory. It creates the directory, the ledger identity and the signing
// key if they do not exist. If the files of the tree do not match its recorded hash, Run computes
// the whole tree again.
func Open(opts Options) (*Log, error) {
	opts.Every = cmp.Or(opts.Every, time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if err := durable.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{file: &tileFiles{dir: opts.Dir}, opts: opts, log: opts.Logger, exhaustedPause: exhaustedPause, signNow: make(chan struct{}, 1), changedCh: make(chan struct{})}
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
	if err := l.openSigned(); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l.load()
	return l, nil
}

// load continues with the tree that was last on disk, or starts from scratch.
func (l *Log) load() {
	d, err := readDurable(l.opts.Dir)
	if errors.Is(err, os.ErrNotExist) { // the first start
		l.tree = proof.NewTree(l.file)
		return
	}
	if err == nil {
		l.tree, err = l.file.load(d.size)
	}
	if err == nil && l.tree.Root() != d.root {
		err = errors.New("its files do not match the recorded hash")
	}
	if err != nil {
		l.log.Warn("the tree of hashes is computed again", "err", err)
		l.tree = proof.NewTree(l.file)
		return
	}
	l.durable, l.lastNonCheckpoint = d.size, d.lastNonCheckpoint
	// The stream is read again from the last full tile on.
	l.confirm = l.tree.PartialLeaves()
}

// Origin returns the name under which checkpoints are signed.
func (l *Log) Origin() string { return l.keys.Origin }

// VKey returns the current verification key of the ledger.
func (l *Log) VKey() string { return l.keys.vkey }

// VKeys returns all verification keys of the ledger, the current one last.
func (l *Log) VKeys() []string { return l.keys.known }

// exhaustedPause is the default of Log.exhaustedPause.
const exhaustedPause = time.Second

// Run hashes the events of feed and appends checkpoints to ledger, until ctx is done. If the disk is
// full, file descriptors run out, or feed or ledger fails, it retries. On damage it stops signing and
// returns events.ErrDamaged; Damage then returns the same error.
func (l *Log) Run(ctx context.Context, feed Feed, ledger Ledger) error {
	err := l.run(ctx, feed, ledger)
	for logged := false; err != nil && !errors.Is(err, events.ErrDamaged) && ctx.Err() == nil; err = l.run(ctx, feed, ledger) {
		if !logged {
			l.log.WarnContext(ctx, "the ledger cannot be hashed and signed now; retrying", "err", err)
			logged = true
		}
		l.waitToRetry(ctx)
	}
	if errors.Is(err, events.ErrDamaged) {
		l.mu.Lock()
		l.damage = err
		l.wake()
		l.mu.Unlock()
		return err
	}
	// The events after the last saved tree are hashed again at the next start. That is worth a
	// short wait for descriptors, no more.
	saved := l.makeDurable()
	for tries := 0; exhausted.Is(saved) && tries < saveTries; tries++ {
		time.Sleep(finalPause)
		saved = l.makeDurable()
	}
	return errors.Join(err, saved)
}

// saveTries is how often Run tries again to save the tree at its end.
const saveTries = 10

// waitToRetry waits for exhaustedPause, and for finalPause while FinalCheckpoint waits.
func (l *Log) waitToRetry(ctx context.Context) {
	pause := min(finalPause, l.exhaustedPause)
	for waited := time.Duration(0); waited < l.exhaustedPause; waited += pause {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		final := l.final
		l.mu.Unlock()
		if final {
			return
		}
	}
}

func (l *Log) run(ctx context.Context, feed Feed, ledger Ledger) error {
	last, err := ledger.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("follow the ledger: %w", err)
	}
	l.mu.Lock()
	from := l.tree.Size() - uint64(len(l.confirm))
	l.target, l.started = last, true
	hashed, mustHold := l.tree.Size(), l.mustHold()
	l.mu.Unlock()
	if hashed > last {
		return fmt.Errorf("%w: the ledger ends at event %d, but %d had been hashed; restore the ledger from a backup, or start once with --accept-damage", events.ErrDamaged, last, hashed)
	}
	for _, signed := range mustHold {
		if signed.Size > last {
			return fmt.Errorf("%w: the ledger ends at event %d, but a checkpoint of %d events was signed; restore the ledger from a backup, or start once with --accept-damage", events.ErrDamaged, last, signed.Size)
		}
		if err := l.matchesTree(signed); err != nil {
			return err
		}
	}
	signing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { l.sign(signing, ledger) })
	if l.witness != nil {
		beside.Go(func() { l.witness.run(signing) })
	}
	l.signal()
	err = feed.FollowRaw(ctx, from, l.appendBatch)
	stop()
	beside.Wait()
	return err
}

// appendBatch appends a batch to the tree.
func (l *Log) appendBatch(batch []events.Stored, _ uint64) error {
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
		if err := l.skipMissing(m, lost); err != nil {
			return err
		}
		if len(l.confirm) > 0 {
			if leaves[i] != l.confirm[0] {
				return fmt.Errorf("%w: event %d does not match the hash that was computed when it was recorded", events.ErrDamaged, m.Seq)
			}
			l.confirm = l.confirm[1:]
			continue
		}
		if m.Seq != l.tree.Size()+1 {
			if err := eventproof.AddHoleLeaves(l.tree, m); err != nil {
				return err
			}
		}
		if eventproof.HoldsCheckpoint(m) { // before the leaf is added: if resources run out, the message is read again
			if err := l.checkCheckpoint(m); err != nil {
				return err
			}
		}
		if err := l.tree.Add(leaves[i]); err != nil {
			return err
		}
		for _, c := range l.mustHold() {
			if l.tree.Size() == c.Size && l.tree.Root() != c.Root && !eventproof.IsIncomparable(lost, c.Size) {
				return disagrees(c, l.tree.Root())
			}
		}
		if !eventproof.IsCheckpoint(m) {
			l.lastNonCheckpoint = m.Seq
		}
	}
	l.wake()
	if due, _ := l.signDue(); due {
		l.signal()
	}
	if l.tree.Size()-l.durable >= durableEvery {
		// makeDurable waits for the disk, so it is called without the lock.
		l.mu.Unlock()
		defer l.mu.Lock()
		return l.makeDurable()
	}
	return nil
}

// Lost returns the positions that events name as lost.
func (l *Log) Lost() events.Lost {
	if l.opts.Lost == nil {
		return nil
	}
	return l.opts.Lost()
}

// skipMissing advances the tree over positions before m that are removed or recorded as lost. The
// caller handles other gaps and must hold mu.
func (l *Log) skipMissing(m events.Stored, lost events.Lost) error {
	at := l.tree.Size() - uint64(len(l.confirm))
	if removed := min(l.Removed().UpTo(), m.Seq-1); at < removed {
		if removed-at > uint64(len(l.confirm)) {
			return fmt.Errorf("%w: the hashes of events %d to %d are missing, which were removed with their volume; restore the directory %s from a backup", events.ErrDamaged, l.tree.Size()+1, removed, l.opts.Dir)
		}
		l.confirm = l.confirm[removed-at:]
		at = removed
	}
	if m.Seq <= at+1 || !spans.Covers(lost, at+1, m.Seq-1) {
		return nil
	}
	known := min(m.Seq-1-at, uint64(len(l.confirm)))
	l.confirm = l.confirm[known:]
	return eventproof.AddLost(l.tree, lost, m.Seq-1, nil)
}

// checkCheckpoint compares a recorded checkpoint with the events before it. The caller must hold mu.
func (l *Log) checkCheckpoint(m events.Stored) error {
	c, err := eventproof.CheckpointIn(m)
	if err != nil {
		return err
	}
	if c.Note == nil || c.Origin == l.latest.Origin && c.Size == l.latest.Size && c.Root == l.latest.Root {
		return nil // no checkpoint, or the newest known one
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
	if c.Origin != l.keys.Origin || c.Size <= l.latest.Size || l.unstored != nil && c.Size <= l.unstored.Size {
		return nil
	}
	if _, err := proof.OpenCheckpoint(c.Note, l.keys.known...); err != nil {
		return fmt.Errorf("%w: the checkpoint at position %d names this ledger, but none of its keys signed it (%w); if the file %s of the proofs lost a key, restore it from a backup",
			events.ErrDamaged, m.Seq, err, fileVKey)
	}
	// The signer stores it. Only then it is the newest checkpoint: FinalCheckpoint returns when the
	// file contains what it waits for, even if the event is read before Append returns.
	l.unstored = &c
	return nil
}

func disagrees(c proof.Checkpoint, root proof.Hash) error {
	return fmt.Errorf("%w: a checkpoint of %s says that the first %d events have the tree hash %s, the recorded events have %s",
		events.ErrDamaged, c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
}

// matchesTree compares a checkpoint with the tree, unless the tree is smaller than the checkpoint.
func (l *Log) matchesTree(c proof.Checkpoint) error {
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

// wake notifies waiters of a change. The caller must hold mu.
func (l *Log) wake() {
	close(l.changedCh)
	l.changedCh = make(chan struct{})
}

// signal wakes the signer.
func (l *Log) signal() {
	select {
	case l.signNow <- struct{}{}:
	default:
	}
}

// Damage returns the damage that stopped Run, or nil.
func (l *Log) Damage() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// Size returns the number of leaves, without the stored ones that Run has not confirmed yet.
func (l *Log) Size() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tree.Size() - uint64(len(l.confirm))
}

// Latest returns the newest checkpoint. It reports false if there is none yet.
func (l *Log) Latest() (proof.Checkpoint, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest, l.latest.Note != nil
}
