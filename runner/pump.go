package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// flushInterval is the longest time that output waits for more output to share an
// append. The first line after a pause of this length does not wait.
const flushInterval = 25 * time.Millisecond

// Limits of the output that is accepted and not yet appended. Above them the script
// waits.
const (
	maxBacklogLines = 4 * events.OutputMaxLines
	maxBacklogBytes = 4 * events.OutputMaxBytes
)

// stoppedWriteTimeout is how long the writes of a stopped run may wait in total while
// the backlog is full. A worker is killed 300 ms after it was asked to stop.
const stoppedWriteTimeout = 150 * time.Millisecond

// errPumpClosed is returned to a worker that writes after its run.
var errPumpClosed = errors.New("output after the end of the run")

// pump records the output of one attempt. It has two loops: one collects lines into
// chunks, the other appends one chunk after the other, each once the previous one is
// acknowledged. This guarantees the order and does not limit the rate: while one chunk is
// written to disk, the next one fills up.
//
// At the output cap, the pump stores the part that fits, cut at a character boundary,
// and a truncation mark. It only counts and hashes the rest. The cap applies to each
// attempt, so that the final attempt shows as much as the first one would.
type pump struct {
	log   OutputLog
	start *future[*ledger.StartedAttempt]
	limit int64 // in bytes of stored output; 0 or less: no limit
	// pace makes the script wait while all runs record too much output; nil for no
	// limit.
	pace      *outputPace
	tenant    string
	encrypted bool
	// acceptedBytes counts the bytes of accepted lines. Used by write only.
	acceptedBytes int64
	// writeDeadline is when write starts to refuse lines that must wait:
	// stoppedWriteTimeout after it found the run stopped. Used by write only.
	writeDeadline time.Time

	lineCh   chan []events.Line
	finishCh chan struct{}
	done     chan struct{} // closed when run has returned
	err      error         // the error of run

	// Owned by the collecting loop, and by finish after it.
	meter       *meter
	backlog     backlog
	storedBytes int64
	lastLine    events.Line // the last accepted line, without its text
}

func newPump(log OutputLog, start *future[*ledger.StartedAttempt], plan ledger.Plan, limit int64) *pump {
	return &pump{
		log:       log,
		start:     start,
		limit:     limit,
		tenant:    plan.Request.Tenant,
		encrypted: plan.Request.ContentKeyID() != "",
		lineCh:    make(chan []events.Line),
		finishCh:  make(chan struct{}),
		done:      make(chan struct{}),
		meter:     newMeter(plan.FirstLine, plan.FirstByte),
		backlog:   backlog{nextLine: plan.FirstLine, nextByte: plan.FirstByte},
	}
}

