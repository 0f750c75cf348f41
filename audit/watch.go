package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/proof"
)

// WatchOptions configure Watch.
type WatchOptions struct {
	// VerifyOptions are those of VerifyServer. Keys MUST be given. SkipBlobs, Progress and Dir have no
	// meaning.
	VerifyOptions
	// Samples is the number of events that are read and compared with the checkpoint, besides the
	// newest one: half of them newer than the newest known checkpoint, the others of any age.
	Samples int
}

// Watch checks the newest checkpoint of a server: a given key signed it, it extends the known ones, and a
// sample of the events is in its tree. It causes no signature. Unlike VerifyServer it reads few events, so
// that it can run all the time: an event that was changed is found when a sample has it, and a tree that
// was changed is always found. The report covers what was checked; it is never complete. Each call
// of Watch SHOULD know the checkpoint of the one before.
func Watch(ctx context.Context, r *Remote, opts WatchOptions) (*Report, error) {
	began := time.Now()
	if len(opts.Keys) == 0 {
		return nil, &KnownError{errors.New("a ledger is watched with the key of its operator; give it with --key")}
	}
	if err := proof.CheckVKeys(opts.Keys); err != nil {
		return nil, err
	}
	if err := checkKnown(opts.VerifyOptions); err != nil {
		return nil, err
	}
	signed, err := (&Remote{get: r.get}).Signed(ctx, 0)
	if isEmpty(err) {
		return emptyReport(opts.VerifyOptions, began)
	}
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", opts.Source, err)
	}
	opts.follow([]byte(signed.Signers))
	if err := opts.checkKnownSigned(); err != nil {
		return nil, err
	}
	c, err := opts.trust.Open(signed.Checkpoint.Note)
	if errors.Is(err, proof.ErrUnknownKey) {
		v := newVerifier(opts.VerifyOptions, true)
		v.report.Complete, v.report.unread = false, true
		v.report.Part = fmt.Sprintf("its newest checkpoint, of %d events", signed.Checkpoint.Size)
		v.describeOrigins()
		v.report.signedByOthers(signed.VKeys)
		return v.report.finish(began), nil
	}
	if err != nil {
		return Unreadable(opts.VerifyOptions, began, err), nil
	}
	if err := checkTenant(signed.Tenant, opts.Tenant); err != nil {
		return nil, err
	}
	if err := opts.checkOrigin(c.Origin); err != nil {
		return nil, err
	}
	signed.Lost = slices.DeleteFunc(signed.Lost, func(r events.LostRange) bool { return r.NamedAt > c.Size })
	if !signed.Lost.Valid(c.Size) || signed.Removed >= c.Size {
		return Unreadable(opts.VerifyOptions, began, errors.New("the server lists lost or removed positions that cannot be")), nil
	}
	w := &watch{opts: opts, remote: r, c: c, signed: signed}
	return w.report(ctx, began)
}

// watch is one call of Watch, after the signature of the checkpoint was verified.
type watch struct {
	opts   WatchOptions
	remote *Remote
	c      proof.Checkpoint
	signed SourceState
}

func (w *watch) report(ctx context.Context, began time.Time) (*Report, error) {
	newestOf := func(list []proof.Checkpoint) (size uint64) {
		for _, k := range list {
			if !w.opts.trust.Superseded(k) {
				size = max(size, k.Size)
			}
		}
		return size
	}
	// Each remembered checkpoint was compared with the one before it, so the newest one stands for all. One that a
	// successor supersedes is not compared, and stands for none.
	opts := w.opts.VerifyOptions
	remembered := slices.Clone(opts.Known[:min(opts.Remembered, len(opts.Known))])
	others, newestRemembered := opts.Known[len(remembered):], newestOf(remembered)
	remembered = slices.DeleteFunc(remembered, func(k proof.Checkpoint) bool { return k.Size < newestRemembered })
	known := newestOf(opts.Known)
	opts.Known, opts.Remembered = slices.Concat(remembered, others), len(remembered)
	v := newVerifier(opts, true)
	v.expectLost(w.signed.Lost)
	err := v.checkExtends(w.c, func(from, to uint64) (proof.Consistency, error) { return w.remote.consistency(ctx, from, to) })
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.opts.Source, err)
	}
	total := v.report
	total.Complete = false
	for _, position := range w.positions(min(known, w.c.Size)) {
		one, err := w.sample(ctx, position)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.opts.Source, err)
		}
		total.addSample(one)
	}
	if err := v.fetchCosigned(ctx, w.remote, w.c); err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.opts.Source, err)
	}
	newest, err := w.newestTime(ctx, total)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.opts.Source, err)
	}
	v.compare(w.c, w.c.Root, 0)
	v.checkPartSigned(w.c.Size)
	total.SignedTime, total.Part = newest, fmt.Sprintf("a sample of %d events of %d", total.Events, w.c.Size)
	if err := w.readTail(ctx, v); err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.opts.Source, err)
	}
	v.describeOrigins()
	v.checkAge()
	v.finishQuorum()
	v.finishCosigned()
	return v.conclude(began)
}

