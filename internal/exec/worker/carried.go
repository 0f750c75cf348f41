package worker

import (
	"fmt"
	"slices"
	"strings"

	"daybook/internal/exec/v8"
)

// Bounds of what a worker may say of a heap.
const (
	maxChangesNamed = 8
	maxChangeName   = 256     // bytes
	maxChanges      = 1 << 28 // more than fit into the largest heap
)

// takeCarried takes what the heap of the task brings along. The worker sends it once,
// before any code of the run.
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

// carriedOutcome is what an outcome says of the heap that the run started from, however
// the run ended.
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

// changedText warns of built-in objects that earlier runs changed.
func changedText(c *v8.Carried) string {
	changes := make([]string, len(c.Changed))
	for n, change := range c.Changed {
		changes[n] = withoutOwnName(change)
	}
	return "this heap changed " + firstOf(changes, c.Changes) + ": result, error and output of this run may be what its earlier runs make of them; run without the heap to rule that out"
}

// firstOf joins as many names as fit into a warning, and counts the others of all.
func firstOf(names []string, all int) string {
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

// globalsText warns of accessors and read-only properties that earlier runs put on the
// global object, "" if there are none. Built-in objects that changedText names are left
// out, and the properties of a frozen global object, which it names as well.
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
	what := firstOf(names, count)
	if c.hideNames || len(names) == 0 {
		what = counted(count, "name")
	}
	return "this heap has accessors or read-only properties of earlier runs on globalThis: " + what +
		"; a run that reads or assigns such a name gets what they decided; delete them, or run without the heap, to rule that out"
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
