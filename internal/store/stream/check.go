package stream

import (
	"context"
	"errors"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
)

// checkVolume returns damage if messages of a volume are missing: without losses there
// is one message for each position from its first to its last.
//
// If Options.OnDamage is set, checkVolume reports damage through it and returns nil; the
// intact part of the volume stays readable.
func (s *Ledger) checkVolume(v volume, st natsjs.StreamState) error {
	return s.ignoreReportedDamage(s.checkContiguous(v, st))
}

func (s *Ledger) checkContiguous(v volume, st natsjs.StreamState) error {
	name, lost := v.stream(), s.Lost().Missing()
	switch {
	case st.Msgs == 0 && st.LastSeq < v.first && v.last < v.first:
		return nil
	case st.FirstSeq != spans.Skip(lost, v.first):
		return s.damageErrorf("stream %s begins at position %d, not %d", name, st.FirstSeq, v.first)
	case uint64(st.NumDeleted) != spans.Between(lost, st.FirstSeq, st.LastSeq):
		return s.damageErrorf("stream %s lacks %d of its %d messages", name, st.NumDeleted, st.LastSeq-v.first+1)
	case st.Msgs+spans.Between(lost, v.first, st.LastSeq) != st.LastSeq-v.first+1:
		return s.damageErrorf("stream %s holds %d messages from position %d on but ends at position %d", name, st.Msgs, v.first, st.LastSeq)
	case v.sealed && st.LastSeq != v.last:
		return s.damageErrorf("stream %s ends at position %d, but was sealed at %d", name, st.LastSeq, v.last)
	}
	return nil
}

// checkSuccession returns damage unless a volume continues the one before it. The first
// event of the volume names its predecessor, and the positions that are missing between
// the two. checkSuccession handles Options.OnDamage as checkVolume does.
func (s *Ledger) checkSuccession(ctx context.Context, before, v volume, st natsjs.StreamState) error {
	return s.ignoreReportedDamage(s.checkFollows(ctx, before, v, st))
}

func (s *Ledger) checkFollows(ctx context.Context, before, v volume, st natsjs.StreamState) error {
	lost := s.Lost()
	// The lost positions may include whole volumes, or the first event of one.
	covered := v.first > before.last+1 && spans.Covers(lost, before.last+1, v.first-1)
	_, openingLost := spans.At(lost, v.first)
	if openingLost && (covered || v.first == before.last+1) {
		return nil
	}
	if v.number == before.number+1 && v.first == before.last+1 && v.archive != nil {
		return nil // its opening was compared while it was a stream
	}
	if v.number != before.number+1 && !covered {
		return s.damageErrorf("stream %s is missing: %s is followed by %s", (before.number + 1).Stream(), before.stream(), v.stream())
	}
	if st.Msgs == 0 && v.archive == nil {
		// The creation of the volume was interrupted before its first event.
		if v.first != before.last+1 && !covered {
			return s.damageErrorf("stream %s begins at position %d, but %s ends at %d", v.stream(), v.first, before.stream(), before.last)
		}
		return nil
	}
	m, err := s.getWithVolumesLocked(ctx, v, jet.Request{Seq: v.first})
	if errors.Is(err, events.ErrNotFound) {
		return s.damageErrorf("position %d of stream %s cannot be read", v.first, v.stream())
	}
	if err != nil {
		return err
	}
	e, err := s.Decode(m)
	if err != nil {
		return err
	}
	d, ok := e.Data.(*events.LedgerVolumeOpened)
	switch {
	case !ok:
		return s.damageErrorf("stream %s begins with %s at position %d, not with its opening", v.stream(), e.Type, e.Seq)
	case covered && s.isPredecessorCut(d, before, v):
		return nil
	case d.Predecessor.Volume != before.number || before.removed == nil && d.Predecessor.First != before.first || d.Predecessor.Last != before.last:
		return s.damageErrorf("stream %s holds positions %d to %d, but ended at %d when %s was opened", before.stream(), before.first, before.last, d.Predecessor.Last, v.stream())
	case before.last+1 == v.first:
		return nil
	case covered:
		return nil
	case d.Hole == nil || d.Hole.From != before.last+1 || d.Hole.To != v.first-1:
		return s.damageErrorf("positions %d to %d between %s and %s are missing", before.last+1, v.first-1, before.stream(), v.stream())
	}
	return nil
}

// isPredecessorCut reports whether the opening of v records more positions of its
// predecessor than before still has. The missing ones are recorded as lost.
func (s *Ledger) isPredecessorCut(d *events.LedgerVolumeOpened, before, v volume) bool {
	return d.Predecessor.Last > before.last && d.Predecessor.Last < v.first
}

// checkOldest returns damage if the volumes before the oldest one are missing: no event records
// their removal, and their positions are not recorded as lost. checkOldest handles
// Options.OnDamage as checkVolume does.
func (s *Ledger) checkOldest(v volume) error {
	if v.number == 1 || v.first > 1 && spans.Covers(s.Lost(), 1, v.first-1) {
		return nil
	}
	return s.ignoreReportedDamage(s.damageErrorf("stream %s is missing: no recorded event removes the volume, and its positions are not recorded as lost", events.Volume(1).Stream()))
}

// ignoreReportedDamage returns nil for damage that Options.OnDamage receives, so that a
// damaged ledger can be opened for reading.
func (s *Ledger) ignoreReportedDamage(err error) error {
	if s.opts.OnDamage != nil && errors.Is(err, events.ErrDamaged) {
		return nil
	}
	return err
}
