package spans_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"daybook/internal/spans"
)

// list are ranges of which two are adjacent.
var list = []spans.Span{{From: 3, To: 5}, {From: 6, To: 6}, {From: 9, To: 12}}

func TestAtAndSkip(t *testing.T) {
	t.Parallel()
	for position, want := range map[uint64]uint64{0: 0, 1: 1, 3: 7, 5: 7, 6: 7, 7: 7, 8: 8, 9: 13, 12: 13, 13: 13} {
		if got := spans.Skip(list, position); got != want {
			t.Errorf("Skip(%d) = %d, want %d", position, got, want)
		}
		s, in := spans.At(list, position)
		if in != (want != position) || in && (position < s.From || position > s.To) {
			t.Errorf("At(%d) = %v, %t", position, s, in)
		}
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for position, want := range map[uint64]uint64{0: 3, 4: 3, 5: 6, 6: 9, 8: 9, 11: 9} {
		if s, ok := spans.After(list, position); !ok || s.From != want {
			t.Errorf("After(%d) = %v, %t, want the one from %d", position, s, ok, want)
		}
	}
	if s, ok := spans.After(list, 12); ok {
		t.Errorf("After(12) = %v", s)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for bounds, want := range map[[2]uint64]bool{{3, 6}: true, {4, 3}: true, {2, 6}: false, {5, 9}: false, {10, 12}: true, {12, 13}: false} {
		if got := spans.Covers(list, bounds[0], bounds[1]); got != want {
			t.Errorf("Covers(%d, %d) = %t", bounds[0], bounds[1], got)
		}
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	for bounds, want := range map[[2]uint64][]spans.Span{
		{1, 20}: {{From: 1, To: 2}, {From: 7, To: 8}, {From: 13, To: 20}},
		{3, 12}: {{From: 7, To: 8}},
		{4, 7}:  {{From: 7, To: 7}},
		{8, 8}:  {{From: 8, To: 8}},
		{9, 12}: nil,
		{2, 1}:  nil,
		{7, 3}:  nil,
	} {
		if got := spans.Without(list, bounds[0], bounds[1]); !slices.Equal(got, want) {
			t.Errorf("Without(%d, %d) = %v, want %v", bounds[0], bounds[1], got, want)
		}
	}
	if got := spans.Without[spans.Span](nil, 1, 3); !slices.Equal(got, []spans.Span{{From: 1, To: 3}}) {
		t.Errorf("without nothing: %v", got)
	}
}

// Each function agrees with a set of positions.
func TestAgainstSets(t *testing.T) {
	t.Parallel()
	const end = 24
	for range 2000 {
		var list []spans.Span
		var held [end + 2]bool
		for at := uint64(1); at <= end; {
			to := at + rand.Uint64N(4)
			if to <= end && rand.IntN(2) == 0 {
				list = append(list, spans.Span{From: at, To: to})
				for p := at; p <= to; p++ {
					held[p] = true
				}
			}
			at = to + 1
		}
		from, to := 1+rand.Uint64N(end), 1+rand.Uint64N(end)
		var count uint64
		var rest []uint64
		for p := from; p <= to; p++ {
			if held[p] {
				count++
			} else {
				rest = append(rest, p)
			}
		}
		if n := spans.Between(list, from, to); n != count {
			t.Fatalf("%v: Between(%d, %d) = %d, want %d", list, from, to, n, count)
		}
		if got := spans.Covers(list, from, to); got != (len(rest) == 0) {
			t.Fatalf("%v: Covers(%d, %d) = %t", list, from, to, got)
		}
		var got []uint64
		last := uint64(0)
		for _, s := range spans.Without(list, from, to) {
			if s.From <= last+1 && last > 0 || s.To < s.From {
				t.Fatalf("%v: Without(%d, %d) holds %v after %d", list, from, to, s, last)
			}
			for p := s.From; p <= s.To; p++ {
				got = append(got, p)
			}
			last = s.To
		}
		if !slices.Equal(got, rest) {
			t.Fatalf("%v: Without(%d, %d) holds %v, want %v", list, from, to, got, rest)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for s, want := range map[spans.Span]string{{From: 3, To: 3}: "position 3", {From: 3, To: 4}: "positions 3 to 4"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s.String(), want)
		}
	}
}
