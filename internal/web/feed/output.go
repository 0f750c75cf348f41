package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// outputBytes bounds the encoded lines of one run that Output keeps for
// followers that are behind.
const outputBytes = 512 << 10

// lineBatch is the number of lines that are read and sent at a time.
const lineBatch = 500

// damageInterval is the interval at which the feed calls Queries.Damage while a run writes
// nothing.
const damageInterval = 15 * time.Second

// Queries reads the output of runs.
type Queries interface {
	// Lines returns at most limit complete lines, starting at the line number from, and the
	// status at the time of the read. If the status is terminal and there are no lines, no
	// more lines follow.
	Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]projections.OutputLine, events.Status, error)
	// Watch signals on changed after each commit that changes an execution. The caller
	// MUST call stop.
	Watch(tenant, execution string) (changed <-chan struct{}, stop func())
	// Damage returns the error that stopped the projections permanently, or nil.
	Damage() error
}

// Output reads and encodes the output of a run once for all clients that follow it.
// It reads the output of a run while the run has followers. No follower delays another
// one: a follower that is behind the kept lines reads stored lines until it has caught
// up.
//
// It is safe for concurrent use.
type Output struct {
	q     Queries
	gate  *reads.Gate
	pages sharedPages[lineKey, []Line]

	mu   sync.Mutex
	runs map[runKey]*Run // guarded by mu
}

type runKey struct{ tenant, execution string }

// Run is a run with followers.
type Run struct {
	runKey
	followers atomic.Int64
	stop      context.CancelFunc
	stopped   chan struct{} // closed when read has returned

	// kept holds the lines from first on; next is the number of the line after them.
	kept        []Line
	first, next int64
	size        int
	// status is terminal once all lines were read. err is the error that ended the
	// reading.
	status  events.Status
	err     error
	changed chan struct{} // closed and replaced after new lines, a terminal status or an error
}

// Line is a line of output, encoded as a server-sent event.
type Line []byte

// NewOutput returns the feed of the output that q reads. A read of stored lines for a
// follower that is behind waits until gate admits it.
func NewOutput(q Queries, gate *reads.Gate) *Output {
	return &Output{q: q, gate: gate, runs: map[runKey]*Run{}}
}

// Join adds a follower of a run. If it is the only one, the feed keeps lines starting at the
// line number from; otherwise Join ignores from. The caller MUST call leave. If it was the
// last follower, leave stops the reading and waits for its end.
func (o *Output) Join(ctx context.Context, tenant, id string, from int64) (f *Run, leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := runKey{tenant, id}
	f = o.runs[key]
	if f == nil {
		// The reading serves all followers: it must not end with the request of the first one.
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		f = &Run{runKey: key, stop: stop, stopped: make(chan struct{}), first: from, next: from, status: events.StatusRunning, changed: make(chan struct{})}
		o.runs[key] = f
		go func() {
			defer close(f.stopped)
			o.read(reading, f)
		}()
	}
	f.followers.Add(1)
	return f, func() {
		o.mu.Lock()
		last := f.followers.Add(-1) == 0
		if last {
			delete(o.runs, key)
		}
		o.mu.Unlock()
		if last {
			f.stop()
			<-f.stopped
		}
	}
}

// read adds lines until the run has ended or ctx is done.
func (o *Output) read(ctx context.Context, f *Run) {
	changed, stop := o.q.Watch(f.tenant, f.execution)
	defer stop()
	beat := time.NewTicker(damageInterval)
	defer beat.Stop()
	var pace readLimiter
	for from := f.next; ctx.Err() == nil; {
		lines, status, err := o.lines(ctx, f.runKey, from)
		from += int64(len(lines))
		o.add(f, lines, status, err)
		switch {
		case err != nil, len(lines) == 0 && status.Terminal():
			return
		case len(lines) == lineBatch:
			continue // the read was cut at lineBatch: more lines are probably stored
		case len(lines) > 0:
			// The loop does not wait for changed: the signal of the last change may have been
			// received before this read, and only a read without lines shows that none are left.
			_ = pace.wait(ctx, livePause(f.followers.Load())) // the loop checks ctx
			continue
		}
		select {
		case <-changed:
			_ = pace.wait(ctx, livePause(f.followers.Load())) // the loop checks ctx
		case <-beat.C:
			if err := o.q.Damage(); err != nil { // changed will not signal again
				o.add(f, nil, status, err)
				return
			}
		case <-ctx.Done():
		}
	}
}

