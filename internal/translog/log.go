package translog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
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
	// EachStored calls fn for each event on a subject, oldest first, with the message as it is stored.
	EachStored(ctx context.Context, subject string, fn func(events.Stored, events.Event) error) error
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
	// WitnessURL receives a copy of every checkpoint by POST. Empty sends none.
	WitnessURL string
	// WitnessPolicy is the file of a policy (C2SP tlog-policy). Its witnesses that have a URL are
	// asked to cosign checkpoints. Empty asks none.
	WitnessPolicy string
	// OnWitnessConflict, if set, is called when a witness knows a checkpoint that contradicts the
	// tree, or claims to; see WitnessConflict. It is called in a goroutine of Run. If the conflict is
	// proven, Run then ends with damage.
	OnWitnessConflict func(*WitnessConflict)
	// Lost, if set, returns the positions that events name as lost. Any other missing position is
	// damage.
	Lost func() events.Lost
	// Removed, if set, returns the end of the removed volumes. Only the hashes of their events
	// remain.
	Removed func() events.Removal
	// OnCheckpointStored, if set, is called after a checkpoint was written to its file in Dir.
	OnCheckpointStored func()
	// Shared means that other servers can write to the ledger, each with a Log of its own.
	Shared bool
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
	opts   Options
	log    *slog.Logger
	copies *copySender // nil without Options.WitnessURL
	// witnesses is nil without Options.WitnessPolicy.
	witnesses *witnesses
	signNow   chan struct{}
	// exhaustedPause is the time that Run waits before it continues after an error, such as that the
	// machine ran out of a resource.
	exhaustedPause time.Duration
	// checkpointsFileBytes is the length at which the file of checkpoints is full.
	checkpointsFileBytes int64

	checkpointsMu sync.Mutex // guards the file of checkpoints and the signed file; locked before mu
	filesMu       sync.Mutex // guards the files of the tree except full tiles; locked before mu

	saveSignersMu sync.Mutex // guards the file of statements; locked after filesMu and before mu

	rotateMu sync.Mutex // held by RotateKey; locked before changeMu
	changeMu sync.Mutex // held by ChangeSigners; locked before mu

	mu   sync.Mutex
	keys keys // replaced when the origin ends
	// signers are the statements about the signers that were read, signersSeq the position of the
	// newest one, and startedAt that of the first one, once readSigners has read them in the ledger
	// (signersRead). savedSigners is the number of those in their file, and starting is true between
	// the appending of a statement and its reading.
	signers      *proof.Signers
	signersSeq   uint64
	startedAt    uint64
	signersRead  bool
	savedSigners int
	starting     bool
	// trust is the result of counting for a list of signers, which the next statement after it names,
	// and for known keys.
	trust      *proof.Trust
	trustOf    proof.Statement
	trustKnown []string
	tree       *proof.Tree
	file       *tileFiles
	// confirm holds the stored leaves after the last full tile. The leaves of the first events that
	// are read MUST equal them.
	confirm []proof.Hash
	stored  *storedLeaves // those before confirm, if unsigned events are read again
	// rereadTo is the position up to which run still reads events before confirm again, or 0. Until they
	// are read, nothing is signed.
	rereadTo uint64
	// durable is the size that is on disk, target the end of the ledger when Run started,
	// lastNonCheckpoint the position of the last event that is not a checkpoint, and latest the
	// newest checkpoint of this ledger that is in the file of checkpoints.
	durable, target, lastNonCheckpoint uint64
	latest                             proof.Checkpoint
	signed                             proof.Checkpoint // the newest one that was signed, in the signed file
	confirmed                          proof.Checkpoint // the newest one that was read and agrees with the tree
	urgentSize                         uint64           // the server waits for a checkpoint of at least this size
	clientSize                         uint64           // a client waits for a checkpoint of at least this size
	started                            bool
	// unasked is true until the witnesses were asked for the newest checkpoint that they know, or had
	// their time to answer. Until then nothing is signed.
	unasked bool
	// treeReset is true after resetForeignTree has discarded the tree in the files.
	treeReset bool
	final     bool              // FinalCheckpoint waits: retry after finalPause
	failing   error             // why the last checkpoint could not be recorded
	unstored  *proof.Checkpoint // recorded, not written to its file yet
	// damage ended Run. suspected is damage that run has found, while runOrBreak has not decided yet whether
	// the tree is computed again, the origin ends, or Run. Nothing is signed with either.
	damage, suspected error
	changedCh         chan struct{} // closed and replaced by wake
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
	l := &Log{file: &tileFiles{dir: opts.Dir}, opts: opts, log: opts.Logger, exhaustedPause: exhaustedPause, checkpointsFileBytes: checkpointsFileBytes, signNow: make(chan struct{}, 1), changedCh: make(chan struct{})}
	var err error
	if l.signers, err = readSignersFile(opts.Dir); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l.savedSigners = len(l.signers.Statements())
	if err := l.useNextKey(); err != nil { // an interrupted rotation
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if l.keys, err = openKeys(opts, l.signers); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if l.copies, err = newCopySender(opts.WitnessURL, opts.Logger); err != nil {
		return nil, err
	}
	if l.witnesses, err = openWitnesses(l); err != nil {
		return nil, err
	}
	if l.latest, err = lastCheckpoint(opts.Dir, ofOrigin(l.counting().Keys, l.keys.Origin)); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if _, err := l.counting().Open(l.latest.Note); err != nil { // a key signed it that was retired since
		l.latest = proof.Checkpoint{}
	}
	l.unasked = l.witnesses != nil
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
func (l *Log) Origin() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys.Origin
}

