package translog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// An origin is the name under which checkpoints are signed. It belongs to the ledger: statements in
// the ledger start it and name its signers. A key signs only while they name it. If the ledger
// contradicts what was signed, the origin cannot continue. It ends when the operator accepts that,
// and a successor starts, which confirms the events that still match.

// fileSigners is a file in the audit directory. It contains the statements about the signers, oldest
// first, each followed by an empty line. It is a copy of those in the ledger.
const fileSigners = "signers"

// acceptedSuffix is the end of the name of a file beside the signed file. It exists from when the
// operator accepts damage until the next checkpoint, or until this server takes over a successor that another
// server started. It is not in the audit directory: a person who can change the data must not be able to
// accept the change.
const acceptedSuffix = ".accepted"

// breakError is damage after which the origin cannot sign: what the ledger contains differs from
// what was signed. It is events.ErrDamaged.
type breakError struct {
	// reason is recorded if the origin ends.
	reason string
	err    error
}

// Error returns the message of the damage with what to do.
func (e *breakError) Error() string {
	if e.reason == keyLost { // the ledger is intact, and an older key is no help
		return e.err.Error() + "; if no such key exists any more, start once with --accept-damage to continue under a new origin, which tells every auditor"
	}
	return e.err.Error() + "; restore the data directory and the signing key from a backup that has the newest events, or start once with --accept-damage to continue under a new origin, which tells every auditor"
}

// Unwrap returns the damage.
func (e *breakError) Unwrap() error { return e.err }

func breakOf(reason, format string, args ...any) error {
	return &breakError{reason, fmt.Errorf("%w: "+format, append([]any{events.ErrDamaged}, args...)...)}
}

// keyLost is the reason of a *breakError if the ledger agrees with what was signed, and only the key
// cannot be used.
const keyLost = "the signing key was lost"

// IsKeyLost reports whether the error of Run says that it stopped only because the signing key cannot be used:
// then AddStatement can introduce another one.
func IsKeyLost(err error) bool {
	broken, ok := errors.AsType[*breakError](err)
	return ok && broken.reason == keyLost
}

// ContradictsSigned reports whether the error of Run says that the ledger differs from what was signed, or has events
// that this server must not sign.
func ContradictsSigned(err error) bool {
	broken, ok := errors.AsType[*breakError](err)
	return ok && broken.reason != keyLost
}

// AcceptDamage lets the next Log with these options sign after an opening that names lost events, and
// end the origin if it cannot be continued. The permission ends with the next checkpoint, or when the Log takes over
// the successor that another server started. The arguments are the fields of Options.
func AcceptDamage(dir, keyFile, signedFile string) error {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return replaceFile(SignedPath(dir, keyFile, signedFile)+acceptedSuffix, nil, 0o600, true)
}

// RefuseDamage takes the permission of AcceptDamage back.
func RefuseDamage(dir, keyFile, signedFile string) error {
	return durable.Remove(SignedPath(dir, keyFile, signedFile) + acceptedSuffix)
}

// acceptedPath returns the file that AcceptDamage makes.
func (l *Log) acceptedPath() string {
	return SignedPath(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile) + acceptedSuffix
}

func (l *Log) damageAccepted() bool { return exists(l.acceptedPath()) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkOpening returns a *breakError for an opening of a volume that names lost events, unless the
// operator of this server accepted the loss, or it was signed before. Servers of a shared ledger
// accept what the others accepted. The caller must hold mu.
func (l *Log) checkOpening(m events.Stored) error {
	if l.opts.Shared || l.signed.Note == nil || m.Seq <= l.signed.Size || m.Seq > l.target || !eventproof.HasType(m, events.TypeLedgerVolumeOpened) {
		return nil
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	if d, ok := e.Data.(*events.LedgerVolumeOpened); !ok || d.Reason != events.VolumeDamaged || l.damageAccepted() {
		return nil
	}
	return breakOf("another server accepted a loss", "event %d says that a loss was accepted, but not by the operator of this server", m.Seq)
}

// readSignersFile reads the statements in an audit directory. Without a file, the list is empty.
func readSignersFile(dir string) (*proof.Signers, error) {
	path := filepath.Join(dir, fileSigners)
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := proof.ParseSigners(raw)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w; remove it, and it is made again from the ledger", path, err)
	}
	return s, nil
}

// Signers returns the statements about the signers of the ledger.
func (l *Log) Signers() *proof.Signers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signers.Clone()
}

