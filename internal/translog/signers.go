package translog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/keyfile"
	"daybook/proof"
)

// StatementError is returned for a statement about the signers that cannot be added.
type StatementError struct{ err error }

// Error returns the reason.
func (e *StatementError) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *StatementError) Unwrap() error { return e.err }

// ErrNotSigner is returned by a server whose key no statement introduces.
var ErrNotSigner = errors.New("this server does not sign the ledger, so it cannot change who does; ask a server that signs, or sign the statement with a root key")

// ChangeSigners records a statement that the key of this server signs, and returns it when the Log
// has read it. The error is a *StatementError for a change that is not possible, such as retiring the
// key of this server.
func (l *Log) ChangeSigners(ctx context.Context, ledger Ledger, action proof.Action, vkey string, actor events.Actor) (proof.Statement, error) {
	l.changeMu.Lock() // the statement of another change has the same number
	defer l.changeMu.Unlock()
	if err := l.awaitCompared(ctx); err != nil {
		return proof.Statement{}, err
	}
	l.mu.Lock()
	// A checkpoint that the key is signing at this moment covers no more than the tree. After a crash, the tree
	// can be behind what the key signed.
	st := l.signers.Next(action, vkey, max(l.tree.Size(), l.signed.Size, l.latest.Size))
	signer, own, maySign := l.keys.signer, l.keys.vkey, l.maySign()
	l.mu.Unlock()
	switch {
	case !maySign:
		return st, ErrNotSigner
	case action == proof.StartOrigin:
		return st, &StatementError{errors.New("an origin starts when the one before it ends, not by request")}
	case action == proof.RetireSigner && vkey == own:
		return st, &StatementError{errors.New("the key of this server is replaced with 'daybook key rotate'; only another signer or a root key can retire it")}
	}
	st, err := st.Sign(signer)
	if err != nil {
		return st, &StatementError{err}
	}
	return l.AddStatement(ctx, ledger, st.Note, actor)
}

// AddStatement records a statement that was signed elsewhere, such as with a root key, and returns it
// when the Log has read it. The error is a *StatementError for a statement that does not continue
// the list, that no signer or root key signed, or that names more events than there are. After damage, AddStatement returns the damage, with
// one exception: if only the signing key cannot be used, it records the statement, which can
// introduce another key. The caller MUST know that the ledger has no other damage.
func (l *Log) AddStatement(ctx context.Context, ledger Ledger, signed []byte, actor events.Actor) (proof.Statement, error) {
	st, err := proof.ParseStatement(signed)
	if err != nil {
		return st, &StatementError{err}
	}
	if st.Action == proof.StartOrigin {
		return st, &StatementError{errors.New("an origin starts when the one before it ends, not by request")}
	}
	l.mu.Lock()
	damage, read, after := cmp.Or(l.damage, l.suspected), l.signersRead, l.signersSeq
	size := max(l.tree.Size(), l.target) // the tree can be behind after damage
	added, err := l.signers.Clone().Add(signed)
	last := len(l.signers.Keys()) == 1 && st.Action == proof.RetireSigner
	id := l.keys.ID
	l.mu.Unlock()
	switch {
	case damage != nil && !IsKeyLost(damage):
		return st, damage
	case err != nil:
		return st, &StatementError{err}
	case !added:
		return st, nil
	case st.Size > size:
		return st, &StatementError{fmt.Errorf("it says that the ledger has %d events, but it has %d", st.Size, size)}
	case !read:
		return st, &StatementError{errors.New("the statements in the ledger are not read yet; try again in a second")}
	case last:
		return st, &StatementError{errors.New("it retires the only signer; introduce another one first")}
	}
	_, err = ledger.Append(ctx, events.New(events.LedgerTenant, time.Now(), &events.LedgerSignersChanged{
		LedgerID: id, Origin: st.Origin, Number: st.Number, Action: string(st.Action), Key: st.Key, Note: string(signed), Actor: actor,
	}), int64(after)) // two statements with one number would be damage
	if errors.Is(err, events.ErrConflict) {
		return st, &StatementError{errOtherChange}
	}
	if err != nil {
		return st, fmt.Errorf("record the statement: %w", err)
	}
	if damage != nil { // Run has ended and reads no events
		return st, l.readStatements(ctx, ledger)
	}
	return st, l.awaitStatement(ctx, st)
}

// AwaitCompared waits until Run has compared the ledger, up to its end at the start, with what was signed, and has found
// no difference. Otherwise it returns the damage, except a lost key.
func (l *Log) AwaitCompared(ctx context.Context) error { return l.awaitCompared(ctx) }

// errOtherChange is returned if the statement of another change came first.
var errOtherChange = errors.New("another change of the signers was recorded at the same time; try again")

