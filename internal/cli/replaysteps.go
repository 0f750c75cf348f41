package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

// maxStepColumn is the length to which the text of a step is shortened in a table, in bytes.
const maxStepColumn = 500

// printTimeline prints the steps of a replay: as a table, or as a line of JSON for each.
func printTimeline(std *streams, r client.Replayed, asJSON bool) error {
	t := r.Timeline
	if asJSON {
		for i := range t.Steps {
			if err := printLineOfJSON(std.out, t.Steps[i]); err != nil {
				return err
			}
		}
	} else {
		table := terminal.Table(std.out, "TIME", "STEP", "WHAT", "TEXT")
		for i := range t.Steps {
			s := &t.Steps[i]
			table.Row(fmt.Sprintf("+%d ms", s.OffsetMS), s.Kind, whatOf(s), terminal.OneLine(s.Text, maxStepColumn))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if t.Cut {
		std.err.Printf("The steps are cut: the replay had %s, %s, %s, %s and %s; at most 10,000 steps and 4 KiB of each text are shown.\n",
			terminal.CountNoun(t.Timers, "timer"), terminal.CountNoun(t.Calls, "call"), terminal.CountNoun(t.Answers, "answer"), terminal.CountNoun(t.Lines, "line"), terminal.CountNoun(t.Artifacts, "artifact"))
	}
	return nil
}

// printLineOfJSON prints a value as JSON in one line.
func printLineOfJSON(out *terminal.Screen, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return out.WriteJSON(b.String())
}

// whatOf returns what a step is about: the kind of a timer with its delay, a tool with the
// number of its call, the level of a line, an artifact with its number, the status at the end.
func whatOf(s *client.TimelineStep) string {
	switch {
	case s.Call > 0 && s.Failed:
		return s.Name + " #" + strconv.Itoa(s.Call) + " failed"
	case s.Call > 0:
		return s.Name + " #" + strconv.Itoa(s.Call)
	case s.Artifact > 0:
		return fmt.Sprintf("%q #%d", s.Name, s.Artifact)
	case s.DelayMillis > 0:
		return s.Name + " " + terminal.FormatDuration(time.Duration(s.DelayMillis)*time.Millisecond)
	}
	return s.Name
}