// SignersPosition returns the position of the newest statement that was read in the ledger, or 0.
func (l *Log) SignersPosition() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.signersSeq
}

// readSigners reads the statements in the ledger, and decides whether this server may sign.
func (l *Log) readSigners(ctx context.Context, ledger Ledger) error {
	if err := l.readStatements(ctx, ledger); err != nil {
		return err
	}
	// A crash before the statements were saved left an introduced key unused. If the lock is taken, RotateKey
	// waits for its statement, and uses the key.
	if l.rotateMu.TryLock() {
		err := l.useNextKey()
		l.rotateMu.Unlock()
		if err != nil {
			return err
		}
	}
	return l.checkOrigin()
}

// readStatements reads the statements in the ledger. It compares those that are in the tree with their leaves.
func (l *Log) readStatements(ctx context.Context, ledger Ledger) error {
	var refused error
	err := ledger.EachStored(ctx, events.SignersSubject(events.LedgerTenant), func(m events.Stored, e events.Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if refused = l.compareStored(m); refused == nil {
			refused = l.addStatement(e.Seq, e.Data)
		}
		return refused
	})
	if refused != nil {
		return refused
	}
	if err != nil { // the ledger reports its damage where it is read
		return fmt.Errorf("read the signers of the ledger: %v", err) //nolint:errorlint // it is no difference from what was signed
	}
	l.mu.Lock()
	l.signersRead = true
	l.mu.Unlock()
	return l.saveSigners()
}

// addStatement adds the statement of an event. A second start of a ledger's first origin, by
// another server at the same time, changes nothing. The caller must hold mu.
func (l *Log) addStatement(seq uint64, data events.Data) error {
	d, ok := data.(*events.LedgerSignersChanged)
	if !ok {
		return nil
	}
	l.signersSeq = max(l.signersSeq, seq)
	if l.startedAt == 0 {
		l.startedAt = seq
	}
	st, err := proof.ParseStatement([]byte(d.Note))
	if err == nil {
		err = eventproof.CompareStatement(d, st)
	}
	if err == nil && st.Action == proof.StartOrigin && st.Number == 0 && l.signers.Origin() != "" {
		return l.checkFirstStart(seq, st)
	}
	if err == nil {
		_, err = l.signers.Add(st.Note)
	}
	if err != nil {
		return fmt.Errorf("%w: event %d: %w", events.ErrDamaged, seq, err)
	}
	return nil
}

// checkFirstStart returns an error if the first statement in the ledger is not the first one of the list: then
// the file of statements, from which the list was read, is no copy. If events before it were lost, the first
// statement may be among them. The caller must hold mu.
func (l *Log) checkFirstStart(seq uint64, st proof.Statement) error {
	isLost := func(r events.LostRange) bool { return r.From < seq }
	if seq != l.startedAt || l.signers.Statements()[0].Hash() == st.Hash() || slices.ContainsFunc(l.Lost(), isLost) {
		return nil
	}
	return fmt.Errorf("%w: event %d starts the list of signers with another statement than the file %s; if the event was not changed, stop the server, remove the file, and start the server: it makes the file again",
		events.ErrDamaged, seq, filepath.Join(l.opts.Dir, fileSigners))
}

// readStatement adds the statement of a message that was just read. The caller must hold mu.
func (l *Log) readStatement(m events.Stored) error {
	if !eventproof.HasType(m, events.TypeLedgerSignersChanged) {
		return nil
	}
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	before, signed := l.signers.Origin(), l.maySign()
	if err := l.addStatement(m.Seq, e.Data); err != nil {
		return err
	}
	if signed && !l.maySign() && l.signers.Origin() == before {
		return l.endsSigning(m.Seq)
	}
	if l.starting = false; l.signers.Origin() != before && l.signers.Origin() != l.keys.Origin {
		return errOtherOrigin
	}
	return nil
}

