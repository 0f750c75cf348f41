package worker

import (
	"fmt"
	"slices"
	"strings"

	"daybook/internal/exec/v8"
)

// Limits of what a worker may report of a heap.
const (
	maxChangesNamed = 8
	maxChangeName   = 256     // bytes
	maxChanges      = 1 << 28 // the largest heap has space for fewer
)

// takeCarried checks and stores the report on the input heap. The worker sends it once,
// before any code of the run is executed.
func (c *frameChecker) takeCarried(payload []byte) error {
	var carried v8.Carried
	if err := decodeMessage(payload, &carried); err != nil {
		return err
	}
	bounded := func(n int, most int) bool { return n >= 0 && n <= most }
	t, g := carried.Timers, carried.Globals
	switch {
	case !bounded(carried.Changes, maxChanges) || len(carried.Changed) > min(maxChangesNamed, carried.Changes):
		return fmt.Errorf("%w: %d names of %d changes of a heap", errProtocol, len(carried.Changed), carried.Changes)
	case carried.Changes > 0 && len(carried.Changed) == 0, carried.Changes > 0 && !carried.Checked:
		return fmt.Errorf("%w: changes of a heap without a name", errProtocol)
	case !bounded(g.Count, maxChanges) || !bounded(g.Unseen, maxChanges) || len(g.Names) > min(maxChangesNamed, g.Count) || g.Count > 0 && len(g.Names) == 0:
		return fmt.Errorf("%w: %d names of %d globals of a heap", errProtocol, len(g.Names), g.Count)
	case slices.ContainsFunc(slices.Concat(carried.Changed, g.Names), func(s string) bool {
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

// carriedOutcome returns the parts of an outcome that describe the input heap. They do not
// depend on how the run ended.
func (c *frameChecker) carriedOutcome() (pristine *bool, warnings []string) {
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
	if text := c.globalsText(); text != "" {
		warnings = append(warnings, text)
	}
	if n := c.carried.Globals.Unseen; n > 0 {
		warnings = append(warnings, fmt.Sprintf("this heap has very many names on globalThis: %d of them were not looked at, and may be accessors of earlier runs; run without the heap to rule that out", n))
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

// changedText returns the warning about built-in objects that earlier runs changed.
func changedText(c *v8.Carried) string {
	changes := make([]string, len(c.Changed))
	for n, change := range c.Changed {
		changes[n] = withoutOwnName(change)
	}
	return "this heap changed " + joinNames(changes, c.Changes) + ": result, error and output of this run may be what its earlier runs make of them; run without the heap to rule that out"
}

// joinNames joins as many names as fit into a warning and appends the number of the others.
// all is the number of all names, including those that the worker did not send.
func joinNames(names []string, all int) string {
	const longest = 250 // bytes: a warning has 512
	text, named := "", 0
	for _, name := range names {
		if named > 0 && len(text)+len(name) > longest {
			break
		}
		if named > 0 {
			text += ", "
		}
		text += name
		named++
	}
	if more := all - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// globalsText returns the warning about accessors and read-only properties that earlier runs
// put on the global object, or "". It omits what changedText names: built-in objects, and a
// frozen global object with its read-only properties.
func (c *frameChecker) globalsText() string {
	count, names := c.carried.Globals.Count, slices.Clone(c.carried.Globals.Names)
	frozen := slices.Contains(c.carried.Changed, "globalThis (not extensible)")
	names = slices.DeleteFunc(names, func(name string) bool {
		bare, kind, _ := strings.Cut(name, " (")
		return slices.Contains(c.carried.Changed, bare) || frozen && kind == "read-only)"
	})
	if count -= len(c.carried.Globals.Names) - len(names); count == 0 || frozen && len(names) == 0 {
		return ""
	}
	what := joinNames(names, count)
	if c.hideNames || len(names) == 0 {
		what = counted(count, "name")
	}
	return "this heap has accessors or read-only properties of earlier runs on globalThis: " + what +
		"; a run that reads or assigns such a name gets what they decided; delete them, or run without the heap, to rule that out"
}

// wellKnown are the names of added properties that the language, Node's rules of printing
// or the prelude look for. A warning has no other names: they are content of the session,
// which can be shredded, and a warning is kept.
var wellKnown = []string{
	"toJSON", "then", "prepareStackTrace", "stackTraceLimit", "constructor", "name", "message", "stack", "cause", "errors", "code",
	"value", "get", "set", "writable", "enumerable", "configurable", "length", "next", "done", "return", "call", "apply", "bind",
	"toString", "valueOf", "inspect", "Symbol(nodejs.util.inspect.custom)",
}

// wellKnownSymbols are the symbols of the language. A symbol of a script can have a
// description that looks like one of them: Symbol("Symbol.secret").
var wellKnownSymbols = []string{
	"asyncIterator", "hasInstance", "isConcatSpreadable", "iterator", "match", "matchAll", "replace", "search", "species", "split",
	"toPrimitive", "toStringTag", "unscopables", "asyncDispose", "dispose",
}

// withoutOwnName removes the name of an added property unless it is well known.
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

// timersText returns the warning about timers that may fire during the run.
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