// VKey returns the current verification key of this server.
func (l *Log) VKey() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys.vkey
}

// exhaustedPause is the default of Log.exhaustedPause.
const exhaustedPause = time.Second

// Run hashes the events of feed and appends checkpoints to ledger, until ctx is done. If the disk is
// full, file descriptors run out, or feed or ledger fails, it retries. On damage it stops signing and
// returns events.ErrDamaged; Damage then returns the same error.
func (l *Log) Run(ctx context.Context, feed Feed, ledger Ledger) error {
	err := l.runOrBreak(ctx, feed, ledger)
	for logged := false; err != nil && !errors.Is(err, events.ErrDamaged) && ctx.Err() == nil; err = l.runOrBreak(ctx, feed, ledger) {
		if errors.Is(err, errOtherOrigin) {
			continue
		}
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

// runOrBreak is run. If the files of the tree contradict what was signed, or cannot be read, it runs again without them. If the
// origin cannot continue and the operator accepted that, it ends the origin and runs with the next one.
func (l *Log) runOrBreak(ctx context.Context, feed Feed, ledger Ledger) error {
	for {
		err := l.run(ctx, feed, ledger)
		broken, ok := errors.AsType[*breakError](err)
		_, unreadable := errors.AsType[*tileError](err)
		if ok || unreadable {
			if again, resetErr := l.resetForeignTree(unreadable); again {
				continue
			} else if resetErr != nil {
				l.log.ErrorContext(ctx, "the tree of hashes cannot be computed again", "err", resetErr)
			}
		}
		if !ok || !l.damageAccepted() {
			return err
		}
		l.log.WarnContext(ctx, "the ledger differs from what was signed", "err", broken.err)
		if err := l.endOrigin(broken.reason); err != nil {
			return err
		}
	}
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
	if l.witnesses != nil {
		if conflict := l.witnesses.proven(); conflict != nil { // the feed failed before the run before could return it
			return l.endSigning(conflict)
		}
	}
	last, err := ledger.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("follow the ledger: %w", err)
	}
	l.mu.Lock()
	from := l.tree.Size() - uint64(len(l.confirm))
	l.rereadTo, l.suspected = 0, nil
	if l.signed.Note != nil && l.signed.Size < from {
		// The files of the tree prove nothing about events that are not signed: a person who can write
		// the events can write the files. So their checkpoints, openings and statements are read again.
		from, l.rereadTo = l.signed.Size, from
	}
	l.target, l.started, l.stored = last, false, nil
	hashed, mustHold, lost := l.tree.Size(), l.mustHold(), l.Lost()
	l.mu.Unlock()
	if hashed > last {
		return breakOf(setBack, "the ledger ends at event %d, but %d had been hashed", last, hashed)
	}
	for _, signed := range mustHold {
		_, unknown := eventproof.UnknownIn(lost, signed.Size)
		switch {
		case signed.Size > last:
			return breakOf(setBack, "the ledger ends at event %d, but a checkpoint of %d events was signed", last, signed.Size)
		case signed.Note != nil && unknown:
			return breakOf(wasLost, "a checkpoint of %d events was signed, and the hashes of lost events among them are not known", signed.Size)
		}
		if err := l.matchesTree(signed); err != nil {
			return err
		}
	}
	if err := l.readSigners(ctx, ledger); err != nil {
		return err
	}
	if err := l.compareRemovals(ctx, ledger); err != nil {
		return err
	}
	l.mu.Lock()
	l.started = true // the tree was compared with what was signed
	l.wake()
	l.mu.Unlock()
	signing, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { l.sign(signing, ledger) })
	beside.Go(func() { l.finishRotation(signing, ledger) })
	if l.copies != nil {
		beside.Go(func() { l.copies.run(signing) })
	}
	if l.witnesses != nil {
		beside.Go(func() {
			if err := l.witnesses.run(signing, ledger); err != nil {
				stop(err)
			}
		})
	}
	l.signal()
	err = feed.FollowRaw(signing, from, l.appendBatch)
	stop(nil)
	beside.Wait()
	if broken := context.Cause(signing); errors.Is(broken, events.ErrDamaged) && !errors.Is(err, events.ErrDamaged) {
		return broken
	}
	return err
}

