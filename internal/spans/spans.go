// Package spans computes with ranges of ledger positions.
//
// The functions take lists of any type that has bounds, so that a list of a richer type, such
// as events.LostRange, need not be copied to a list of Span. The ranges of a list MUST be in
// the order of their positions and MUST NOT overlap; they may be adjacent. All bounds are
// included. To MUST be less than the highest uint64, because the functions compute To + 1.
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

// At returns the range that holds a position, and whether there is one.
func At[S Bounded](list []S, position uint64) (S, bool) {
	if i := endingAt(list, position); i < len(list) {
		if from, _ := list[i].Bounds(); from <= position {
			return list[i], true
		}
	}
	var none S
	return none, false
}

// After returns the first range that ends after a position, and whether there is one. The
// range may begin at or before the position.
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

// Skip returns the lowest position, at or after the given one, that is in no range.
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

// Covers reports whether the ranges hold all positions from from to to, both included.
// If from is greater than to, the result is true.
func Covers[S Bounded](list []S, from, to uint64) bool { return from > to || Skip(list, from) > to }

// Between returns the number of positions from from to to, both included, that the ranges
// hold.
func Between[S Bounded](list []S, from, to uint64) (n uint64) {
	for _, s := range list {
		a, b := s.Bounds()
		if a, b = max(a, from), min(b, to); a <= b {
			n += b - a + 1
		}
	}
	return n
}

// Without returns the positions from from to to, both included, that no range holds. The
// spans are in order, and no two of them are adjacent.
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
