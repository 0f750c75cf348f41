package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/exec/v8"
	"daybook/internal/globals"
)

// run runs one job and reports its end. It returns an error if the pipe is closed, and
// errProtocol if the job cannot be understood.
func (s *server) run(j *job) error {
	end, p := endHeader{}, j.program
	s.takeOrder()
	s.isolateMu.Lock()
	defer s.isolateMu.Unlock()
	modules, err := s.wasm.replace(j.WASM, j.modules)
	if err != nil {
		return err
	}
	if j.refused != nil || j.BundleSize > 0 {
		s.prewarmed.drop()
		j.heap.release()
		return s.endWithoutScript(j)
	}

	sink := newLineSink(func(b []byte) error { return s.frame(frameLines, b) })
	sink.writeArtifact = s.artifact
	link := s.newLink(sink)
	defer s.dropLink()
	var timers v8.Timers
	var reporter *timerReporter
	if j.ReportTimers {
		reporter = &timerReporter{server: s, sink: sink}
		timers = reporter
	}
	cfg := v8.Config{
		Heap:        j.heap.bytes,
		Plain:       !j.Stateful,
		HeapLimit:   j.HeapLimit,
		BufferLimit: j.BufferLimit,
		Seed:        j.Seed,
		Start:       time.UnixMicro(j.StartMicros),
		Output:      sink,
		Servers:     j.servers,
		Host:        link,
		Globals:     j.globals,
		SkipWaits:   j.SkipWaits,
		NodeGlobals: j.NodeGlobals,
		JIT:         j.JIT,
		WASMModules: modules,
		Timers:      timers,
	}
	isolate, carried, inspected, err := s.takeIsolate(j, cfg)
	j.heap.release() // the isolate has a copy, and saving needs the memory
	if errors.Is(err, errProtocol) {
		return err
	}
	if err != nil {
		_ = sink.close() // nothing was written
		end.End = endInternal
		return s.end(j, end, "Could not start the isolate: "+err.Error(), nil)
	}
	defer s.prewarmed.giveBack(isolate) // after the end was reported
	s.setCurrent(isolate)
	if j.ListGlobals {
		return s.listGlobals(j, sink, isolate)
	}
	if j.HeapSize > 0 && !inspected {
		// An error means that the run was stopped; isolate.Run then returns immediately.
		if found, err := isolate.Inspect(); err == nil {
			carried = &found
		}
	}
	if carried != nil {
		if err := s.message(frameCarried, *carried); err != nil {
			return err
		}
	}
	r, err := isolate.Run(p.script(j))
	if err == nil && r.Status == v8.SyntaxError {
		// It may be TypeScript.
		typed, refused := typeScript(j.linked.code, j.FileName, j.Stateful)
		if refused != nil {
			s.setCurrent(nil)
			_ = sink.close() // nothing was written
			return s.end(j, endHeader{End: endSyntax}, refused.Error(), nil)
		}
		if typed != nil {
			p = typed
			r, err = isolate.Run(p.script(j))
		}
	}
	s.setCurrent(nil)
	sum := sha256.Sum256(p.code)
	end.TranspiledSHA256 = hex.EncodeToString(sum[:])
	if closed := sink.close(); closed != nil {
		return closed
	}
	if reporter != nil {
		end.TimersFired, end.ClockMicros = reporter.fired, clockMicros(r.Clock)
	}
	if err != nil {
		end.End = endInternal
		return s.end(j, end, err.Error(), nil)
	}

	end.PeakHeap, end.Truncated = r.PeakHeap, r.Truncated
	if r.ReadCollected {
		end.Nondeterministic = append(end.Nondeterministic, events.ReadCollectedWeakRef)
	}
	if r.Finalized {
		end.Nondeterministic = append(end.Nondeterministic, events.RanFinalizer)
	}
	if len(r.GlobalsRefused) > 0 {
		end.Warnings = append(end.Warnings, refusedText(j.describeValues(r.GlobalsRefused), r.GlobalChange))
	}
	if len(r.GlobalsHidden) > 0 {
		end.Warnings = append(end.Warnings, hiddenText(j.describeValues(r.GlobalsHidden)))
	}
	end.End = endOf(r.Status)
	text := ""
	if r.Text != nil {
		text, end.HasText = *r.Text, true
		if r.Status != v8.Completed {
			text = withHint(p.describe(text, r), j.code)
		}
		if text == "" && r.Status != v8.Completed { // the script set the stack of the error to ""
			text = "Uncaught error without a description"
		}
	}
	var heap []byte
	if j.Stateful && hasHeap(end.End) {
		heap, err = isolate.Snapshot()
		switch {
		case err != nil && end.End == endCompleted:
			end.End, end.HasText, end.Truncated = endUnserializable, true, false
			text = upperFirst(err.Error())
		case err != nil:
			end.Warnings = append(end.Warnings, "heap not saved: "+err.Error())
		default:
			end.TimersCancelled = r.TimersCancelled
		}
	}
	if len(heap) > 0 && (r.AboveLimit || r.BeyondLimit && len(heap) > j.HeapSize+maxFullGrowth) {
		heap, end.TimersCancelled = nil, 0
		if end.End == endCompleted {
			end.End, end.HasText, end.Truncated = endOutOfMemory, false, false
			text = ""
		} else {
			end.Warnings = append(end.Warnings, "heap not saved: it reached heap_memory_max_mb")
		}
	}
	if err := s.end(j, end, text, heap); err != nil {
		return err
	}
	if j.KeepHeap {
		s.prewarmed.keep(heap, cfg)
	}
	return nil
}

