package worker

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/exec/v8"
	"daybook/internal/globals"
	"daybook/runner"
)

const maxText = 16 << 20

// maxTimers limits the number of timers that a worker may report. The largest heap has
// space for fewer.
const maxTimers = 1 << 28

// frameChecker checks the frames that a worker sends for one task. It protects the parent
// from a worker that a script has taken over: a frame that is out of order, out of bounds
// or malformed is an error, after which the worker is killed.
type frameChecker struct {
	maxHeap      int64 // maximum size of the heap that the worker may send, in bytes
	hasInputHeap bool  // the task has a heap, and a report on it is required
	listsGlobals bool  // the task lists globals: no code runs, and the text is a globals.List
	carried      *v8.Carried
	// hideNames omits names that scripts chose from warnings.
	hideNames  bool
	hasCodeRun bool // the worker sent lines, an artifact, a call or a wait, so code has run
	calls      calls
	timers     timers
	call       *call // a complete call that is to be performed
	artifacts  artifacts
	artifact   *runner.Artifact // a complete artifact that is to be passed on

	offersModules bool // the task provides packages
	bundles       bool // the task makes a bundle: no code runs, and the text is the bundle
	// imports are the specifiers that the worker asked for, until they are answered.
	imports     []string
	hasImported bool // the worker asked for packages

	accepted   bool
	hasEnd     bool // the end header was received; its bodies follow
	isComplete bool
	end        endHeader
	text       []byte
	heap       []byte
	// heapTaken is the number of received bytes of the heap. If dropHeap is set, they are
	// discarded.
	dropHeap  bool
	heapTaken int64
}

// take checks and processes one frame. It returns the lines in it, if any.
func (c *frameChecker) take(t frameType, payload []byte) ([]events.Line, error) {
	switch {
	case c.isComplete:
		return nil, fmt.Errorf("%w: frame %q after the end", errProtocol, t)
	case t == frameAccepted && !c.accepted:
		if len(payload) != 0 {
			return nil, fmt.Errorf("%w: an acceptance carries %d bytes", errProtocol, len(payload))
		}
		c.accepted = true
		return nil, nil
	case !c.accepted:
		return nil, fmt.Errorf("%w: frame %q before the task was accepted", errProtocol, t)
	case t == frameCarried && c.hasInputHeap && c.carried == nil && !c.hasCodeRun && !c.hasEnd:
		return nil, c.takeCarried(payload)
	case t == frameImports && c.offersModules && !c.hasImported && !c.hasCodeRun && c.carried == nil && !c.hasEnd:
		return nil, c.takeImports(payload)
	case c.bundles && t != frameEnd && t != frameData:
		return nil, fmt.Errorf("%w: frame %q instead of a bundle", errProtocol, t)
	case c.listsGlobals && t != frameEnd && t != frameData:
		return nil, fmt.Errorf("%w: frame %q in a list of globals", errProtocol, t)
	case c.calls.receiving != nil:
		if t != frameData {
			return nil, fmt.Errorf("%w: frame %q instead of arguments", errProtocol, t)
		}
		return nil, c.wrapProtocolError(c.calls.takeArguments(payload))
	case c.artifacts.receiving != nil:
		if t != frameData {
			return nil, fmt.Errorf("%w: frame %q instead of an artifact", errProtocol, t)
		}
		return nil, c.takeArtifact(c.artifacts.takeBytes(payload))
	case c.calls.isWaiting && t != frameEnd && !c.hasEnd:
		return nil, fmt.Errorf("%w: frame %q while it waits", errProtocol, t)
	case t == frameCall && !c.hasEnd:
		c.hasCodeRun = true
		return nil, c.wrapProtocolError(c.calls.takeCall(payload))
	case t == frameWait && !c.hasEnd:
		c.hasCodeRun = true
		return nil, c.wrapProtocolError(nil, c.calls.takeWait(payload))
	case t == frameTimer && !c.hasEnd:
		c.hasCodeRun = true
		return nil, c.wrapProtocolError(nil, c.timers.take(payload))
	case t == frameArtifact && !c.hasEnd:
		c.hasCodeRun = true
		return nil, c.takeArtifact(c.artifacts.takeHeader(payload))
	case t == frameLines && !c.hasEnd:
		c.hasCodeRun = true
		lines, err := parseLines(payload)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errProtocol, err)
		}
		return lines, nil
	case t == frameEnd && !c.hasEnd:
		return nil, c.takeEnd(payload)
	case t == frameData && c.hasEnd:
		return nil, c.takeData(payload)
	default:
		return nil, fmt.Errorf("%w: unexpected frame %q", errProtocol, t)
	}
}