// appendBatch appends a batch to the tree.
func (l *Log) appendBatch(batch []events.Stored, _ uint64) (err error) {
	leaves := make([]proof.Hash, len(batch))
	var buf []byte
	for i := range batch {
		if leaves[i], buf, err = proof.HashLeaf(buf, eventproof.RecordOf(batch[i])); err != nil {
			return fmt.Errorf("%w: %w", events.ErrDamaged, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		if errors.Is(err, events.ErrDamaged) {
			l.suspected = err
		}
	}()
	lost := l.Lost()
	for i, m := range batch {
		before := l.tree.Size()
		if err := l.skipMissing(m, lost); err != nil {
			return err
		}
		if m.Seq <= l.tree.Size()-uint64(len(l.confirm)) { // not signed yet, but in the tree
			if err := l.confirmStored(m.Seq, leaves[i]); err != nil {
				return err
			}
			if err := l.checkUnsigned(m); err != nil {
				return err
			}
			if m.Seq == l.rereadTo {
				l.rereadTo = 0
			}
			continue
		}
		l.rereadTo = 0
		if len(l.confirm) > 0 {
			if leaves[i] != l.confirm[0] {
				return eventChanged(m.Seq)
			}
			if err := l.checkUnsigned(m); err != nil {
				return err
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
		if err := errors.Join(l.readStatement(m), l.checkOpening(m), l.checkRemoval(m)); err != nil {
			return err
		}
		if err := l.tree.Add(leaves[i]); err != nil {
			return err
		}
		for _, c := range l.mustHold() {
			if before < c.Size && c.Size <= l.tree.Size() { // smaller than the tree if lost events follow it
				if err := l.compareWithTree(c); err != nil {
					return err
				}
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
	ended := l.hasEnded(c.Origin)
	if c.Size >= m.Seq {
		return fmt.Errorf("%w: the checkpoint at position %d covers %d events", events.ErrDamaged, m.Seq, c.Size)
	}
	if r, unknown := eventproof.UnknownIn(l.Lost(), c.Size); unknown {
		if ended || l.startedAt == 0 || r.NamedAt < l.startedAt { // accepted before the ledger had an origin
			return nil
		}
		return breakOf(wasLost, "the checkpoint at position %d is of %s and covers %d events, and the hashes of lost events among them are not known", m.Seq, c.Origin, c.Size)
	}
	if eventproof.IsInLostTile(l.Lost(), c.Size) { // the newest checkpoints are compared: see ProvenLeaves.Ranges
		return nil
	}
	root, err := l.rootAt(c.Size)
	if err != nil {
		return err
	}
	switch {
	case root == c.Root:
		l.confirmed = c
	case ended: // its successor states how many events it confirms
		return nil
	default:
		return disagrees(c, root)
	}
	if c.Origin != l.keys.Origin || c.Size <= l.latest.Size || l.unstored != nil && c.Size <= l.unstored.Size {
		return nil
	}
	counting := l.counting()
	if _, err := proof.OpenCheckpoint(c.Note, counting.Keys...); err != nil {
		return breakOf("another key signed in the name of the origin", "the checkpoint at position %d names this ledger, but none of its keys signed it (%w)", m.Seq, err)
	}
	if _, err := counting.Open(c.Note); err != nil {
		return nil //nolint:nilerr // a retired key signed it
	}
	if _, err := proof.OpenCheckpoint(c.Note, l.keys.vkey); err != nil && l.maySign() {
		return nil // that of another server; this one signs its own
	}
	// The signer stores it. Only then it is the newest checkpoint: FinalCheckpoint returns when the
	// file contains what it waits for, even if the event is read before Append returns.
	l.unstored = &c
	return nil
}

// Reasons why an origin ends.
const (
	setBack    = "the ledger was set back to an earlier state"
	wasChanged = "signed events were changed"
	wasLost    = "signed events were lost, and their hashes too"
)

func disagrees(c proof.Checkpoint, root proof.Hash) error {
	return breakOf(wasChanged, "a checkpoint of %s says that the first %d events have the tree hash %s, the recorded events have %s",
		c.Origin, c.Size, proof.EncodeHash(c.Root), proof.EncodeHash(root))
}

// hasEnded reports whether an origin of the ledger ended. The caller must hold mu.
func (l *Log) hasEnded(origin string) bool {
	return l.keys.Ended != nil && l.keys.Ended.Origin == origin || slices.ContainsFunc(l.signers.Statements(), func(st proof.Statement) bool { return st.Predecessor == origin })
}

// matchesTree is compareWithTree for a caller that does not hold mu.
func (l *Log) matchesTree(c proof.Checkpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.compareWithTree(c)
}

// compareWithTree compares a checkpoint with the tree, unless the tree is smaller than the checkpoint. In
// ledgers whose losses an earlier version recorded, the newest checkpoint can end inside a lost tile. The
// caller must hold mu.
func (l *Log) compareWithTree(c proof.Checkpoint) error {
	if c.Note == nil || c.Size > l.tree.Size() || eventproof.IsInLostTile(l.Lost(), c.Size) {
		return nil
	}
	root, err := l.rootAt(c.Size)
	if err != nil {
		return err
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
