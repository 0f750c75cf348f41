package embed

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/projections"
	"daybook/proof"
)

// readBatch is the number of messages that planOutsideRecovery requests at a time.
const readBatch = 2000

// maxUnreadable is the maximum number of ranges that one event names on an outside
// server, so that the event fits its size limit. Each such event also names the ranges
// of the events before it.
const maxUnreadable = 2000

// maxChanged is the maximum number of readable events that may differ from their hash. If
// more differ, another writer has replaced the history, which is not accepted as damage.
const maxChanged = 16

// planOutsideRecovery is planRecovery for a ledger on an outside NATS server. There
// only two kinds of messages can be accepted as lost: those that are no events, and
// events that do not match their hash. They stay in their stream, and no reader receives
// them. The operator of the outside server must repair any other damage.
func (d *Daybook) planOutsideRecovery(ctx context.Context) (*recoveryPlan, error) {
	store, done, err := d.openOutside(ctx, jetstream.Options{Client: jet.Options{ReadExisting: true}})
	if err != nil {
		return nil, restoreOutside(err)
	}
	defer done()
	reach, err := d.highestKnown()
	if err != nil {
		return nil, err
	}
	last, err := store.LastSeq(ctx)
	if err != nil {
		return nil, err
	}
	reach = max(reach, projections.AppliedIn(ctx, d.projectionsFile()))
	if last < reach {
		return nil, restoreOutside(fmt.Errorf("the ledger ends at event %d of %d: %w", last, reach, events.ErrDamaged))
	}
	known := translog.OpenProvenLeaves(auditDir(d.opts.DataDir), d.signedPath())
	compared := comparison{known: known}
	var bad []events.Stored
	for after := uint64(0); after < last; {
		batch, err := store.ReadRaw(ctx, after, readBatch)
		if err != nil {
			return nil, restoreOutside(err)
		}
		if len(batch) == 0 {
			break // the rest is recorded as lost
		}
		for _, m := range batch {
			if !m.Kept() && !compared.isIntact(m) {
				bad = append(bad, m)
			}
		}
		if len(store.Lost())+len(bad) > maxUnreadable && compared.changed <= maxChanged {
			return nil, restoreOutside(fmt.Errorf("more than %d events cannot be read, including those that were accepted as lost before: %w", maxUnreadable, events.ErrDamaged))
		}
		if compared.changed > maxChanged {
			bad = nil // the plan is refused below; checkSameLedger decides with which error
		}
		after = batch[len(batch)-1].Seq
	}
	if err := compared.checkSameLedger(auditDir(d.opts.DataDir)); err != nil {
		return nil, err
	}
	if compared.changed > maxChanged {
		return nil, restoreOutside(fmt.Errorf("%d intact events do not match the hashes taken when they were recorded: %w", compared.changed, events.ErrDamaged))
	}
	if err := d.resetUnproven(ctx, compared, store.Removed().UpTo()); err != nil || len(bad) == 0 {
		return nil, err
	}
	volumes, err := store.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	a := &recoveryPlan{Volume: volumes[len(volumes)-1].Number + 1, First: last + 1, Lost: slices.Clone(store.Lost())}
	for _, r := range a.Lost {
		a.First = max(a.First, r.To+1)
	}
	var found []damage.Finding
	for _, m := range bad {
		f := damage.Finding{First: m.Seq, Last: m.Seq, What: "the event was changed after it was recorded"}
		if _, err := events.Decode(m.Seq, m.Message()); err != nil {
			f.What = err.Error()
		}
		for _, v := range volumes {
			if v.First <= m.Seq {
				f.Stream = v.Number.Stream()
			}
		}
		d.opts.Logger.WarnContext(ctx, "damage", "what", f.String())
		found = append(found, f)
		a.Lost = append(a.Lost, unreadableRange(known, m, a.First))
	}
	slices.SortFunc(a.Lost, func(a, b events.LostRange) int { return cmp.Compare(a.From, b.From) })
	a.Note = summarizeFindings(found)
	if c, ok := translog.NewestCheckpoint(auditDir(d.opts.DataDir)); ok {
		a.Signed = &events.CheckpointRef{Size: c.Size, RootHash: base64.StdEncoding.EncodeToString(c.Root[:])}
	}
	return a, nil
}

// unreadableRange returns the loss of one message that stays in its stream. The loss has
// the known hash of the position. If no hash is known, it has that of the stored message.
func unreadableRange(known *translog.ProvenLeaves, m events.Stored, namedAt uint64) events.LostRange {
	r := events.LostRange{From: m.Seq, To: m.Seq, NamedAt: namedAt, Unreadable: true}
	hash, ok := known.Leaf(m.Seq)
	if !ok {
		var err error
		hash, err = proof.LeafHash(eventproof.RecordOf(m))
		ok = err == nil
	}
	if ok {
		r.Hashes = []string{base64.StdEncoding.EncodeToString(hash[:])}
	}
	return r
}

// restoreOutside adds the possible remedies to an error about a damaged ledger on an
// outside server.
func restoreOutside(err error) error {
	if !errors.Is(err, events.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; on an outside NATS server only events that cannot be read, and a few that were changed, can be accepted as lost: restore the streams of that server from a backup", err)
}

// openOutside opens the ledger on an outside server to accept damage.
func (d *Daybook) openOutside(ctx context.Context, opts jetstream.Options) (_ *jetstream.Store, done func(), err error) {
	if err := d.openKeys(); err != nil {
		return nil, nil, err
	}
	publish, err := jet.Connect(d.opts.NATS.URL, "accept damage", d.opts.Logger)
	if err != nil {
		return nil, nil, d.connectFailed(err)
	}
	consume, err := jet.Connect(d.opts.NATS.URL, "accept damage", d.opts.Logger)
	if err != nil {
		publish.Close()
		return nil, nil, d.connectFailed(err)
	}
	done = func() { publish.Close(); consume.Close() }
	opts.Client.Replicas, opts.Keys, opts.Client.OnStored, opts.Client.Logger = d.opts.NATS.Replicas, d.storeKeys(), d.noteStored, d.opts.Logger
	store, err := jetstream.Open(ctx, publish, consume, opts)
	if err != nil {
		done()
		return nil, nil, err
	}
	return store, done, nil
}

// applyOutsideRecovery is applyRecovery for a ledger on an outside server. It does not reset
// the tree of hashes: the lost positions keep their hashes in the tree.
func (d *Daybook) applyOutsideRecovery(ctx context.Context, a recoveryPlan) error {
	store, done, err := d.openOutside(ctx, jetstream.Options{
		Accept: &stream.AcceptedLoss{Lost: a.Lost, Volume: a.Volume, First: a.First},
	})
	if errors.Is(err, stream.ErrWrittenMeanwhile) {
		return errors.Join(fmt.Errorf("%w; stop all processes that use it and start with --accept-damage again", err), os.Remove(d.acceptanceFile()))
	}
	if err != nil {
		return fmt.Errorf("open the intact part of the ledger: %w", err)
	}
	defer done()
	if err := store.RecordLoss(ctx, &events.LedgerVolumeOpened{Lost: a.Lost, Signed: a.Signed, Note: a.Note, Actor: systemActor}); err != nil {
		return err
	}
	if err := d.removeProjections(); err != nil {
		return err
	}
	if err := durable.SyncDir(d.opts.DataDir); err != nil {
		return err
	}
	return os.Remove(d.acceptanceFile())
}
