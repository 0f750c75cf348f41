package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"daybook/audit"
)

// Words returns a verdict in the words of a report.
func Words(v audit.Verdict) string { return strings.ToUpper(strings.ReplaceAll(string(v), "_", " ")) }

// Tally counts the outcomes of attacks by their kind. The zero value is ready. It is safe for
// concurrent use.
type Tally struct {
	mu     sync.Mutex
	counts map[string]map[string]int
}

// Add counts an outcome of a kind of attack.
func (y *Tally) Add(kind, outcome string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]map[string]int{}
	}
	if y.counts[kind] == nil {
		y.counts[kind] = map[string]int{}
	}
	y.counts[kind][outcome]++
}

// Table returns a table with a row for each kind, in alphabetical order. title is the head of the
// first column. The columns are the outcomes in columns, and then all others that occurred.
func (y *Tally) Table(title string, columns ...string) string {
	y.mu.Lock()
	defer y.mu.Unlock()
	kinds := make([]string, 0, len(y.counts))
	for kind, outcomes := range y.counts {
		kinds = append(kinds, kind)
		for outcome := range outcomes {
			if !slices.Contains(columns, outcome) {
				columns = append(columns, outcome)
			}
		}
	}
	slices.Sort(kinds)
	var b strings.Builder
	b.WriteString("| " + title + " | tried |")
	for _, c := range columns {
		b.WriteString(" " + c + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, kind := range kinds {
		all := 0
		for _, n := range y.counts[kind] {
			all += n
		}
		fmt.Fprintf(&b, "| %s | %d |", kind, all)
		for _, c := range columns {
			fmt.Fprintf(&b, " %d |", y.counts[kind][c])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
