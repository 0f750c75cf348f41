package wasm_test

import (
	"fmt"
	"math"
	"testing"

	"daybook/events"
	"daybook/internal/modules/wasm"
)

// The record of an export can say anything about modules, and some of it would take memory
// without limit.
func TestCheckRecorded(t *testing.T) {
	t.Parallel()
	module := func(name string, size int64) events.WASMModule {
		return events.WASMModule{Name: name, Module: events.BlobRef{SHA256: events.Hash(nil), Size: size}}
	}
	var most, many []events.WASMModule
	for i := range wasm.MaxModules + 1 {
		many = append(many, module(fmt.Sprint("m", i), 1))
	}
	most = many[:wasm.MaxModules]
	for name, test := range map[string]struct {
		list []events.WASMModule
		ok   bool
	}{
		"none":             {nil, true},
		"one":              {[]events.WASMModule{module("a", 1)}, true},
		"the largest":      {[]events.WASMModule{module("a", wasm.MaxBytes-1), module("b", 1)}, true},
		"the most":         {most, true},
		"too many":         {many, false},
		"too large":        {[]events.WASMModule{module("a", wasm.MaxBytes), module("b", 1)}, false},
		"an overflow":      {[]events.WASMModule{module("a", math.MaxInt64), module("b", math.MaxInt64)}, false},
		"empty":            {[]events.WASMModule{module("a", 0)}, false},
		"less than empty":  {[]events.WASMModule{module("a", -1)}, false},
		"no name":          {[]events.WASMModule{module("", 1)}, false},
		"no global":        {[]events.WASMModule{module("a b", 1)}, false},
		"another's module": {[]events.WASMModule{module("a", 1), module("__wasm_a", 1)}, false},
		"the same name":    {[]events.WASMModule{module("a", 1), module("a", 1)}, false},
	} {
		if err := wasm.CheckRecorded(test.list); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