// positions returns the positions to sample, in order: the newest one, and random ones.
func (w *watch) positions(known uint64) []uint64 {
	list := []uint64{w.c.Size}
	first := w.signed.Removed + 1
	for i := range w.opts.Samples {
		from := first
		if i%2 == 0 && known >= first && known < w.c.Size {
			from = known + 1
		}
		if from <= w.c.Size {
			list = append(list, from+rand.Uint64N(w.c.Size-from+1))
		}
	}
	// A lost position cannot be read. What the server claims as lost is believed here, and VerifyServer
	// requires an event that records it.
	list = slices.DeleteFunc(list, func(p uint64) bool { return p < first || spans.Covers(w.signed.Lost, p, p) })
	slices.Sort(list)
	return slices.Compact(list)
}

// sample reads an event with its proof. An event that the server does not show because it belongs to
// another tenant is no finding.
func (w *watch) sample(ctx context.Context, position uint64) (*Report, error) {
	l, err := w.lines(ctx, proof.ExportSelection{From: position, To: position})
	if err != nil {
		return nil, err
	}
	defer l.close()
	if position != w.c.Size {
		l.report.SignedTime = nil
	}
	return l.report, nil
}

// newestTime returns the time of the newest event that the checkpoint covers, which was read as a sample. If it
// belongs to another tenant than the one whose events the server shows, that of the newest shown one counts.
func (w *watch) newestTime(ctx context.Context, total *Report) (*time.Time, error) {
	if total.SignedTime != nil || w.signed.Tenant == "" || w.opts.MaxAge == 0 {
		return total.SignedTime, nil
	}
	for width := uint64(firstTail); width <= mostTail && total.Found == 0; width *= 4 {
		from := w.tailFrom(width)
		l, err := w.lines(ctx, proof.ExportSelection{From: from, To: w.c.Size})
		if err != nil {
			return nil, err
		}
		l.close()
		for _, f := range l.report.Findings {
			total.addFinding(f.Position, "%s", f.What)
		}
		if newest := l.report.SignedTime; newest != nil || from <= w.signed.Removed+1 {
			return newest, nil
		}
	}
	return nil, nil
}

// tailFrom returns the first of the newest positions, without removed ones and lost ones at the beginning.
func (w *watch) tailFrom(width uint64) uint64 {
	from := max(w.signed.Removed, w.c.Size-min(width, w.c.Size)) + 1
	if lost, ok := spans.At(w.signed.Lost, from); ok {
		return lost.To + 1
	}
	return from
}

// lines verifies a range of events by their proofs. It does not begin or end within lost positions. The
// caller MUST close the result.
func (w *watch) lines(ctx context.Context, s proof.ExportSelection) (*lineVerifier, error) {
	s.Tenant = w.signed.Tenant
	s, err := s.Resolve(w.c.Size)
	if err != nil {
		return nil, err
	}
	opts := w.opts.VerifyOptions
	opts.Known, opts.MaxAge, opts.notFollowed = nil, 0, nil // the whole report has these findings
	l := newLineVerifier(opts, w.c, s)
	l.rules.off = true // they need the events before it
	l.expectLost(slices.DeleteFunc(slices.Clone(w.signed.Lost), func(r events.LostRange) bool { return r.From < s.From || r.To > s.To }))
	err = l.run(ctx, func(emit func([]pair) error) error {
		b := batches{emit: emit}
		if err := w.remote.Lines(ctx, w.c, s, 0, b.add); err != nil {
			return err
		}
		return b.flush()
	})
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// addSample adds the events and findings of a sample.
func (r *Report) addSample(one *Report) {
	r.Events += one.Events
	if one.Events > 0 {
		if r.First == 0 {
			r.First = one.First
		}
		r.Last = one.Last
	}
	if one.SignedTime != nil {
		r.SignedTime = one.SignedTime
	}
	for _, f := range one.Findings {
		r.addFinding(f.Position, "%s", f.What)
	}
}

// emptyReport returns the report on a ledger without events. The error is a *KnownError.
func emptyReport(opts VerifyOptions, began time.Time) (*Report, error) {
	opts.followKept()
	if err := opts.checkKnownSigned(); err != nil {
		return nil, err
	}
	v := newVerifier(opts, false)
	v.finish()
	v.finishQuorum()
	v.finishCosigned()
	return v.report.finish(began), nil
}