// endWithoutScript ends a job whose imports cannot be resolved, or that makes a bundle.
func (s *server) endWithoutScript(j *job) error {
	sum := sha256.Sum256(nil)
	end := endHeader{End: endSyntax, TranspiledSHA256: hex.EncodeToString(sum[:])}
	if j.refused != nil {
		return s.end(j, end, j.refused.text, nil)
	}
	end.End = endCompleted
	return s.end(j, end, string(j.encoded), nil)
}

// listGlobals sends a list of the globals of the isolate, in which no script has run.
func (s *server) listGlobals(j *job, sink *lineSink, isolate *v8.Isolate) error {
	all, err := isolate.Globals(j.SkipGlobals, globals.MaxListed)
	s.setCurrent(nil)
	_ = sink.close() // nothing was written
	sum := sha256.Sum256(nil)
	end := endHeader{End: endCompleted, TranspiledSHA256: hex.EncodeToString(sum[:])}
	var text []byte
	if err == nil {
		text, err = json.Marshal(all)
	}
	switch {
	case errors.Is(err, v8.ErrHeapLimit):
		end.End = endOutOfMemory
	case errors.Is(err, v8.ErrStopped):
		end.End = endTerminated
	case err != nil:
		end.End, text = endInternal, []byte(err.Error())
	}
	if end.End == endOutOfMemory || end.End == endTerminated {
		text = nil
	}
	return s.end(j, end, string(text), nil)
}

// maxFullGrowth limits the growth of the heap in a run that used memory beyond its heap limit,
// in bytes. A larger heap is not saved. A small script changes the size of a heap by less.
const maxFullGrowth = 4 << 10

// hasHeap reports whether a run with this end has a heap to save. A run that did not start or
// was stopped has none.
func hasHeap(end string) bool {
	return end == endCompleted || end == endException || end == endNeverSettled
}

func endOf(status v8.Status) string {
	switch status {
	case v8.Completed:
		return endCompleted
	case v8.Exception:
		return endException
	case v8.SyntaxError:
		return endSyntax
	case v8.NeverSettled:
		return endNeverSettled
	case v8.OutOfMemory:
		return endOutOfMemory
	default:
		return endTerminated
	}
}

// describe adds the position in the caller's source to a syntax error.
func (p *program) describe(text string, r v8.Result) string {
	if r.Status != v8.SyntaxError || r.Line == 0 || strings.Contains(text, "\n    at ") {
		return text
	}
	line, column := r.Line, r.Column
	if m := p.consumer(); m != nil {
		if l, c, ok := p.position(m, line, column); ok {
			line, column = l, c
		}
	}
	return fmt.Sprintf("%s\n    at %s:%d:%d", text, p.file, line, column)
}

// end reports the end of a job with the CPU time that it used.
func (s *server) end(j *job, end endHeader, text string, heap []byte) error {
	end.CPUMicros = (cpuTime() - j.cpuAtStart).Microseconds()
	if text != "" {
		end.HasText = true
	}
	end.TextSize, end.HeapSize = int64(len(text)), int64(len(heap))
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeBuffered(s.out, func(w io.Writer) error {
		if err := writeMessage(w, frameEnd, end); err != nil {
			return err
		}
		return writeBody(w, []byte(text), heap)
	})
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// cpuTime returns the CPU time of this process, including the threads that collect garbage.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