// errOtherOrigin ends run: another server started the origin of the ledger. The next run adopts it.
var errOtherOrigin = errors.New("another server started the origin of the ledger")

// saveSigners writes the file of statements, unless it has them all. RotateKey and Run can call it at the same
// time.
func (l *Log) saveSigners() error {
	l.saveSignersMu.Lock()
	defer l.saveSignersMu.Unlock()
	l.mu.Lock()
	raw, n := l.signers.Bytes(), len(l.signers.Statements())
	saved := n == l.savedSigners
	l.mu.Unlock()
	if saved {
		return nil
	}
	if err := replaceFile(filepath.Join(l.opts.Dir, fileSigners), raw, 0o644, !l.opts.NoSync); err != nil {
		return fmt.Errorf("save the statements about the signers: %w", err)
	}
	l.mu.Lock()
	l.savedSigners = n
	l.mu.Unlock()
	return nil
}

// maySign reports whether the ledger names the key of this server. The caller must hold mu.
func (l *Log) maySign() bool {
	return l.keys.signer != nil && l.signers.Origin() == l.keys.Origin && l.signers.Signs(l.keys.vkey)
}

// mustStart reports whether this server is to start its origin: the ledger has none, or the one that
// ended. The caller must hold mu.
func (l *Log) mustStart() bool {
	if l.keys.signer == nil || l.starting {
		return false
	}
	current := l.signers.Origin()
	return current == "" || l.keys.Ended != nil && l.keys.Ended.Origin == current && l.keys.Origin != current
}

// coversOld reports whether only checkpoints follow those of a ledger without statements. A checkpoint
// covers them that is not recorded, so that a start without new events appends none. The caller must
// hold mu.
func (l *Log) coversOld() bool {
	return l.signers.Origin() == "" && l.keys.Ended == nil && l.mustStart() && l.onlyCheckpointsFollow()
}

// checkOrigin returns a *breakError if this server cannot sign, and no other one can be expected to.
// With a shared ledger, a server whose key is not introduced follows the others.
func (l *Log) checkOrigin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.signers.Origin()
	switch {
	case l.keys.lost != "":
		return breakOf(keyLost, "the signing key %s is missing, and this ledger was signed with it; restore it from a backup, or, if you have a root key, create a key there with 'daybook key new' and introduce it with 'daybook key introduce --root-key'", l.keys.lost)
	case l.maySign() || l.mustStart():
		return nil
	case l.opts.Shared && l.keys.Origin != current && !l.isFormerOrigin() && l.latest.Note == nil && l.signed.Note == nil:
		if err := l.keys.adopt(l.opts, current); err != nil {
			return err
		}
	case !l.opts.Shared && l.keys.Origin != current:
		return breakOf("the proofs were lost", "the checkpoints of this ledger are signed as %s, but the proofs in %s are those of %s", current, l.opts.Dir, l.keys.Origin)
	case !l.opts.Shared:
		return breakOf(keyLost, "the key %s is not one that signs this ledger; use the key that does, or introduce this one with a root key: daybook key introduce --root-key", l.keys.vkey)
	}
	switch {
	case l.maySign():
	case l.keys.Origin != current && l.damageAccepted():
		return breakOf("another server started a successor", "the origin of this server is %s, and another server started %s", l.keys.Origin, current)
	default:
		l.log.Warn("this server does not sign the ledger", "reason", l.whyNoSigner())
	}
	return nil
}

// isFormerOrigin reports whether the origin of this server is an earlier one of the ledger, which a successor ended. The
// caller must hold mu.
func (l *Log) isFormerOrigin() bool {
	isOwn := func(st proof.Statement) bool { return st.Origin == l.keys.Origin }
	return l.signers.Origin() != l.keys.Origin && slices.ContainsFunc(l.signers.Statements(), isOwn)
}