// awaitCompared waits until run has compared the ledger with what was signed before: see isCompared. It returns
// the damage that stopped the Log, except a lost key: the caller decides what it does without the key.
func (l *Log) awaitCompared(ctx context.Context) error {
	for {
		l.mu.Lock()
		compared, damage, changed := l.isCompared(), l.damage, l.changedCh
		l.mu.Unlock()
		switch {
		case damage != nil && !IsKeyLost(damage):
			return damage
		case compared || damage != nil:
			return nil //nolint:nilerr // see above
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitStatement waits until the Log has read a statement.
func (l *Log) awaitStatement(ctx context.Context, st proof.Statement) error {
	for {
		l.mu.Lock()
		list, damage, changed := l.signers.Statements(), l.damage, l.changedCh
		l.mu.Unlock()
		switch {
		case uint64(len(list)) > st.Number && list[st.Number].Hash() == st.Hash():
			return nil
		case uint64(len(list)) > st.Number:
			return &StatementError{errOtherChange}
		case damage != nil:
			return damage
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// nextKeySuffix is the end of the name of the key that replaces the one of this server, until it
// does.
const nextKeySuffix = ".next"

// RotateKey replaces the key of this server: it makes a new one, introduces it, signs with it from
// then on, and retires the one before. The file of the old key is kept with the suffix ".ended" and
// a number. RotateKey returns the new verification key, also with an error if only the old one is not
// retired. If it is interrupted, the next call, or the next start after the new key was introduced,
// continues with the same new key and retires the old one.
func (l *Log) RotateKey(ctx context.Context, ledger Ledger, actor events.Actor) (string, error) {
	l.rotateMu.Lock()
	defer l.rotateMu.Unlock()
	l.mu.Lock()
	origin, old, maySign := l.keys.Origin, l.keys.vkey, l.maySign()
	l.mu.Unlock()
	if !maySign {
		return "", ErrNotSigner
	}
	next := keyPath(l.opts.Dir, l.opts.KeyFile) + nextKeySuffix
	skey, err := keyfile.Read(next)
	if errors.Is(err, os.ErrNotExist) {
		skey, _, err = keyfile.Create(next, origin)
	}
	if err != nil {
		return "", err
	}
	_, vkey, err := proof.ParseKey(skey)
	if err != nil {
		return "", fmt.Errorf("%s holds no signing key: %w; remove it", next, err)
	}
	if _, err := l.ChangeSigners(ctx, ledger, proof.IntroduceSigner, vkey, actor); err != nil {
		return "", err
	}
	if err := l.useNextKey(); err != nil {
		return "", err
	}
	if err := l.retireFormer(ctx, ledger, actor); err != nil {
		return vkey, fmt.Errorf("the new key %s signs, but the old one %s is not retired: the next start or rotation retires it, or 'daybook key revoke': %w", vkey, old, err)
	}
	return vkey, nil
}

// retireFormer retires the keys in the files of former keys of this server that still sign. The caller
// must hold rotateMu.
func (l *Log) retireFormer(ctx context.Context, ledger Ledger, actor events.Actor) error {
	former, err := l.formerSigners()
	for _, vkey := range former {
		if _, failed := l.ChangeSigners(ctx, ledger, proof.RetireSigner, vkey, actor); failed != nil {
			return failed
		}
	}
	return err
}

// formerSigners returns the keys in the files of former keys of this server that still sign.
func (l *Log) formerSigners() ([]string, error) {
	keyFile := keyPath(l.opts.Dir, l.opts.KeyFile)
	l.mu.Lock()
	signers, own, isCurrent := l.signers.Keys(), l.keys.vkey, l.signers.Origin() == l.keys.Origin
	l.mu.Unlock()
	if !isCurrent { // the keys of an ended origin need no retirement
		return nil, nil
	}
	var former []string
	for n := 1; ; n++ {
		skey, err := keyfile.Read(fmt.Sprintf("%s%s%d", keyFile, endedSuffix, n))
		if errors.Is(err, os.ErrNotExist) {
			return former, nil
		}
		if err != nil {
			return former, fmt.Errorf("read a former key: %w", err)
		}
		if _, vkey, err := proof.ParseKey(skey); err == nil && vkey != own && slices.Contains(signers, vkey) {
			former = append(former, vkey)
		}
	}
}

// finishRotation retires the key before an interrupted rotation, if this server signs.
func (l *Log) finishRotation(ctx context.Context, ledger Ledger) {
	former, err := l.formerSigners()
	if len(former) > 0 {
		l.rotateMu.Lock()
		defer l.rotateMu.Unlock()
		err = l.retireFormer(ctx, ledger, systemActor)
	}
	if err != nil && ctx.Err() == nil {
		l.log.WarnContext(ctx, "the key before an interrupted rotation is not retired; retire it with 'daybook key revoke'", "keys", former, "err", err)
	}
}

// useNextKey makes an introduced new key the key of this server, if there is one.
func (l *Log) useNextKey() error {
	keyFile := keyPath(l.opts.Dir, l.opts.KeyFile)
	skey, err := keyfile.Read(keyFile + nextKeySuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	signer, vkey, err := proof.ParseKey(skey)
	if err != nil {
		return fmt.Errorf("%s holds no signing key: %w; remove it", keyFile+nextKeySuffix, err)
	}
	if err := l.saveSigners(); err != nil { // Open reads from them that the new key may sign
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.signers.Signs(vkey) || l.keys.Origin != "" && signer.Name() != l.keys.Origin { // the origin may have ended meanwhile
		return nil
	}
	if err := setAside(keyFile); err != nil {
		return fmt.Errorf("replace the signing key: %w", err)
	}
	err = os.Rename(keyFile+nextKeySuffix, keyFile)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(keyFile))
	}
	if err != nil {
		return fmt.Errorf("replace the signing key: %w", err)
	}
	known, err := keepVKey(l.opts.Dir, vkey)
	if err != nil {
		return err
	}
	l.keys.signer, l.keys.vkey, l.keys.known, l.keys.lost = signer, vkey, known, ""
	return nil
}

// endsSigning is called when an event retired the key of this server. Other servers of a shared ledger
// continue to sign; otherwise it is a *breakError. The caller must hold mu.
func (l *Log) endsSigning(seq uint64) error {
	l.starting = false
	if l.opts.Shared {
		l.log.Warn("this server signs no more, because a statement retired its key; if it is to sign, stop it, put another key in the place of this one, start it, and introduce the key with 'daybook key introduce' on a server that signs", "key", l.keys.vkey, "event", seq)
		return nil
	}
	return breakOf(keyLost, "event %d retires the key of this server, %s, and no other server signs; stop the server, put the key of a signer in the place of this one, and start the server", seq, l.keys.vkey)
}
