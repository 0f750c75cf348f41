package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Carried describes what earlier runs left in a restored heap besides values.
type Carried struct {
	// Checked reports whether the built-in objects were compared with those that a
	// fresh isolate has.
	Checked bool `json:"checked"`
	// Changes is the number of properties, prototypes and other parts that differ. A heap
	// with 0 changes is pristine.
	Changes int `json:"changes"`
	// Changed has the names of the first changes in printable ASCII:
	// "Array.prototype.map".
	Changed []string `json:"changed"`
	// Globals describes properties of the global object that earlier runs created.
	Globals CarriedGlobals `json:"globals"`
	// Timers counts the timers that may fire during the run.
	Timers CarriedTimers `json:"timers"`
	// Finalizers reports whether a run registered an object with a FinalizationRegistry,
	// whose callback may run during any later run.
	Finalizers bool `json:"finalizers"`
}

// CarriedGlobals describes the accessors and the read-only properties that earlier runs put on
// the global object. They determine what a later run gets when it reads or assigns such a name.
type CarriedGlobals struct {
	Count int `json:"count"`
	// Names has the names of the first ones in printable ASCII: "total (accessor)".
	Names []string `json:"names"`
	// Unseen is the number of properties of the global object that were not checked: those
	// after the first 20,000.
	Unseen int `json:"unseen"`
}

// CarriedTimers counts timers by kind.
type CarriedTimers struct {
	Timeouts   int `json:"timeouts"`
	Intervals  int `json:"intervals"`
	Immediates int `json:"immediates"`
	// Unreferenced is the number of timers of any kind that do not keep a run active.
	Unreferenced int `json:"unreferenced"`
}

// ErrStopped is returned when the isolate was stopped.
var ErrStopped = errors.New("inspect the heap: the run was stopped")

// Inspect describes what earlier runs left in the heap of the isolate. It executes no code of
// those runs. Call it after New with Config.Heap and before Run. It returns an error after
// Dispose, and if the run was stopped.
func (i *Isolate) Inspect() (Carried, error) {
	i.mu.Lock()
	if i.ptr == nil {
		i.mu.Unlock()
		return Carried{}, errDisposed
	}
	if i.stopped {
		i.mu.Unlock()
		return Carried{}, ErrStopped
	}
	i.running = true
	i.mu.Unlock()
	var text C.daybook_bytes
	var c Carried
	err := ErrStopped
	if C.daybook_inspect(i.ptr, &text) == 0 {
		if err = json.Unmarshal(goBytes(text), &c); err != nil {
			err = fmt.Errorf("inspect the heap: %w", err)
		}
	}
	if err == nil {
		c.Globals, err = i.inspectGlobals()
	}
	i.mu.Lock()
	i.running = false
	i.mu.Unlock()
	if err != nil {
		return Carried{}, err
	}
	return c, nil
}

func (i *Isolate) inspectGlobals() (CarriedGlobals, error) {
	var count, unseen C.int
	var list C.daybook_bytes
	if C.daybook_inspect_globals(i.ptr, &count, &unseen, &list) != 0 {
		return CarriedGlobals{}, ErrStopped
	}
	return CarriedGlobals{int(count), globalNames(goBytes(list)), int(unseen)}, nil
}

// globalNames decodes the list that daybook_inspect_globals returns.
func globalNames(list []byte) []string {
	var names []string
	for len(list) >= 3 {
		kind, symbol, end := list[0], list[1] == 's', 3+int(list[2])
		name := globalName(string(list[3:end]), symbol)
		if kind == 'a' {
			name += " (accessor)"
		} else {
			name += " (read-only)"
		}
		names = append(names, name)
		list = list[end:]
	}
	return names
}

// longestGlobalName is the maximum number of characters of a name that are shown.
const longestGlobalName = 40

// globalName returns the name of a property of the global object in printable ASCII.
func globalName(name string, symbol bool) string {
	var b strings.Builder
	plain, n := !symbol && name != "", 0
	for _, r := range name {
		if n == longestGlobalName {
			b.WriteString("...")
			plain = false
			break
		}
		isLetter := r == '_' || r == '$' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		plain = plain && (isLetter || n > 0 && r >= '0' && r <= '9')
		switch {
		case r < ' ' || r > '~':
			b.WriteByte('?')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteRune(r)
		}
		n++
	}
	switch {
	case plain:
		return b.String()
	case symbol:
		return `globalThis[Symbol("` + b.String() + `")]`
	default:
		return `globalThis["` + b.String() + `"]`
	}
}
