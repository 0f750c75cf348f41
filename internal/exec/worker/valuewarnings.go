package worker

import (
	"fmt"
	"strconv"
	"strings"
)

// describeValues names values given to a run in a warning.
func (j *job) describeValues(names []string) string {
	if j.HideNames {
		return counted(len(names), "value") + " given to this run"
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
		if len(name) > maxShownName {
			quoted[i] = strconv.Quote(strings.ToValidUTF8(name[:maxShownName], "")) + "…"
		}
	}
	return "the values given to this run as " + joinNames(quoted, len(names))
}

// maxShownName is the length of the part of a longer name that a warning shows, in bytes.
const maxShownName = 60

// refusedText returns the warning about values that the script does not see. change is what an
// earlier run did to the global object, or empty.
func refusedText(values, change string) string {
	if change == "" {
		return fmt.Sprintf("globalThis does not accept %s: an earlier run made properties of these names read-only; give the values other names, or run without the heap", values)
	}
	return fmt.Sprintf("globalThis does not accept %s: an earlier run %s; run without the heap to give them to the script", values, change)
}

// hiddenText returns the warning about values that the script sees only as properties of
// globalThis.
func hiddenText(values string) string {
	return fmt.Sprintf("the script does not see %s: an earlier run declared these names with let, const or class, and the script sees what it declared; read globalThis.NAME, give the values other names, or run without the heap", values)
}
