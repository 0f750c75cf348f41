package worker

import (
	"fmt"
	"slices"
	"strings"

	"daybook/internal/v8"
)

// Bounds of what a worker may say of a heap.
const (
	maxChangesNamed = 8
	maxChangeName   = 256     // bytes
	maxChanges      = 1 << 28 // more than fit into the largest heap
)

// takeCarried takes what the heap of the task brings along. The worker sends it once,
// before any code of the run.
func (c *conversation) takeCarried(payload []byte) error {
	var carried v8.Carried
	if err := decodeMessage(payload, &carried); err != nil {
		return err
	}
	bounded := func(n int, most int) bool { return n >= 0 && n <= most }
	t := carried.Timers
	switch {
	case !bounded(carried.Changes, maxChanges) || len(carried.Changed) > min(maxChangesNamed, carried.Changes):
		return fmt.Errorf("%w: %d names of %d changes of a heap", errProtocol, len(carried.Changed), carried.Changes)
	case carried.Changes > 0 && len(carried.Changed) == 0, carried.Changes > 0 && !carried.Checked:
		return fmt.Errorf("%w: changes of a heap without a name", errProtocol)
	case slices.ContainsFunc(carried.Changed, func(s string) bool {
		return s == "" || len(s) > maxChangeName || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	}):
		return fmt.Errorf("%w: a malformed name of a change", errProtocol)
	case !bounded(t.Timeouts, maxTimers) || !bounded(t.Intervals, maxTimers) || !bounded(t.Immediates, maxTimers) ||
		!bounded(t.Unreferenced, t.Timeouts+t.Intervals+t.Immediates):
		return fmt.Errorf("%w: impossible timers of a heap", errProtocol)
	}
	c.carried = &carried
	return nil
}

// carriedOutcome is what an outcome says of the heap that the run started from, however
// the run ended.
func (c *conversation) carriedOutcome() (pristine *bool, warnings []string) {
	if c.carried == nil {
		return nil, nil
	}
	if c.carried.Checked {
		clean := c.carried.Changes == 0
		pristine = &clean
	}
	if c.carried.Changes > 0 {
		warnings = append(warnings, changedText(c.carried))
	}
	if t := c.carried.Timers; t.Timeouts+t.Intervals+t.Immediates > 0 {
		warnings = append(warnings, timersText(t))
	}
	if c.carried.Finalizers {
		warnings = append(warnings, finalizersText)
	}
	return pristine, warnings
}

const finalizersText = "this heap registered objects with a FinalizationRegistry, whose callbacks may run code during this run; run without the heap to rule that out"

// changedText warns of built-in objects that earlier runs changed.
func changedText(c *v8.Carried) string {
	const longest = 250 // bytes: a warning has 512
	names, named := "", 0
	for _, change := range c.Changed {
		change = withoutOwnName(change)
		if named > 0 && len(names)+len(change) > longest {
			break
		}
		if named > 0 {
			names += ", "
		}
		names += change
		named++
	}
	if more := c.Changes - named; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return "this heap changed " + names + ": result, error and output of this run may be what its earlier runs make of them; run without the heap to rule that out"
}

// wellKnown are names of added properties that the language, Node's rules of printing
// or the prelude look for. A warning names no others: they are content of the session,
// which can be erased, and a warning stays.
var wellKnown = []string{
	"toJSON", "then", "prepareStackTrace", "stackTraceLimit", "constructor", "name", "message", "stack", "cause", "errors", "code",
	"value", "get", "set", "writable", "enumerable", "configurable", "length", "next", "done", "return", "call", "apply", "bind",
	"toString", "valueOf", "inspect", "Symbol(nodejs.util.inspect.custom)",
}

// wellKnownSymbols are the symbols of the language. A symbol of the script's own can
// have a description that looks like theirs: Symbol("Symbol.secret").
var wellKnownSymbols = []string{
	"asyncIterator", "hasInstance", "isConcatSpreadable", "iterator", "match", "matchAll", "replace", "search", "species", "split",
	"toPrimitive", "toStringTag", "unscopables", "asyncDispose", "dispose",
}

// withoutOwnName leaves out the name of an added property, unless it is well known.
func withoutOwnName(change string) string {
	const added = " (added)"
	path, ok := strings.CutSuffix(change, added)
	if !ok {
		return change
	}
	for _, name := range wellKnown {
		if strings.HasSuffix(path, "."+name) || strings.HasSuffix(path, "["+name+"]") {
			return change
		}
	}
	if end := strings.Index(path, "[\""); end > 0 {
		return path[:end] + " (a property added)"
	}
	if symbol := strings.LastIndex(path, "["); symbol > 0 && strings.HasSuffix(path, "]") {
		if own, found := strings.CutPrefix(path[symbol:], "[Symbol."); found && slices.Contains(wellKnownSymbols, strings.TrimSuffix(own, "]")) && !strings.Contains(path[:symbol], "[Symbol(") {
			return change
		}
		if first := strings.Index(path, "[Symbol("); first > 0 {
			symbol = first
		}
		return path[:symbol] + " (a property added)"
	}
	if end := strings.LastIndex(path, "."); end > 0 {
		return path[:end] + " (a property added)"
	}
	return "a built-in object (a property added)"
}

// timersText warns of timers that may fire during the run.
func timersText(t v8.CarriedTimers) string {
	var kinds []string
	total := 0
	for _, kind := range []struct {
		count int
		name  string
	}{{t.Timeouts, "timeout"}, {t.Intervals, "interval"}, {t.Immediates, "immediate"}} {
		if kind.count > 0 {
			kinds = append(kinds, counted(kind.count, kind.name))
			total += kind.count
		}
	}
	text := strings.Join(kinds, ", ")
	if t.Unreferenced > 0 {
		text += fmt.Sprintf("; %d unref'd", t.Unreferenced)
	}
	return fmt.Sprintf("this heap carries %s of earlier runs (%s) that may run code during this run; clear them, or run without the heap, to rule that out", counted(total, "timer"), text)
}

func counted(n int, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return fmt.Sprintf("%d %ss", n, name)
}
