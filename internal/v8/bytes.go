package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"math"
	"runtime/cgo"
	"time"
	"unsafe"
)

// cBytes views b for one call, or for as long as b is pinned.
func cBytes(b []byte) C.daybook_bytes {
	return C.daybook_bytes{data: (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), size: C.size_t(len(b))}
}

// toMillis keeps microseconds: a float64 of milliseconds since 1970 resolves a
// quarter of one.
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
