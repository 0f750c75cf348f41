package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Global describes a global that scripts added to a heap.
type Global struct {
	// Name is valid UTF-8 of about 1 KiB at most. That of a symbol is "Symbol(x)".
	Name string `json:"name"`
	// Kind is "lexical" for let, const and class, "property" or "accessor".
	Kind string `json:"kind"`
	// Type is typeof of the value, "null" for null, and "uninitialized" for a binding
	// without a value. It is empty for an accessor.
	Type string `json:"type,omitempty"`
	// Class is the name of the constructor of an object.
	Class string `json:"class,omitempty"`
	// Size is the number of elements, entries or own properties, for buffers and views of
	// bytes, for strings of UTF-16 units. It is nil for other values.
	Size *int64 `json:"size,omitempty"`
	// Preview is the value as util.inspect prints it, at most 1 KiB of it. An ellipsis marks
	// a cut.
	Preview string `json:"preview"`
	// SHA256 is the hash of a longer text of the value. Partial reports whether that text
	// leaves out a part of the value.
	SHA256  string `json:"sha256"`
	Partial bool   `json:"partial,omitempty"`
}

// Globals lists the globals that scripts added to a heap, in the order of their names.
type Globals struct {
	List []Global `json:"globals"`
	// More is the number of globals after those of the list.
	More int `json:"more,omitempty"`
}

// ErrHeapLimit is returned when the isolate reached its heap limit.
var ErrHeapLimit = errors.New("list globals: the heap limit is reached")

// Globals describes the globals of the restored heap, at most limit of them after the first
// skip. It executes no code of the scripts that left them: no accessor, no proxy, no conversion.
// Call it instead of Run. Afterwards the isolate can only be disposed of.
func (i *Isolate) Globals(skip, limit int) (Globals, error) {
	i.mu.Lock()
	if i.ptr == nil {
		i.mu.Unlock()
		return Globals{}, errDisposed
	}
	if i.stopped {
		i.mu.Unlock()
		return Globals{}, ErrStopped
	}
	i.running = true
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.running, i.stopped = false, true // the prelude can run no script now
		i.mu.Unlock()
	}()
	var listed, total C.int
	if err := globalsError(C.daybook_list_globals(i.ptr, C.int(skip), C.int(limit), &listed, &total)); err != nil {
		return Globals{}, err
	}
	all := Globals{List: make([]Global, 0, int(listed)), More: max(int(total)-int(listed)-skip, 0)}
	for n := range listed {
		var c C.daybook_global
		if err := globalsError(C.daybook_describe_global(i.ptr, n, &c)); err != nil {
			return Globals{}, err
		}
		g := Global{Name: string(goBytes(c.name)), Type: string(goBytes(c._type)), Class: string(goBytes(c.class_name))}
		canonical := goBytes(c.canonical)
		switch c.kind {
		case 'l':
			g.Kind = "lexical"
		case 'u':
			g.Kind, g.Type, g.Preview = "lexical", "uninitialized", "<uninitialized>"
		case 'p':
			g.Kind = "property"
		case 'a':
			g.Kind = "accessor"
		}
		if c.kind != 'u' {
			g.Preview = string(goBytes(c.preview)[1:])
			g.Partial, canonical = canonical[0] == '~', canonical[1:]
		}
		if c.is_preview_cut != 0 {
			g.Preview += "…"
		}
		if c.size >= 0 {
			size := int64(c.size)
			g.Size = &size
		}
		sum := sha256.Sum256(canonical)
		g.SHA256 = hex.EncodeToString(sum[:])
		all.List = append(all.List, g)
	}
	return all, nil
}

func globalsError(status C.int) error {
	switch status {
	case 0:
		return nil
	case C.DAYBOOK_OUT_OF_MEMORY:
		return ErrHeapLimit
	default:
		return ErrStopped
	}
}
