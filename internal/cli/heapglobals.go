package cli

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"daybook/internal/cli/terminal"
	"daybook/internal/globals"
	"daybook/internal/web/client"
)

// maxShownValue is the maximum number of characters of a value in a table.
const maxShownValue = 100

// printGlobals prints the globals of a heap as a table.
func printGlobals(std *streams, list client.Globals) error {
	w := terminal.Table(std.out, "GLOBAL", "KIND", "TYPE", "SIZE", "VALUE")
	for _, g := range list.Globals {
		w.Row(terminal.OneLine(g.Name, maxShownValue), g.Kind, typeOfGlobal(g), sizeOfGlobal(g), terminal.OneLine(g.Preview, maxShownValue))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if list.More > 0 {
		std.err.Printf("%s more: only the first %d are listed\n", terminal.CountNoun(list.More, "global"), len(list.Globals))
	}
	return nil
}

// typeOfGlobal returns the class of an object, the type of another value, or "-".
func typeOfGlobal(g globals.Global) string {
	switch {
	case g.Type == "":
		return "-"
	case g.Type == "object" && g.Class != "":
		return terminal.OneLine(g.Class, 40)
	default:
		return g.Type
	}
}

func sizeOfGlobal(g globals.Global) any {
	if g.Size == nil {
		return "-"
	}
	return *g.Size
}

type heapDiffCmd struct {
	clientFlags
	A string `arg:"" name:"heap" help:"${heap_help}" placeholder:"HEAP"`
	B string `arg:"" name:"other" help:"Heap to compare it with." placeholder:"OTHER"`
}

// Help is shown by "daybook heap diff --help".
func (c *heapDiffCmd) Help() string {
	return "Prints the globals that only one of two heaps has, and both values of those that differ: - for the first heap, + for the second. " +
		"A worker of the server reads the heaps without running any of their code. Nothing is recorded. " +
		"Values are compared to a depth of 8 levels and 256 Ki characters; what closures refer to is not compared. " +
		"Of a heap with more than 100,000 globals, only the first 100,000 in the order of their names are compared.\n\n" +
		"Examples:\n\n" +
		"  daybook heap diff 3f8a 91c2\n\n" +
		"  daybook heap diff 3f8a @last --json\n\n" +
		"Exit status: 0 if no global differs, 1 if one differs, 2 for a mistake in the command line, a heap that cannot be read, or globals that were not compared while no other differs."
}

// Run compares the globals of two heaps.
func (c *heapDiffCmd) Run(ctx context.Context, std *streams) error {
	var lists [2]client.Globals
	for i, text := range []string{c.A, c.B} {
		key, err := c.heapKey(ctx, text)
		if err != nil {
			return err
		}
		lists[i], err = allGlobals(func(skip int) (client.Globals, error) {
			page, err := c.api().Globals(ctx, key, skip)
			return page.Body, err
		})
		if err != nil {
			return err
		}
	}
	d := globals.Compare(lists[0], lists[1])
	var err error
	if c.JSON {
		err = printDiffJSON(std.out, d)
	} else {
		err = printDiff(std, d, maxDiffGlobals)
	}
	switch {
	case err != nil:
		return err
	case len(d.Changes) > 0:
		return exitError(exitFailed)
	case d.Uncompared > 0:
		return exitError(exitUsage)
	}
	return nil
}

// maxDiffGlobals bounds the globals of a heap that are compared. Their list takes up to 2.5 kB
// of memory for each, and the server restores the heap for each 1,000.
const maxDiffGlobals = 100_000

// allGlobals returns the globals of a heap from its pages, at most maxDiffGlobals and those of
// the last page.
func allGlobals(page func(skip int) (client.Globals, error)) (all client.Globals, err error) {
	for {
		next, err := page(len(all.Globals))
		if err != nil {
			return all, err
		}
		all.Globals, all.More = append(all.Globals, next.Globals...), next.More
		if next.More == 0 || len(next.Globals) == 0 || len(all.Globals) >= maxDiffGlobals {
			return all, nil
		}
	}
}

// printDiff prints one or two rows for each change. compared is the maximum number of globals of
// a heap that are compared.
func printDiff(std *streams, d globals.Diff, compared int) error {
	if len(d.Changes) > 0 {
		w := terminal.Table(std.out, "", "GLOBAL", "KIND", "TYPE", "SIZE", "VALUE")
		row := func(sign string, g *globals.Global, value string) {
			w.Row(sign, terminal.OneLine(g.Name, maxShownValue), g.Kind, typeOfGlobal(*g), sizeOfGlobal(*g), value)
		}
		for _, c := range d.Changes {
			switch {
			case c.B == nil:
				row("-", c.A, terminal.OneLine(c.A.Preview, maxShownValue))
			case c.A == nil:
				row("+", c.B, terminal.OneLine(c.B.Preview, maxShownValue))
			default:
				a, b := differingParts(c.A.Preview, c.B.Preview)
				row("-", c.A, a)
				row("+", c.B, b)
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	} else if d.Uncompared == 0 {
		std.err.Printf("no global differs\n")
	} else {
		std.err.Printf("no global differs among those that were compared\n")
	}
	if d.Uncompared > 0 {
		std.err.Printf("warning: %s not compared: of a heap with more globals, the first %d are compared\n", terminal.CountNoun(d.Uncompared, "global"), compared)
	}
	if d.Partial > 0 {
		std.err.Printf("warning: %s compared in part: equal to a depth of 8 levels and 256 Ki characters\n", terminal.CountNoun(d.Partial, "global"))
	}
	return nil
}

// differingParts returns the parts of two values around their first difference, in one line each.
func differingParts(a, b string) (string, string) {
	a, b = strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " ")
	if a == b {
		const note = " (differs beyond this)"
		return terminal.OneLine(a, maxShownValue) + note, terminal.OneLine(b, maxShownValue) + note
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := 0
	if n > maxShownValue*3/4 {
		from = n - maxShownValue/2
		for !utf8.RuneStart(a[from]) {
			from--
		}
	}
	cut := func(s string) string {
		if from > 0 {
			s = "…" + s[from:]
		}
		return terminal.OneLine(s, maxShownValue)
	}
	return cut(a), cut(b)
}

// printDiffJSON prints the changes as one object.
func printDiffJSON(out *terminal.Screen, d globals.Diff) error {
	type change struct {
		A *globals.Global `json:"a"`
		B *globals.Global `json:"b"`
	}
	answer := struct {
		Added      []*globals.Global `json:"added"`
		Removed    []*globals.Global `json:"removed"`
		Changed    []change          `json:"changed"`
		Uncompared int               `json:"uncompared"`
		Partial    int               `json:"partial"`
	}{Added: []*globals.Global{}, Removed: []*globals.Global{}, Changed: []change{}, Uncompared: d.Uncompared, Partial: d.Partial}
	for _, c := range d.Changes {
		switch {
		case c.A == nil:
			answer.Added = append(answer.Added, c.B)
		case c.B == nil:
			answer.Removed = append(answer.Removed, c.A)
		default:
			answer.Changed = append(answer.Changed, change(c))
		}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return out.WriteJSON(string(raw))
}