// whyNoSigner returns why a server of a shared ledger does not sign, if it does not. The caller must hold mu.
func (l *Log) whyNoSigner() string {
	if current := l.signers.Origin(); l.keys.Origin != current {
		return fmt.Sprintf("another server started the origin %s; start this server once with --accept-damage, and introduce the key that it then creates", current)
	}
	return fmt.Sprintf("no statement introduces its key %s; run 'daybook key introduce' on a server that signs", l.keys.vkey)
}

// startOrigin records the statement that starts the origin of this server, if it is to start it, and
// reports whether it did.
func (l *Log) startOrigin(ctx context.Context, ledger Ledger) (started bool, err error) {
	l.mu.Lock()
	isDue, hasEnded := l.mustStart() && !l.coversOld(), l.keys.Ended != nil
	l.mu.Unlock()
	if !isDue {
		return false, nil
	}
	var kept *keptCheckpoints
	if hasEnded {
		l.checkpointsMu.Lock()
		kept, err = openKept(l.opts.Dir)
		l.checkpointsMu.Unlock()
		if err != nil {
			return false, fmt.Errorf("read the checkpoints of the ended origin: %w", err)
		}
		defer kept.close()
	}
	l.mu.Lock()
	if !l.mustStart() || l.coversOld() || l.keys.Ended != nil && kept == nil { // changed meanwhile
		l.mu.Unlock()
		return false, nil
	}
	st := l.signers.Next(proof.StartOrigin, l.keys.vkey, 0)
	st.Origin = l.keys.Origin
	data := &events.LedgerSignersChanged{LedgerID: l.keys.ID, Origin: st.Origin, Number: st.Number, Action: string(st.Action), Key: st.Key, Actor: systemActor}
	if l.keys.Ended != nil {
		var holds proof.Checkpoint
		if holds, data.Ended, err = l.describeEnd(*l.keys.Ended, kept); err == nil {
			st.Predecessor, st.Size, st.Root = data.Ended.Origin, holds.Size, holds.Root
		}
	}
	signer, after := l.keys.signer, l.signersSeq
	l.mu.Unlock()
	if err != nil {
		return false, err
	}
	if st, err = st.Sign(signer); err != nil {
		return false, err
	}
	data.Note = string(st.Note)
	_, err = ledger.Append(ctx, events.New(events.LedgerTenant, time.Now(), data), int64(after))
	if err != nil && !errors.Is(err, events.ErrConflict) { // after a conflict, Run reads the statement of another server
		return false, fmt.Errorf("start the origin %s: %w", st.Origin, err)
	}
	l.mu.Lock()
	if !l.maySign() { // else the event was read already
		l.starting = true
	}
	l.mu.Unlock()
	return true, nil
}

// systemActor is the actor of what no user asked for.
var systemActor = events.Actor{Principal: "daybook", Transport: "embed"}

