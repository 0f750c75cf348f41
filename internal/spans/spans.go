// Package spans computes with ranges of ledger positions.
//
// The functions take lists of any type that has bounds, so that a type that says more about
// its range, such as a lost one, needs no copy. The ranges of a list MUST be in the order of
// their positions and MUST NOT overlap; they may be adjacent. All bounds are included, and
// To is less than the highest uint64.
package spans

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounded is a range of positions. Both bounds are included.
type Bounded interface{ Bounds() (from, to uint64) }

// Span is the range of positions From to To, both included.
type Span struct{ From, To uint64 }

// Bounds returns From and To.
func (s Span) Bounds() (from, to uint64) { return s.From, s.To }

// String names the positions.
func (s Span) String() string {
	if s.From == s.To {
		return fmt.Sprintf("position %d", s.From)
	}
	return fmt.Sprintf("positions %d to %d", s.From, s.To)
}

// At returns the range that holds a position.
func At[S Bounded](list []S, position uint64) (S, bool) {
	if i := endingAt(list, position); i < len(list) {
		if from, _ := list[i].Bounds(); from <= position {
			return list[i], true
		}
	}
	var none S
	return none, false
}

// After returns the first range that ends after a position. It may hold the position.
func After[S Bounded](list []S, position uint64) (S, bool) {
	if i := endingAt(list, position+1); i < len(list) {
		return list[i], true
	}
	var none S
	return none, false
}

// endingAt returns the index of the first range that ends at a position or after it, or
// len(list).
func endingAt[S Bounded](list []S, position uint64) int {
	i, _ := slices.BinarySearchFunc(list, position, func(s S, p uint64) int {
		_, to := s.Bounds()
		return cmp.Compare(to, p)
	})
	return i
}

// Skip returns the first position from the given one on that no range holds.
func Skip[S Bounded](list []S, position uint64) uint64 {
	for {
		s, in := At(list, position)
		if !in {
			return position
		}
		_, to := s.Bounds()
		position = to + 1
	}
}

// Covers reports whether the ranges hold all positions from one to another, both included.
// It is true if there are none, that is if from is greater than to.
func Covers[S Bounded](list []S, from, to uint64) bool { return from > to || Skip(list, from) > to }

// Between returns the number of positions from one to another, both included, that the
// ranges hold.
func Between[S Bounded](list []S, from, to uint64) (n uint64) {
	for _, s := range list {
		a, b := s.Bounds()
		if a, b = max(a, from), min(b, to); a <= b {
			n += b - a + 1
		}
	}
	return n
}

// Without returns the positions from one to another, both included, that no range holds. The
// spans are in order and as long as possible.
func Without[S Bounded](list []S, from, to uint64) []Span {
	var rest []Span
	for at := Skip(list, from); at <= to; {
		end := to
		if next, ok := After(list, at); ok {
			if begins, _ := next.Bounds(); begins <= to {
				end = begins - 1
			}
		}
		rest = append(rest, Span{at, end})
		at = Skip(list, end+1)
	}
	return rest
}
