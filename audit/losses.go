package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"daybook/events"
)

// losses decides which broken rules lost events can explain. A lost position explains at most one
// missing event, and a lost range explains only events that can have been in it.
//
// The position of an event that a rule misses is limited by the events around it: after the last
// event that stated what is missing, and before the event that breaks the rule. The ranges that can
// explain a missing event are therefore always those after some position. explain takes the first
// of them that is not used up, which leaves the others to the rules that need them.
type losses struct {
	list events.Lost
	// used is the number of positions of each range that explain something.
	used []uint64
	// ends has the times of each range.
	ends []lossEnd
	// closed is the number of ranges whose end is known by a checkpoint or an opening. They are the
	// first ones in the list.
	closed int
	// latest is the latest time of the events so far.
	latest time.Time
}

// lossEnd holds times about a lost range. They are zero if they are not known yet.
type lossEnd struct {
	// closed is a time after all events of the range were recorded: the latest time of the events up
	// to the first checkpoint that covers the range, or up to the opening that names it.
	closed time.Time
	// named is the time of the opening that names the range first.
	named time.Time
}

const (
	// clockSlack bounds how much the clocks of the servers of a ledger may differ.
	clockSlack = time.Minute
	// longestAttempt bounds the time for which a process can hold a run whose request is lost. It
	// applies to servers that kept running while another one accepted the loss.
	longestAttempt = 24 * time.Hour
)

func newLosses(list events.Lost) losses {
	return losses{list: list, used: make([]uint64, len(list)), ends: make([]lossEnd, len(list))}
}

// observe notes the times that an event says about the lost ranges.
func (l *losses) observe(e *events.Event) {
	if len(l.list) == 0 {
		return
	}
	if e.Time.After(l.latest) {
		l.latest = e.Time
	}
	switch d := e.Data.(type) {
	case *events.LedgerCheckpointed:
		l.close(d.Size)
	case *events.LedgerVolumeSealed:
		if d.Closing != nil {
			l.close(d.Closing.Size)
		}
	case *events.LedgerVolumeOpened:
		for i, r := range l.list {
			if r.NamedAt == e.Seq {
				l.ends[i].named = e.Time
			}
		}
		l.close(e.Seq)
	}
}

// close notes that the events up to a position were recorded before now.
func (l *losses) close(upTo uint64) {
	for ; l.closed < len(l.list) && l.list[l.closed].To <= upTo; l.closed++ {
		l.ends[l.closed].closed = l.latest
	}
}

// explain returns the first lost range between two positions if the ranges between them can hold a
// number of missing events, and counts these. Otherwise it returns nil.
func (l *losses) explain(after, before, missing uint64) *events.LostRange {
	first, _ := slices.BinarySearchFunc(l.list, after, func(r events.LostRange, p uint64) int { return cmp.Compare(r.From, p) })
	return l.take(first, before, missing)
}

// take counts missing events in the ranges from an index on that end before a position. It returns
// the first range that it uses, or nil if there are not enough positions.
func (l *losses) take(first int, before, missing uint64) *events.LostRange {
	if missing == 0 {
		return nil
	}
	free := uint64(0)
	for i := first; i < len(l.list) && l.list[i].To < before && free < missing; i++ {
		free += l.free(i)
	}
	if free < missing {
		return nil
	}
	var found *events.LostRange
	for i := first; missing > 0; i++ {
		n := min(l.free(i), missing)
		l.used[i] += n
		missing -= n
		if n > 0 && found == nil {
			found = &l.list[i]
		}
	}
	return found
}

// free returns how many positions of a range explain nothing yet.
func (l *losses) free(i int) uint64 { return l.list[i].To - l.list[i].From + 1 - l.used[i] }

// explainRequest returns the lost range that can hold the request of an execution, of which e is
// the first event, and counts the request. It returns nil if there is none.
//
// A request is recorded after its id was minted. Derived ids have no time. Nothing starts a run
// whose request is lost, except a process that had read the request before. The request of an
// unreadable position can still be delivered, and is then answered with the end of the execution.
func (l *losses) explainRequest(e *events.Event, id string) *events.LostRange {
	minted, timed := events.MintedAt(id)
	for i, r := range l.list {
		if r.To >= e.Seq {
			break
		}
		end := l.ends[i]
		switch {
		case timed && !end.closed.IsZero() && minted.After(end.closed.Add(clockSlack)):
		case !r.Unreadable && !end.named.IsZero() && e.Time.After(end.named.Add(longestAttempt)):
		case l.free(i) > 0:
			return l.take(i, e.Seq, 1)
		}
	}
	return nil
}

// The hash of each lost position whose hash is not known is computed, and a signer can name any number of
// positions. So their number has a maximum: of a server and of a ledger at rest mostUnhashed, which takes some
// minutes, and of an export mostUnhashedOfExport and one more for each byte of its events.
const (
	mostUnhashed         = 1 << 27
	mostUnhashedOfExport = 1 << 24
)

// checkUnhashed counts the positions between the end of the tree and another position whose hashes are not
// known. The error is events.ErrDamaged if there are too many.
func (v *verifier) checkUnhashed(to uint64) error {
	from := v.tree.Size() + 1
	if to < from {
		return nil
	}
	n := to - from + 1
	i, _ := slices.BinarySearchFunc(v.lost, from, func(r events.LostRange, p uint64) int { return cmp.Compare(r.From, p) })
	for _, r := range v.lost[i:] {
		if r.To > to {
			break
		}
		if len(r.Hashes) > 0 {
			n -= r.To - r.From + 1
		}
	}
	if n > v.mostUnhashed-v.unhashed {
		return fmt.Errorf("%w: positions %d to %d are missing; at most %d lost positions can be verified without their hashes", events.ErrDamaged, from, to, v.mostUnhashed)
	}
	v.unhashed += n
	return nil
}
