package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Carried describes what a restored heap brings along besides values.
type Carried struct {
	// Checked reports whether the built-in objects were compared with those that a
	// fresh isolate has.
	Checked bool `json:"checked"`
	// Changes counts the properties, prototypes and the like that differ. A heap without
	// any is pristine.
	Changes int `json:"changes"`
	// Changed names the first of them in printable ASCII: "Array.prototype.map".
	Changed []string `json:"changed"`
	// Timers are those that may fire during the run.
	Timers CarriedTimers `json:"timers"`
	// Finalizers reports whether a run registered an object with a FinalizationRegistry,
	// whose callback may run during any later run.
	Finalizers bool `json:"finalizers"`
}

// CarriedTimers counts timers by kind.
type CarriedTimers struct {
	Timeouts   int `json:"timeouts"`
	Intervals  int `json:"intervals"`
	Immediates int `json:"immediates"`
	// Unreferenced counts those of any kind that do not keep a run from ending.
	Unreferenced int `json:"unreferenced"`
}

var errStopped = errors.New("inspect the heap: the run was stopped")

// Inspect describes what the isolate's heap brings along. It runs no code of earlier
// runs. Call it after New with Config.Heap, before Run.
func (i *Isolate) Inspect() (Carried, error) {
	i.mu.Lock()
	if i.ptr == nil {
		i.mu.Unlock()
		return Carried{}, ErrDisposed
	}
	if i.stopped {
		i.mu.Unlock()
		return Carried{}, errStopped
	}
	i.running = true
	i.mu.Unlock()
	var text C.daybook_bytes
	failed := C.daybook_inspect(i.ptr, &text) != 0
	i.mu.Lock()
	i.running = false
	i.mu.Unlock()
	if failed {
		return Carried{}, errStopped
	}
	var c Carried
	if err := json.Unmarshal(goBytes(text), &c); err != nil {
		return Carried{}, fmt.Errorf("inspect the heap: %w", err)
	}
	return c, nil
}
