package ledger

import (
	"context"
	"sync"
)

// headCache caches facts about the turns of sessions. Without them, the ledger is read
// again.
type headCache struct {
	mu    sync.Mutex
	heads map[headKey]sessionHead // session heads after a turn, which never change
	// blocked holds, for each session, a turn whose run had no end when it was read.
	blocked map[string]turnRun
	// endedRanges holds ranges of turns that ended without a start.
	endedRanges map[endedKey]endedRange
	// endedThrough is the newest turn of each session that is known to have ended, with all turns
	// before it.
	endedThrough map[string]int64
}

type headKey struct {
	session string
	turn    int64
}

type endedKey struct{ tenant, session string }

// endedRange is the range of the turns queued after one position and up to another,
// which is included. Each of them ended before it was started, or its run has another
// turn.
type endedRange struct{ after, upTo uint64 }

type turnRun struct {
	number    int64
	execution string
}

// maxHeads limits each map of headCache; an entry takes about 300 bytes.
const maxHeads = 10_000

func (c *headCache) get(session string, turn int64) (sessionHead, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.heads[headKey{session, turn}]
	return h, ok
}

func (c *headCache) put(session string, turn int64, h sessionHead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heads == nil || len(c.heads) >= maxHeads {
		c.heads = map[headKey]sessionHead{}
	}
	c.heads[headKey{session, turn}] = h
	if c.endedThrough == nil || len(c.endedThrough) >= maxHeads {
		c.endedThrough = map[string]int64{}
	}
	c.endedThrough[session] = max(c.endedThrough[session], turn)
}

// newestEnded returns the newest turn of a session that is known to have ended with all turns
// before it; 0 if none is known.
func (c *headCache) newestEnded(session string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endedThrough[session]
}

// skipEnded returns after, or a later position if all turns that were queued between the
// two are known to have ended without a start. A reader need not read them.
func (c *headCache) skipEnded(tenant, session string, after uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.endedRanges[endedKey{tenant, session}]; known.after <= after {
		return max(after, known.upTo)
	}
	return after
}

// addEnded remembers that the turns queued after one position and up to another have
// ended without a start.
func (c *headCache) addEnded(tenant, session string, after, upTo uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := endedKey{tenant, session}
	known, ok := c.endedRanges[key]
	if ok && known.after <= after && after <= known.upTo {
		after, upTo = known.after, max(upTo, known.upTo)
	}
	if !ok && (c.endedRanges == nil || len(c.endedRanges) >= maxHeads) {
		c.endedRanges = map[endedKey]endedRange{}
	}
	c.endedRanges[key] = endedRange{after, upTo}
}

// block remembers that the run of a turn has no end.
func (c *headCache) block(session string, turn int64, execution string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == nil || len(c.blocked) >= maxHeads {
		c.blocked = map[string]turnRun{}
	}
	if old, ok := c.blocked[session]; !ok || turn < old.number {
		c.blocked[session] = turnRun{turn, execution}
	}
}

// blockedBefore returns the run that block remembered for a session. It reports false if
// there is none, or if the turn of that run does not come before turn.
func (c *headCache) blockedBefore(session string, turn int64) (turnRun, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run, ok := c.blocked[session]
	return run, ok && run.number < turn
}

// unblock forgets the remembered run of a session, which has ended.
func (c *headCache) unblock(session string, run turnRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked[session] == run {
		delete(c.blocked, session)
	}
}

// stillRunning returns the remembered run that a turn waits for, or an empty id. Without
// it, each turn between the turn of that run and the given one would be read.
func (l *Ledger) stillRunning(ctx context.Context, tenant, session string, turn int64) (execution string, err error) {
	run, ok := l.heads.blockedBefore(session, turn)
	if !ok {
		return "", nil
	}
	h, _, err := l.loadExecution(ctx, tenant, run.execution)
	if err != nil {
		return "", err
	}
	if h != nil && h.terminal == nil {
		return run.execution, nil
	}
	l.heads.unblock(session, run)
	return "", nil
}