// describeEnd returns the newest checkpoint of an ended origin that the tree confirms, and what the
// event of the successor states. The caller must hold mu.
func (l *Log) describeEnd(ended endedOrigin, kept *keptCheckpoints) (proof.Checkpoint, *events.EndedOrigin, error) {
	others := []proof.Checkpoint{l.confirmed}
	if c, err := proof.ParseCheckpoint([]byte(ended.Signed)); err == nil {
		others = append(others, c)
	}
	slices.SortFunc(others, func(a, b proof.Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	lost := l.Lost()
	described := &events.EndedOrigin{Origin: ended.Origin, Reason: ended.Reason}
	holds, isFirst := proof.Checkpoint{Origin: ended.Origin, Root: proof.NewTree(nil).Root()}, true
	for left := kept.len(); left > 0 || len(others) > 0; { // from the largest one on
		var c proof.Checkpoint
		if left > 0 {
			var err error
			if c, err = kept.at(left - 1); err != nil {
				return holds, nil, fmt.Errorf("read the checkpoints of %s: %w", ended.Origin, err)
			}
		}
		if n := len(others); n > 0 && (left == 0 || others[n-1].Size > c.Size) {
			c, others = others[n-1], others[:n-1]
		} else {
			left--
		}
		if c.Origin != ended.Origin {
			continue
		}
		if c.Size <= l.tree.Size() && !eventproof.IsInLostTile(lost, c.Size) {
			root, err := l.tree.RootAt(c.Size)
			if err != nil {
				return holds, nil, fmt.Errorf("read the tree: %w", err)
			}
			if root == c.Root {
				if _, err := l.counting().Open(c.Note); err == nil {
					holds = c
					break
				}
			}
		}
		if isFirst {
			described.Unconfirmed = &events.CheckpointRef{Size: c.Size, RootHash: proof.EncodeHash(c.Root)}
		}
		isFirst = false
	}
	described.Size, described.RootHash = holds.Size, proof.EncodeHash(holds.Root)
	const most = 1000
	for _, r := range lost {
		if len(r.Hashes) == 0 && r.To > holds.Size && len(described.Missing) < most {
			described.Missing = append(described.Missing, events.Hole{From: r.From, To: r.To})
		}
	}
	return holds, described, nil
}

// endedOrigin is an origin that ended, in the file of the identity.
type endedOrigin struct {
	Origin string `json:"origin"`
	Reason string `json:"reason"`
	// Signed is the newest checkpoint that this server signed for it.
	Signed string `json:"signed,omitempty"`
}

// endOrigin gives the ledger a new origin and a new key, and makes Run compute the tree again. If another
// server of a shared ledger started a successor, endOrigin takes that as the origin of this server. The
// old key and its signed file are kept, with the suffix ".ended" and a number.
func (l *Log) endOrigin(reason string) error {
	l.checkpointsMu.Lock()
	defer l.checkpointsMu.Unlock()
	l.filesMu.Lock()
	defer l.filesMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := endedOrigin{Origin: l.keys.Origin, Reason: reason, Signed: string(l.signed.Note)}
	next, takesOver := keys{identity: identity{ID: l.keys.ID, Ended: &ended}}, false
	switch current := l.signers.Origin(); {
	case current != "" && current != l.keys.Origin && l.opts.Shared: // another server has ended it already
		next.Origin, takesOver = current, true
	case current != "":
		ended.Origin = current
	}
	if next.Origin == "" {
		next.Origin = successorOf(ended.Origin)
	}
	if ended.Signed == "" {
		ended.Signed = string(l.latest.Note)
	}
	if former := l.keys.Ended; ended.Signed == "" && former != nil && former.Origin == ended.Origin { // its successor has not started
		ended.Signed = former.Signed
	}
	if next.ID == "" {
		next.ID = events.NewID(time.Now())
	}
	err := next.change(l.opts)
	if err == nil && l.witnesses != nil {
		err = l.witnesses.reset()
	}
	if err != nil {
		return fmt.Errorf("end the origin %s: %w", ended.Origin, err)
	}
	l.keys, l.signed, l.latest, l.unstored, l.confirmed = next, proof.Checkpoint{}, proof.Checkpoint{}, nil, proof.Checkpoint{}
	l.file.current = nil // its files are removed when the new tree is saved
	l.confirm, l.durable, l.lastNonCheckpoint = nil, 0, 0
	l.load()
	if takesOver { // this server may never sign a checkpoint, which would end the permission
		l.log.Warn("this server takes over the origin that another server started; introduce its new key", "ended", ended.Origin, "origin", next.Origin, "key", next.vkey)
		return RefuseDamage(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile)
	}
	l.log.Warn("the origin of the ledger ended, because the ledger differs from what was signed; give auditors the new key", "ended", ended.Origin, "reason", reason, "origin", next.Origin, "key", next.vkey)
	return nil
}

// successorOf returns the name of the origin after another one: a number after a slash counts them.
func successorOf(origin string) string {
	base, last, ok := cutLast(origin, "/")
	if n, err := strconv.Atoi(last); ok && err == nil && n > 1 && strconv.Itoa(n) == last {
		return base + "/" + strconv.Itoa(n+1)
	}
	return origin + "/2"
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// endedSuffix follows the name of a file that setAside renamed, before a number.
const endedSuffix = ".ended"

// setAside renames a file, if there is one, to a name that no file has.
func setAside(path string) error {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s%s%d", path, endedSuffix, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return durable.SyncDir(filepath.Dir(path))
	}
}

// writeIdentity writes the file of the identity.
func (k *keys) writeIdentity(dir string) error {
	raw, err := json.Marshal(k.identity)
	if err == nil {
		err = replaceFile(filepath.Join(dir, fileIdentity), append(raw, '\n'), 0o644, true)
	}
	if err != nil {
		return fmt.Errorf("write the ledger identity: %w", err)
	}
	return nil
}

// adopt makes the origin of a shared ledger that of this server, which has signed nothing yet. It
// replaces a key that Open made. With a key that the operator named, it returns an error.
func (k *keys) adopt(opts Options, origin string) error {
	if k.Origin != k.ownName() {
		return fmt.Errorf("the key in %s signs for %s, but this ledger is %s; give this server another file with --audit-key, and introduce the key that it creates", keyPath(opts.Dir, opts.KeyFile), k.Origin, origin)
	}
	next := keys{identity: identity{ID: k.ID, Origin: origin}}
	if err := next.change(opts); err != nil {
		return fmt.Errorf("adopt the origin of the ledger: %w", err)
	}
	*k = next
	return nil
}

// change makes the origin of the ledger that of k, and makes its key. Open continues an interrupted change.
func (k *keys) change(opts Options) error {
	k.Unfinished = true
	if err := k.writeIdentity(opts.Dir); err != nil {
		return err
	}
	return k.finishChange(opts)
}

// mayChange returns an error unless an interrupted change can be one of this server: the file of the identity is
// in the audit directory, and a person who can write that must not be able to end the origin.
func (k *keys) mayChange(opts Options) error {
	signed := SignedPath(opts.Dir, opts.KeyFile, opts.SignedFile)
	if k.Ended != nil && exists(signed+acceptedSuffix) || k.Ended == nil && opts.Shared && !exists(signed) {
		return nil
	}
	return fmt.Errorf("%s is not a valid ledger identity; restore it from a backup: it says that the change to the origin %s was interrupted, but this server did not start that change", filepath.Join(opts.Dir, fileIdentity), k.Origin)
}

// finishChange does the steps of change after the identity is written. It can be repeated. It sets the files
// of another origin aside and makes the key. If the origin before ended, it also discards its tree and its
// cosignatures: they may be of events that the ledger does not have.
func (k *keys) finishChange(opts Options) error {
	keyFile, signedFile := keyPath(opts.Dir, opts.KeyFile), SignedPath(opts.Dir, opts.KeyFile, opts.SignedFile)
	for _, path := range []string{keyFile, keyFile + nextKeySuffix} { // the latter is of an interrupted rotation
		if err := (&keys{identity: k.identity}).read(path); err == nil {
			continue
		}
		if err := setAside(path); err != nil {
			return fmt.Errorf("move %s away: %w", path, err)
		}
	}
	if k.Ended != nil {
		raw, err := os.ReadFile(signedFile)
		if ignoreMissing(err) != nil {
			return err
		}
		if c, err := proof.ParseCheckpoint(raw); err != nil || c.Origin != k.Origin {
			if err := setAside(signedFile); err != nil {
				return fmt.Errorf("move %s away: %w", signedFile, err)
			}
		}
		if err := keepCosigned(opts.Dir, !opts.NoSync); err != nil {
			return err
		}
		var removed events.Removal
		if opts.Removed != nil {
			removed = opts.Removed()
		}
		if err := ResetTree(opts.Dir, removed.UpTo()); err != nil {
			return err
		}
	}
	err := k.use(keyFile)
	if err == nil {
		k.known, err = keepVKey(opts.Dir, k.vkey)
	}
	if err != nil {
		return err
	}
	k.Unfinished = false
	return k.writeIdentity(opts.Dir)
}