// lines reads and encodes up to lineBatch lines, starting at the line number from.
func (o *Output) lines(ctx context.Context, run runKey, from int64) ([]Line, events.Status, error) {
	// The lines are shared: they are not counted against the budget of one client.
	list, status, err := o.q.Lines(budget.Without(ctx), run.tenant, run.execution, from, lineBatch)
	if err != nil {
		return nil, "", err
	}
	encoded := make([]Line, len(list))
	for i, l := range list {
		if encoded[i], err = encodeLine(l); err != nil {
			return nil, "", err
		}
	}
	return encoded, status, nil
}

func encodeLine(l projections.OutputLine) (Line, error) {
	var buf bytes.Buffer
	buf.WriteString("id: ")
	buf.WriteString(strconv.FormatInt(l.Line, 10))
	buf.WriteString("\ndata: ")
	// JSON contains no line break, and the encoder appends one.
	if err := encodeTo(&buf, l); err != nil {
		return nil, fmt.Errorf("encode line %d: %w", l.Line, err)
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

func (o *Output) add(f *Run, lines []Line, status events.Status, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f.err = err
	if len(lines) == 0 {
		f.status = status // with lines there may be more to come
	}
	for _, l := range lines {
		f.kept, f.size, f.next = append(f.kept, l), f.size+len(l), f.next+1
	}
	for f.size > outputBytes && len(f.kept) > 1 {
		f.size -= len(f.kept[0])
		f.kept[0] = nil // the array of the slice keeps the line otherwise
		f.kept, f.first = f.kept[1:], f.first+1
	}
	if len(lines) > 0 || status.Terminal() || err != nil {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// LinesFrom returns kept lines, starting at the line number from. If there are none and
// the status is not terminal, changed is closed when there are new lines, a terminal status
// or an error. ok is false if the follower is behind the kept lines: then the caller MUST
// call Stored.
func (o *Output) LinesFrom(f *Run, from int64) (lines []Line, status events.Status, changed <-chan struct{}, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if from < f.first {
		return nil, "", f.changed, false, nil
	}
	if from >= f.next {
		return nil, f.status, f.changed, true, f.err
	}
	size := 0
	for _, l := range f.kept[from-f.first:] {
		if size >= deliveryBytes {
			break
		}
		size += len(l)
		lines = append(lines, l)
	}
	return lines, events.StatusRunning, f.changed, true, nil
}

// lineKey identifies a page of lines of a run.
type lineKey struct {
	run  runKey
	from int64
}

// Stored reads lines, starting at the line number from, for a client that is behind
// the lines that the feed keeps. It returns no lines if a new attempt has replaced the output
// and has not written that line yet. If it returns no lines and a terminal status, no more
// lines follow.
func (o *Output) Stored(ctx context.Context, f *Run, from int64) (lines []Line, status events.Status, err error) {
	lines, err = o.pages.get(ctx, lineKey{f.runKey, from}, func() ([]Line, error) {
		ctx, leave, err := o.gate.Enter(ctx, f.tenant)
		if err != nil {
			return nil, err
		}
		defer leave()
		list, now, err := o.lines(ctx, f.runKey, from)
		if err == nil && len(list) == 0 {
			status, err = now, ErrNothingStored
		}
		return list, err
	})
	if errors.Is(err, ErrNothingStored) {
		err = nil
	}
	return lines, status, err
}

// Forget drops all pages of stored lines. It is called after content was shredded: they hold
// it decrypted. Lines that are kept for followers are those of runs that have not ended, which
// are not shredded.
func (o *Output) Forget() { o.pages.forget() }

const (
	// minPause and maxPause bound the time between two deliveries to a follower. A line
	// must appear within maxPause.
	minPause = 10 * time.Millisecond
	maxPause = 50 * time.Millisecond
	// followerPause is added to minPause for each follower of the same events or lines, until
	// the pause is maxPause. Up to there, all followers together get fewer than
	// 1/followerPause deliveries per second, besides those of full batches and those that
	// deliveryBytes splits.
	followerPause = maxPause / 64
)

// livePause returns the minimum time between two deliveries to the same follower, for a
// number of followers. A script that writes fast has its output recorded in many chunks per
// second. Without the pause each chunk would be a delivery to each follower.
func livePause(followers int64) time.Duration {
	return min(minPause+time.Duration(followers)*followerPause, maxPause)
}

// readLimiter limits the rate of reads, except of those that follow a full batch.
type readLimiter struct{ last time.Time }

// wait blocks until pause has elapsed since the last wait ended, or returns the error of ctx.
// The first wait returns immediately.
func (p *readLimiter) wait(ctx context.Context, pause time.Duration) error {
	if early := pause - time.Since(p.last); !p.last.IsZero() && early > 0 {
		t := time.NewTimer(early)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.last = time.Now()
	return nil
}
