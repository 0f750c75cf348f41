package v8

/*
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"math"
	"runtime/cgo"
	"strings"
	"time"
	"unsafe"

	"daybook/internal/exec/platform"
)

// cBytes returns a view of b, which is valid for one call, or as long as b is pinned.
func cBytes(b []byte) C.daybook_bytes {
	return C.daybook_bytes{data: (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), size: C.size_t(len(b))}
}

// toMillis converts t to milliseconds since 1970. For present times, a float64 of milliseconds
// resolves a quarter of a microsecond, so microseconds are kept.
func toMillis(t time.Time) float64 { return float64(t.UnixMicro()) / 1000 }

func fromMillis(ms float64) time.Time { return time.UnixMicro(int64(math.Round(ms * 1000))).UTC() }

//export daybook_write
func daybook_write(output C.uintptr_t, level C.int, clock C.double, text *C.char, size C.size_t) C.int {
	message := unsafe.Slice((*byte)(unsafe.Pointer(text)), int(size))
	out := cgo.Handle(output).Value().(Output)
	if err := out.WriteMessage(uint8(level), fromMillis(float64(clock)), message); err != nil {
		return 1
	}
	return 0
}

//export daybook_artifact
func daybook_artifact(output C.uintptr_t, clock C.double, name, mime, content C.daybook_bytes) C.int {
	out, ok := cgo.Handle(output).Value().(ArtifactOutput)
	if !ok {
		return 0
	}
	if err := out.WriteArtifact(string(goBytes(name)), string(goBytes(mime)), fromMillis(float64(clock)), goBytes(content)); err != nil {
		return 1
	}
	return 0
}

// goBytes returns a view of b, which is valid during the call from or to C.
func goBytes(b C.daybook_bytes) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b.data)), int(b.size))
}

// splitNames returns names that each end in a zero byte.
func splitNames(b C.daybook_bytes) []string {
	var names []string
	for rest := string(goBytes(b)); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "\x00")
		names = append(names, name)
	}
	return names
}

//export daybook_call
func daybook_call(host C.uintptr_t, number C.double, server, tool, arguments C.daybook_bytes) C.int {
	h := cgo.Handle(host).Value().(Host)
	if err := h.Call(int(number), string(goBytes(server)), string(goBytes(tool)), goBytes(arguments)); err != nil {
		return 1
	}
	return 0
}

//export daybook_fired
func daybook_fired(timers C.uintptr_t, clock C.double, kind C.int, delay C.double, name C.daybook_bytes) C.int {
	fired := Timer{At: fromMillis(float64(clock)), Kind: TimerKind(kind), Delay: time.Duration(float64(delay) * float64(time.Millisecond)), Name: string(goBytes(name))}
	if err := cgo.Handle(timers).Value().(Timers).TimerFires(fired); err != nil {
		return 1
	}
	return 0
}

//export daybook_await
func daybook_await(host C.uintptr_t, dueMillis C.double, answer *C.daybook_answer) C.int {
	var due time.Time
	if dueMillis >= 0 {
		due = dueAt(float64(dueMillis))
	}
	a, err := cgo.Handle(host).Value().(Host).Await(due)
	switch {
	case err != nil:
		return C.DAYBOOK_HOST_STOPPED
	case a.Number == 0:
		return C.DAYBOOK_HOST_TICK
	}
	answer.number, answer.clock_ms = C.double(a.Number), C.double(toMillis(a.At))
	if a.OK {
		answer.ok = 1
	}
	answer.text, answer.size = (*C.char)(C.CBytes(a.Text)), C.size_t(len(a.Text))
	return C.DAYBOOK_HOST_ANSWER
}

// dueAt converts milliseconds since 1970 and rounds up to microseconds, so that an answer at the
// same microsecond comes after the timer.
func dueAt(ms float64) time.Time { return time.UnixMicro(int64(math.Ceil(min(ms, 1e15) * 1000))).UTC() }

//export daybook_compute
func daybook_compute(name C.daybook_bytes, inputs *C.daybook_bytes, count C.int, result *C.daybook_computed) {
	views := make([][]byte, count)
	for i, input := range unsafe.Slice(inputs, int(count)) {
		views[i] = goBytes(input)
	}
	r, err := platform.Compute(string(goBytes(name)), views)
	result.kind = C.DAYBOOK_COMPUTED_BYTES
	switch {
	case err != nil:
		result.kind = C.DAYBOOK_COMPUTED_ERROR
		r.Bytes = []byte(platform.ErrorName(err) + "\n" + err.Error())
	case r.IsText:
		result.kind = C.DAYBOOK_COMPUTED_TEXT
	}
	result.data, result.size = (*C.char)(C.CBytes(r.Bytes)), C.size_t(len(r.Bytes))
}
