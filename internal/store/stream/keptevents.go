package stream

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"daybook/events"
	"daybook/internal/store/jet"
)

// keptEvents holds the kept events of removed volumes in memory, as they were recorded,
// at their positions. It answers the requests that the removed streams answered. It is
// immutable.
type keptEvents struct {
	removed events.Removal
	list    []events.Stored // ordered by position
	// subjects maps a subject without its volume to the indexes of its events. ends maps
	// the last token of subjects to the subjects: most patterns end in an id.
	subjects map[string][]int
	ends     map[string][]string
}

func sortBySeq(list []events.Stored) {
	slices.SortFunc(list, func(a, b events.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func newKeptEvents(d events.Removal, list []events.Stored) *keptEvents {
	x := &keptEvents{removed: d, list: make([]events.Stored, len(list)), subjects: map[string][]int{}, ends: map[string][]string{}}
	for i, m := range list {
		m.RemovedBefore, m.Removed = 0, d.Last
		x.list[i] = m
		subject, _ := events.WithoutVolume(m.Subject)
		if x.subjects[subject] == nil {
			end := lastToken(subject)
			x.ends[end] = append(x.ends[end], subject)
		}
		x.subjects[subject] = append(x.subjects[subject], i)
	}
	return x
}

// indexesFor returns the indexes of the events on the subjects that a pattern matches,
// one slice per subject.
func (x *keptEvents) indexesFor(pattern string) [][]int {
	pattern, _ = events.WithoutVolume(pattern)
	end := lastToken(pattern)
	if !strings.Contains(pattern, "*") {
		if found := x.subjects[pattern]; found != nil {
			return [][]int{found}
		}
		return nil
	}
	var found [][]int
	look := func(subjects []string) {
		for _, subject := range subjects {
			if matches(pattern, subject) {
				found = append(found, x.subjects[subject])
			}
		}
	}
	if end != "*" {
		look(x.ends[end])
		return found
	}
	look(slices.Sorted(maps.Keys(x.subjects)))
	return found
}

// matches reports whether a pattern with single-token wildcards matches a subject.
func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	return slices.EqualFunc(want, have, func(w, h string) bool { return w == "*" || w == h })
}

// get implements segment. It never fails.
func (x *keptEvents) get(_ context.Context, r jet.Request) (list []events.Stored, more int, err error) {
	from := func(all []int) []int {
		i, _ := slices.BinarySearchFunc(all, r.Seq, func(i int, seq uint64) int { return cmp.Compare(x.list[i].Seq, seq) })
		return all[i:]
	}
	var at []int
	switch {
	case len(r.MultiLast) > 0:
		for _, pattern := range r.MultiLast {
			for _, all := range x.indexesFor(pattern) {
				at = append(at, all[len(all)-1])
			}
		}
		slices.Sort(at)
		at = slices.Compact(at)
	case r.LastBySubject != "":
		for _, all := range x.indexesFor(r.LastBySubject) {
			at = append(at, all[len(all)-1])
		}
		if len(at) > 1 {
			at = []int{slices.Max(at)}
		}
	case r.NextBySubject != "":
		for _, all := range x.indexesFor(r.NextBySubject) {
			at = append(at, from(all)...)
		}
		slices.Sort(at)
	default:
		i, exact := slices.BinarySearchFunc(x.list, r.Seq, func(m events.Stored, seq uint64) int { return cmp.Compare(m.Seq, seq) })
		if r.Batch == 0 && !exact {
			return nil, 0, nil
		}
		for n := min(max(r.Batch, 1), len(x.list)-i); n > 0; n-- {
			at = append(at, i)
			i++
		}
		more = len(x.list) - i
	}
	limit, size := max(r.Batch, 1), 0
	for n, i := range at {
		m := x.list[i]
		if size += len(m.Body); n == limit || n > 0 && r.MaxBytes > 0 && size > r.MaxBytes {
			return list, more + len(at) - n, nil
		}
		m.Header, m.Body = maps.Clone(m.Header), bytes.Clone(m.Body) // the caller may change them
		list = append(list, m)
	}
	return list, more, nil
}

// find returns the position of the event with the id of e at position from or later, or
// 0.
func (x *keptEvents) find(e events.Event, from uint64) uint64 {
	for _, all := range x.indexesFor(StoredSubject(1, e.Subject())) {
		for _, i := range all {
			if m := x.list[i]; m.Seq >= from && events.HeaderValue(m.Header, "ce-id") == e.ID {
				return m.Seq
			}
		}
	}
	return 0
}