// write passes lines to the pump, which then owns the slice. It blocks while the
// backlog is full, and while all runs together record too much. It returns the reason
// why output can no longer be recorded, or the cause of ctx's end.
//
// ctx ends when the run is stopped. write then no longer waits for the pace, and waits
// for the backlog for stoppedWriteTimeout in total.
func (p *pump) write(ctx context.Context, lines []events.Line) error {
	if p.pace != nil && (p.limit <= 0 || p.acceptedBytes <= p.limit) { // output above the cap is not recorded
		for _, l := range lines {
			p.acceptedBytes += l.Bytes()
		}
		if err := p.pace.wait(ctx, p.tenant, recordedBytes(lines, p.encrypted)); err != nil {
			return err
		}
	}
	select {
	case p.lineCh <- lines:
		return nil
	case <-p.done:
		return p.closedError()
	case <-ctx.Done():
	}
	if p.writeDeadline.IsZero() {
		p.writeDeadline = time.Now().Add(stoppedWriteTimeout)
	}
	timer := time.NewTimer(time.Until(p.writeDeadline))
	defer timer.Stop()
	select {
	case p.lineCh <- lines:
		return nil
	case <-p.done:
		return p.closedError()
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// closedError returns the error of a write after run has returned.
func (p *pump) closedError() error {
	if p.err != nil {
		return p.err
	}
	return errPumpClosed
}

// finish waits until all output is recorded and returns its totals. It MUST be called
// once, after the last write has returned.
func (p *pump) finish() (events.OutputTotals, error) {
	close(p.finishCh)
	<-p.done
	return p.meter.totals(), p.err
}

// run records output until finish is called and everything is recorded, or until
// recording fails or ctx is done.
func (p *pump) run(ctx context.Context) error {
	defer close(p.done)
	chunks := make(chan chunk)
	appended := make(chan error, 1)
	go func() { appended <- recoverPanic(func() error { return p.append(ctx, chunks) }) }()

	p.err = recoverPanic(func() error { return p.collect(ctx, chunks, appended) })
	close(chunks)
	if err := <-appended; p.err == nil {
		p.err = err
	}
	return p.err
}

// append records chunks in order.
func (p *pump) append(ctx context.Context, chunks <-chan chunk) error {
	for c := range chunks {
		// No output is recorded before the start of the run.
		run, err := p.start.get(ctx)
		if err != nil {
			return err
		}
		if c.isTruncation {
			err = p.log.TruncateOutput(ctx, run, c.firstLine, c.firstByte, p.limit)
		} else {
			_, err = p.log.AppendOutput(ctx, run, c.firstLine, c.firstByte, c.lines)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// collect accepts lines and passes chunks to append. If append fails, collect returns
// and leaves the error to run.
func (p *pump) collect(ctx context.Context, chunks chan<- chunk, appended chan error) error {
	var due time.Time // when the backlog is passed on even if it is not full
	timer := time.NewTimer(0)
	defer timer.Stop()
	finishCh, finished := p.finishCh, false
	for {
		inCh := p.lineCh
		if finished || len(p.backlog.lines) >= maxBacklogLines || p.backlog.bytes >= maxBacklogBytes {
			inCh = nil
		}
		var outCh chan<- chunk
		var next chunk
		var waited <-chan time.Time
		switch now := time.Now(); {
		case p.backlog.isEmpty():
			if finished {
				return nil
			}
		case finished || p.backlog.isFull() || !now.Before(due):
			outCh, next = chunks, p.backlog.nextChunk()
		default:
			timer.Reset(due.Sub(now))
			waited = timer.C
		}
		select {
		case lines := <-inCh:
			p.accept(lines)
		case outCh <- next:
			p.backlog.drop(next)
			due = time.Now().Add(flushInterval)
		case <-waited:
		case <-finishCh:
			finishCh, finished = nil, true
			p.endOpenLine()
		case err := <-appended:
			appended <- err
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *pump) accept(lines []events.Line) {
	for _, l := range lines {
		sanitize(l, p.addLine)
	}
}

// addLine counts a line and stores the part below the cap.
func (p *pump) addLine(l events.Line) {
	p.meter.add(l)
	p.lastLine = events.Line{Level: l.Level, TimeMillis: l.TimeMillis}
	if p.meter.isTruncated {
		return
	}
	if p.limit > 0 && p.storedBytes+l.Bytes() > p.limit {
		p.meter.isTruncated = true
		l.Text = l.Text[:runeStart(l.Text, int(min(p.limit-p.storedBytes, int64(len(l.Text)))))]
		l.Continued = true
		if l.Text != "" {
			p.backlog.add(l)
		}
		p.backlog.hasTruncation = true
		return
	}
	p.storedBytes += l.Bytes()
	p.backlog.add(l)
}

// endOpenLine ends a line that a stopped script left open, so that output always
// consists of whole lines.
func (p *pump) endOpenLine() {
	if p.meter.isLineOpen {
		p.addLine(events.Line{Level: p.lastLine.Level, TimeMillis: p.lastLine.TimeMillis})
	}
}

// meter counts and hashes the output of an attempt, including output that is not
// stored.
type meter struct {
	// lines and bytes count from the start of the execution, as in its terminal event.
	lines, bytes int64
	// hash covers this attempt only.
	hash hash.Hash
	// isLineOpen is true if the last line has no end yet.
	isLineOpen  bool
	isTruncated bool
	buf         []byte
}

// newMeter returns a meter that starts at the number of the next line and the offset of
// the next byte.
func newMeter(firstLine, firstByte int64) *meter {
	return &meter{lines: firstLine - 1, bytes: firstByte, hash: sha256.New()}
}

func (m *meter) add(l events.Line) {
	m.buf = append(m.buf[:0], l.Text...)
	if !l.Continued {
		m.buf = append(m.buf, '\n')
		m.lines++
	}
	m.isLineOpen = l.Continued
	m.bytes += int64(len(m.buf))
	m.hash.Write(m.buf)
}

func (m *meter) totals() events.OutputTotals {
	return events.OutputTotals{
		Lines: m.lines, Bytes: m.bytes, SHA256: hex.EncodeToString(m.hash.Sum(nil)), Truncated: m.isTruncated,
	}
}
