package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Grid is a table. On a terminal its widest columns are shortened to fit the width.
type Grid struct {
	s     *Screen
	names []string
	rows  [][]string
}

const (
	// ColumnGap is the space between two columns.
	ColumnGap = 2
	// enoughColumn is the width to which long texts are shortened before ids are.
	enoughColumn = 40
	// leastColumn is the width to which columns are shortened first. narrowColumn is
	// the width on a terminal that is too narrow for that.
	leastColumn  = 8
	narrowColumn = 4
)

// keyColumns maps columns of ids to the width to which they may be shortened. Every
// command accepts a prefix of an id.
var keyColumns = map[string]int{"EXECUTION": 18, "CREATED BY": 18, "HEAP": 12}

// wordColumns hold one word, which is never shortened.
var wordColumns = []string{"STATUS", "STATE", "OUTCOME"}

// Table returns an empty table with the names of its columns. Flush prints it.
func Table(out *Screen, columns ...string) *Grid { return &Grid{s: out, names: columns} }

// Row adds a row. It escapes hidden characters, line breaks and tabs, so that no cell
// can begin another row.
func (g *Grid) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Visible(fmt.Sprint(c), "")
	}
	g.rows = append(g.rows, row)
}

// Flush prints the table.
func (g *Grid) Flush() error {
	widths := g.widths()
	var b strings.Builder
	g.print(&b, g.names, widths, true)
	for _, row := range g.rows {
		g.print(&b, row, widths, false)
	}
	_, err := g.s.write([]byte(b.String()))
	return err
}

// widths returns the widths of the columns: that of their content, or less if the
// terminal is too narrow.
func (g *Grid) widths() []int {
	widths := make([]int, len(g.names))
	for _, row := range append([][]string{g.names}, g.rows...) {
		for i := range min(len(row), len(widths)) {
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
		}
	}
	if g.s.Columns == 0 {
		return widths
	}
	least := make([]int, len(widths))
	total := ColumnGap * (len(widths) - 1)
	for i, w := range widths {
		total += w
		least[i] = max(leastColumn, keyColumns[g.names[i]], runewidth.StringWidth(g.names[i]))
		if slices.Contains(wordColumns, g.names[i]) {
			least[i] = w
		}
	}
	shrink := func(to func(i int) int) {
		for total > g.s.Columns {
			widest := -1
			for i, w := range widths {
				if w > to(i) && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				return
			}
			widths[widest]--
			total--
		}
	}
	// Long texts are shortened first. Ids follow, which stay usable, and then all
	// columns.
	key := func(i int) bool { return keyColumns[g.names[i]] > 0 }
	shrink(func(i int) int {
		if key(i) {
			return widths[i]
		}
		return max(least[i], enoughColumn)
	})
	if total > g.s.Columns {
		for i := range widths { // a few more characters of an id add nothing
			if key(i) && widths[i] > least[i] {
				total -= widths[i] - least[i]
				widths[i] = least[i]
			}
		}
	}
	shrink(func(i int) int { return least[i] })
	shrink(func(i int) int {
		if key(i) || slices.Contains(wordColumns, g.names[i]) {
			return least[i]
		}
		return narrowColumn
	})
	return widths
}

func (g *Grid) print(b *strings.Builder, row []string, widths []int, heading bool) {
	for i, text := range row {
		last := i == len(row)-1
		color := ""
		switch {
		case heading:
			color = Dim
		case i < len(g.names) && slices.Contains(wordColumns, g.names[i]):
			color = ColorOf(text)
		}
		width := runewidth.StringWidth(text)
		if i < len(widths) && width > widths[i] {
			tail := "…"
			if !heading && keyColumns[g.names[i]] > 0 {
				tail = ""
			}
			text = runewidth.Truncate(text, widths[i], tail)
			width = runewidth.StringWidth(text)
		}
		b.WriteString(g.s.paint(color, text))
		if !last && i < len(widths) {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-width)+ColumnGap))
		}
	}
	b.WriteByte('\n')
}
