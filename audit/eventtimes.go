package audit

import (
	"cmp"
	"slices"
	"time"

	"daybook/proof"
)

// mostTimes is the maximum number of times in eventTimes: that of the leaves in recentTiles. No
// checkpoint that covers fewer events can be compared.
const mostTimes = windowTiles * proof.TileWidth

// eventTimes are the times of the newest events, by position.
type eventTimes []eventTime

type eventTime struct {
	position uint64
	time     time.Time
}

// add adds the time of the next event.
func (list *eventTimes) add(position uint64, t time.Time) {
	if len(*list) == mostTimes {
		*list = slices.Delete(*list, 0, mostTimes/2)
	}
	*list = append(*list, eventTime{position, t})
}

// cut removes the times of the events up to a position. It returns the time of the newest of them
// and that of the first event after the position, or nil for those that are not in the list.
func (list *eventTimes) cut(position uint64) (newest, next *time.Time) {
	i, _ := slices.BinarySearchFunc(*list, position+1, func(e eventTime, p uint64) int { return cmp.Compare(e.position, p) })
	if i > 0 {
		t := (*list)[i-1].time
		newest = &t
	}
	if *list = slices.Delete(*list, 0, i); len(*list) > 0 {
		t := (*list)[0].time
		next = &t
	}
	return newest, next
}

// around returns the time of the newest event up to a position, and that of the first event after it, or nil
// for those that are not in the list.
func (list eventTimes) around(position uint64) (newest, next *time.Time) {
	i, _ := slices.BinarySearchFunc(list, position+1, func(e eventTime, p uint64) int { return cmp.Compare(e.position, p) })
	if i > 0 {
		t := list[i-1].time // the list moves its times when it is full
		newest = &t
	}
	if i < len(list) && (i > 0 || list[i].position == position+1) { // else earlier ones may be missing in the list
		t := list[i].time
		next = &t
	}
	return newest, next
}

// newest returns the time of the newest event, or nil if there is none.
func (list eventTimes) newest() *time.Time {
	if len(list) == 0 {
		return nil
	}
	t := list[len(list)-1].time
	return &t
}
