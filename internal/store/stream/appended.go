package stream

import (
	"sync"

	"daybook/events"
	"daybook/internal/store/jet"
)

// appendedBytes bounds the bodies that an appended keeps, in bytes. appendedEvents is how many
// positions a follower may be behind the events that are kept for it.
const (
	appendedBytes  = 4 << 20
	appendedEvents = 4096
)

// appended holds the events that this process appended and a follower has not read yet, as
// the server stored them. The follower need not ask the server for them. Events of other
// processes are between them, and some may be missing: the follower then reads the stream.
type appended struct {
	mu       sync.Mutex
	read     uint64 // position up to which the follower has read
	messages map[uint64]events.Stored
	size     int
}

// add keeps a stored event unless it was read. It drops all if they are too large, or if the
// follower is too far behind: a slow client would otherwise hold memory that grows with its delay.
func (k *appended) add(m events.Stored) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.Seq <= k.read {
		return
	}
	if isFar := m.Seq > k.read+appendedEvents; isFar || k.size > appendedBytes {
		k.messages, k.size = nil, 0
		if isFar {
			return
		}
	}
	if k.messages == nil {
		k.messages = map[uint64]events.Stored{}
	}
	k.messages[m.Seq] = m
	k.size += len(m.Body)
}

// take removes and returns the events that follow a position without a gap. later reports
// whether events after a gap are kept.
func (k *appended) take(after uint64) (list []events.Stored, later bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read != after { // the follower has read the stream
		for seq, m := range k.messages {
			if seq <= after {
				k.remove(m)
			}
		}
	}
	for len(list) < jet.BatchMessages {
		m, ok := k.messages[after+uint64(len(list))+1]
		if !ok {
			break
		}
		list = append(list, m)
		k.remove(m)
	}
	k.read = after + uint64(len(list))
	return list, len(k.messages) > 0
}

// The caller must hold mu.
func (k *appended) remove(m events.Stored) {
	delete(k.messages, m.Seq)
	k.size -= len(m.Body)
}