// wrapProtocolError wraps an error in errProtocol and returns it. Without an error it stores
// whole, a complete call or nil, in c.call.
func (c *frameChecker) wrapProtocolError(whole *call, err error) error {
	if err != nil && !errors.Is(err, errProtocol) {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	c.call = whole
	return err
}

// takeArtifact stores a complete artifact, or nil, in c.artifact. It wraps an error in
// errProtocol.
func (c *frameChecker) takeArtifact(whole *runner.Artifact, err error) error {
	if err != nil && !errors.Is(err, errProtocol) {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	c.artifact = whole
	return err
}

func (c *frameChecker) takeEnd(payload []byte) error {
	if err := decodeMessage(payload, &c.end); err != nil {
		return err
	}
	if err := c.checkEnd(); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	c.hasEnd = true
	c.text = make([]byte, 0, c.end.TextSize)
	// A large heap is allocated while it is received, because its announced size may be false.
	c.expectHeap(c.end.HeapSize)
	c.isComplete = c.end.TextSize == 0 && c.end.HeapSize == 0
	return nil
}

func (c *frameChecker) checkEnd() error {
	e := &c.end
	ran := e.End != endSyntax && e.End != endInternal
	savable := hasHeap(e.End)
	switch e.End {
	case endCompleted, endException, endSyntax, endNeverSettled, endOutOfMemory, endTerminated, endUnserializable, endInternal:
	default:
		return fmt.Errorf("the unknown end %.40q of a run", e.End)
	}
	switch {
	case e.TextSize < 0 || e.TextSize > maxText:
		return fmt.Errorf("a text of %d bytes", e.TextSize)
	case !e.HasText && (e.TextSize > 0 || e.Truncated):
		return fmt.Errorf("no text, but %d bytes of it are announced", e.TextSize)
	case e.TextSize == 0 && e.End != endCompleted && e.End != endOutOfMemory && e.End != endTerminated:
		return fmt.Errorf("no error text of a run that ended as %s", e.End)
	case hasHeap(e.End) && c.hasInputHeap && c.carried == nil:
		return errors.New("no report on the input heap")
	case c.listsGlobals && e.End == endCompleted && e.TextSize == 0:
		return errors.New("no list of globals")
	case c.bundles && e.End == endCompleted && e.TextSize == 0:
		return errors.New("no bundle")
	case e.End == endCompleted && len(c.calls.inFlight) > 0:
		return fmt.Errorf("a run that completed before %d of its calls were answered", len(c.calls.inFlight))
	case e.HeapSize < 0 || e.HeapSize > c.maxHeap:
		return fmt.Errorf("a heap of %d bytes, %d are allowed", e.HeapSize, c.maxHeap)
	case e.HeapSize > 0 && !savable:
		return fmt.Errorf("a heap from a run that ended as %s", e.End)
	case c.maxHeap > 0 && e.HeapSize == 0 && e.End == endCompleted:
		return fmt.Errorf("no heap from a stateful run that completed")
	case e.CPUMicros < 0 || e.CPUMicros > int64(24*time.Hour/time.Microsecond) || e.PeakHeap < 0:
		return fmt.Errorf("impossible measurements")
	case e.TimersCancelled < 0 || e.TimersCancelled > maxTimers || e.TimersCancelled > 0 && (e.HeapSize == 0 || e.End == endCompleted):
		return fmt.Errorf("%d timers cancelled in a run that ended as %s", e.TimersCancelled, e.End)
	case !events.ValidNondeterminism(e.Nondeterministic):
		return fmt.Errorf("malformed reasons of a run that may not repeat")
	case len(e.Warnings) > 8:
		return fmt.Errorf("%d warnings", len(e.Warnings))
	}
	if err := c.timers.checkEnd(e); err != nil {
		return err
	}
	for _, w := range e.Warnings {
		if len(w) > 1<<10 || !utf8.ValidString(w) {
			return fmt.Errorf("a malformed warning")
		}
	}
	if e.TranspiledSHA256 != "" || ran {
		b, err := hex.DecodeString(e.TranspiledSHA256)
		if err != nil || len(b) != 32 {
			return fmt.Errorf("a malformed hash")
		}
		e.TranspiledSHA256 = hex.EncodeToString(b) // lower case
	}
	return nil
}

func (c *frameChecker) takeData(payload []byte) error {
	if len(payload) == 0 {
		return fmt.Errorf("%w: an empty data frame", errProtocol)
	}
	if room := c.end.TextSize - int64(len(c.text)); room > 0 {
		if int64(len(payload)) > room {
			return fmt.Errorf("%w: more text than announced", errProtocol)
		}
		c.text = append(c.text, payload...)
	} else {
		if c.heapTaken+int64(len(payload)) > c.end.HeapSize {
			return fmt.Errorf("%w: more heap than announced", errProtocol)
		}
		c.heapTaken += int64(len(payload))
		switch room := c.payloadBuffer(frameData, len(payload)); {
		case c.dropHeap:
		case len(room) > 0 && &room[0] == &payload[0]:
			c.heap = c.heap[:len(c.heap)+len(payload)] // the payload was read into c.heap
		default:
			c.heap = append(c.heap, payload...)
		}
	}
	c.isComplete = int64(len(c.text)) == c.end.TextSize && c.heapTaken == c.end.HeapSize
	if c.isComplete && !utf8.Valid(c.text) {
		return fmt.Errorf("%w: a text that is not UTF-8", errProtocol)
	}
	if c.isComplete && c.listsGlobals && c.end.End == endCompleted {
		if _, err := globals.Decode(c.text); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
	}
	return nil
}

// expectHeap allocates memory for a heap of n bytes, at most 4 MiB of it.
func (c *frameChecker) expectHeap(n int64) {
	if n = min(n, c.maxHeap, 4<<20); int64(cap(c.heap)) < n {
		c.heap = make([]byte, 0, n)
	}
}

// reserveHeap waits until reserve permits the announced heap, and then allocates all of it.
// Memory that is not written to takes no space.
func (c *frameChecker) reserveHeap(ctx context.Context, reserve func(context.Context, int64) error) error {
	if c.end.HeapSize == 0 || reserve == nil {
		return nil
	}
	if err := reserve(ctx, c.end.HeapSize); err != nil {
		return fmt.Errorf("receive the heap of the run: %w", err)
	}
	if int64(cap(c.heap)) < c.end.HeapSize {
		c.heap = make([]byte, 0, c.end.HeapSize)
	}
	return nil
}

// discardHeap drops the heap. The worker still sends it, and it is still checked.
func (c *frameChecker) discardHeap() { c.dropHeap, c.heap = true, nil }

// payloadBuffer returns the memory of c.heap that the next piece of the heap is read into,
// which saves a copy. It returns nil for any other frame.
func (c *frameChecker) payloadBuffer(t frameType, n int) []byte {
	have := len(c.heap)
	if t != frameData || !c.hasEnd || c.dropHeap || int64(len(c.text)) < c.end.TextSize || int64(have+n) > c.end.HeapSize || have+n > cap(c.heap) {
		return nil
	}
	return c.heap[have : have+n : have+n]
}

// cost returns the CPU time and the peak heap of the run, in bytes. They are what the worker
// reported in its end header. Without one they are the CPU time that the process used and
// the peak that V8 reported when it ended the process.
func (c *frameChecker) cost(clock cpuClock, reportedPeak func() int64) (cpu time.Duration, peakHeap int64) {
	if c.hasEnd {
		return clock.limitToUsed(time.Duration(c.end.CPUMicros) * time.Microsecond), c.end.PeakHeap
	}
	cpu, _ = clock.used()
	return cpu, reportedPeak()
}

// outcome returns the outcome of a complete run.
func (c *frameChecker) outcome() runner.Outcome {
	o := runner.Outcome{
		Status:           events.StatusFailed,
		TranspiledSHA256: c.end.TranspiledSHA256,
		TimersCancelled:  c.end.TimersCancelled,
		Warnings:         c.end.Warnings,
		TimersFired:      c.end.TimersFired,
	}
	if c.end.ClockMicros != 0 {
		o.Clock = time.UnixMicro(c.end.ClockMicros).UTC()
	}
	if len(c.heap) > 0 {
		o.Heap = c.heap
	}
	text := string(c.text)
	switch c.end.End {
	case endCompleted:
		o.Status = events.StatusCompleted
		if c.end.HasText {
			o.Result = &text
			o.ResultTruncated = c.end.Truncated
		}
		return o
	case endOutOfMemory:
		o.Reason, o.Error = runner.ReasonOutOfMemory, outOfMemoryText
	case endSyntax:
		o.Reason, o.Error = runner.ReasonSyntaxError, text
	case endNeverSettled:
		o.Reason, o.Error = runner.ReasonNeverSettled, text
	case endUnserializable:
		o.Reason, o.Error = runner.ReasonUnserializableHeap, text
	case endTerminated:
		// The parent did not ask for it: after a request, perform returns another outcome.
		o.Reason, o.Error = runner.ReasonWorkerDied, "The worker ended the execution without being asked to"
	case endInternal:
		o.Reason, o.Error = runner.ReasonWorkerDied, text
	default:
		o.Reason, o.Error = runner.ReasonException, text
	}
	return o
}

// isReusable reports whether the worker may be used again.
func (c *frameChecker) isReusable() bool {
	return c.isComplete && (c.end.End == endCompleted || c.end.End == endException || c.end.End == endSyntax || c.end.End == endNeverSettled)
}

// isStopReusable reports whether a worker that was asked to end its run may be used again.
// The run may have ended before the request reached it.
func (c *frameChecker) isStopReusable() bool {
	return c.isReusable() || c.isComplete && c.end.End == endTerminated
}
