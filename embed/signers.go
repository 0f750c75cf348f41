package embed

import (
	"context"
	"errors"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/translog"
	"daybook/proof"
)

// signersTimeout bounds a change of the signers. A disconnected client does not interrupt it.
const signersTimeout = 30 * time.Second

// ledgerSigners implements httpapi.Signers.
type ledgerSigners struct{ d *Daybook }

func (l ledgerSigners) VKey() string { return l.d.AuditKey() }

func (l ledgerSigners) SignersPosition() uint64 { return l.d.audit.SignersPosition() }

func (l ledgerSigners) ChangeSigners(ctx context.Context, action proof.Action, vkey string, actor events.Actor) (proof.Statement, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), signersTimeout)
	defer stop()
	if err := l.prepare(ctx); err != nil {
		return proof.Statement{}, err
	}
	st, err := l.d.audit.ChangeSigners(ctx, l.d.store, action, vkey, actor)
	return st, asSignersError(err)
}

func (l ledgerSigners) RotateKey(ctx context.Context, actor events.Actor) (string, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), signersTimeout)
	defer stop()
	if err := l.prepare(ctx); err != nil {
		return "", err
	}
	vkey, err := l.d.audit.RotateKey(ctx, l.d.store, actor)
	if err != nil && vkey != "" { // the new key signs, and the old one is not retired
		return "", &httpapi.SignersError{Err: err}
	}
	return vkey, asSignersError(err)
}

func (l ledgerSigners) AddStatement(ctx context.Context, signed []byte, actor events.Actor) (st proof.Statement, restart bool, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), signersTimeout)
	defer stop()
	restart = l.d.damage.OnlyKeyLost() // then the server uses the original streams, and an appended event is recorded
	if err := l.d.damage.ReadOnly(); err != nil && !restart {
		return st, false, err
	}
	l.d.statements.Add(1)
	defer l.d.statements.Add(-1)
	st, err = l.d.audit.AddStatement(ctx, l.d.store, signed, actor)
	return st, restart, asSignersError(err)
}

// prepare waits until the origin is started and all recorded events are signed. Otherwise a
// statement that retires a key could have a lower size than a checkpoint that the key signed.
func (l ledgerSigners) prepare(ctx context.Context) error {
	if err := l.d.damage.ReadOnly(); err != nil {
		return err
	}
	if s := l.d.audit.Signers(); s.Origin() != "" && !s.Signs(l.d.audit.VKey()) {
		return nil // the change is refused
	}
	return l.d.signPending(ctx)
}

// readOnly returns the reason why the store takes no events, or nil. While a statement is recorded,
// a lost key is no reason: the streams are intact, and the events are signed after the next start.
func (d *Daybook) readOnly() error {
	if d.statements.Load() > 0 && d.damage.OnlyKeyLost() {
		return nil
	}
	return d.damage.ReadOnly()
}

// asSignersError returns the error of a refused change as *httpapi.SignersError.
func asSignersError(err error) error {
	if _, ok := errors.AsType[*translog.StatementError](err); ok || errors.Is(err, translog.ErrNotSigner) {
		return &httpapi.SignersError{Err: err}
	}
	return err
}
