package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"daybook/embed"
	"daybook/internal/cli/terminal"
	"daybook/internal/globals"
	"daybook/internal/web/client"
)

// maxDiffColumn is the length to which a line of a difference is shortened, in bytes.
const maxDiffColumn = 500

// runWhatIf executes the file of --what-if with the inputs of a run and prints the difference.
func (c *replayCmd) runWhatIf(ctx context.Context, std *streams) error {
	name, code, err := readScript(c.WhatIf, std.in)
	if err != nil {
		return err
	}
	var w client.WhatIf
	var raw json.RawMessage
	if c.FromExport != "" {
		w, err = c.whatIfInExport(ctx, std, code, name)
		if err == nil {
			raw, err = json.Marshal(w)
		}
	} else {
		var id string
		if id, err = c.execution(ctx, c.IDs[0]); err != nil {
			return err
		}
		var answer client.Answer[client.WhatIf]
		answer, err = c.api().WhatIf(ctx, id, code, name)
		w, raw = answer.Body, answer.JSON
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = std.out.WriteJSON(compact(raw))
	} else {
		err = printWhatIf(std, w)
	}
	if err == nil && !w.IsEqual {
		err = exitError(exitFailed)
	}
	return err
}

func (c *replayCmd) whatIfInExport(ctx context.Context, std *streams, code, name string) (w client.WhatIf, err error) {
	err = c.withExport(std, func(opts embed.ReplayExportOptions) (err error) {
		w, err = embed.WhatIfInExport(ctx, opts, code, name)
		return err
	})
	return w, err
}

// printWhatIf prints a difference as text: - for the recorded run, + for the new code.
func printWhatIf(std *streams, w client.WhatIf) error {
	out := std.out
	if !w.Executed {
		out.Printf("%s  not executed: %s\n", w.ExecutionID, terminal.OneLine(w.Message, maxDiffColumn))
		return out.Err()
	}
	word := "different"
	if w.IsEqual {
		word = "no difference"
	}
	out.Printf("%s  %s in %s", w.ExecutionID, word, terminal.FormatDuration(time.Duration(w.WallMillis)*time.Millisecond))
	if w.Stopped {
		out.Printf("; the recorded run was stopped")
	}
	out.Printf("\n")
	if m := w.MissingCall; m != nil {
		out.Printf("call %d is not recorded, and ended the code: %s.%s %s\n", m.Number, terminal.OneLine(m.Server, maxDiffColumn), terminal.OneLine(m.Tool, maxDiffColumn), terminal.OneLine(m.Arguments, maxDiffColumn))
	}
	recorded, replaced := describeScriptEnd(w.Recorded), describeScriptEnd(w.New)
	if recorded == replaced && (w.Recorded == nil || w.New == nil || w.Recorded.SHA256 == w.New.SHA256) {
		out.Printf("end\n  %s\n", recorded)
	} else {
		out.Printf("end\n- %s\n+ %s\n", recorded, replaced)
	}
	if w.Calls != w.RecordedCalls {
		out.Printf("host calls\n- %d\n+ %d\n", w.RecordedCalls, w.Calls)
	}
	switch {
	case w.Output.IsEqual:
		out.Printf("output\n  %s\n", terminal.CountNoun(w.Output.Lines, "equal line"))
	default:
		out.Printf("output\n")
		printLineChanges(out, w)
	}
	if err := out.Err(); err != nil {
		return err
	}
	if w.Output.Cut {
		std.err.Printf("warning: the difference of the output is cut: the recorded run wrote %s, the new code %s\n", terminal.CountNoun(w.Output.RecordedLines, "line"), terminal.CountNoun(w.Output.Lines, "line"))
	}
	if w.Artifacts.Recorded+w.Artifacts.Artifacts > 0 {
		printArtifactChanges(out, w)
	}
	out.Printf("globals\n")
	if w.Globals == nil {
		out.Printf("  not compared: %s\n", terminal.OneLine(w.GlobalsMessage, maxDiffColumn))
		return out.Err()
	}
	return printDiff(std, diffOfGlobals(w.Globals), globals.MaxListed)
}

// printArtifactChanges prints the artifacts that differ.
func printArtifactChanges(out *terminal.Screen, w client.WhatIf) {
	out.Printf("artifacts\n")
	if w.Artifacts.IsEqual {
		out.Printf("  %s\n", terminal.CountNoun(w.Artifacts.Artifacts, "equal artifact"))
	}
	for _, c := range w.Artifacts.Changes {
		sign := "+"
		if c.Op == "removed" {
			sign = "-"
		}
		out.Printf("%s %d %q %s, %s, SHA-256 %s\n", sign, c.Number, c.Name, terminal.OneLine(c.MIME, maxDiffColumn), terminal.CountNoun(c.Size, "byte"), shortHash(c.SHA256))
	}
}

// printLineChanges prints the lines that differ, and a mark where equal lines are left out.
func printLineChanges(out *terminal.Screen, w client.WhatIf) {
	signs := map[string]string{"removed": "-", "added": "+"}
	nextRecorded, next := int64(1), int64(1)
	for _, l := range w.Output.Changes {
		if l.RecordedLine > nextRecorded || l.Line > next {
			out.Printf("  …\n")
		}
		sign, ok := signs[l.Op]
		if !ok {
			sign = " "
		}
		out.Printf("%s %s\n", sign, terminal.OneLine(l.Text, maxDiffColumn))
		if l.RecordedLine > 0 {
			nextRecorded = l.RecordedLine + 1
		}
		if l.Line > 0 {
			next = l.Line + 1
		}
	}
}

// describeScriptEnd returns an end in one line.
func describeScriptEnd(e *client.ScriptEnd) string {
	if e == nil {
		return "unknown"
	}
	parts := []string{string(e.Status)}
	if e.Reason != "" {
		parts = append(parts, "("+e.Reason+")")
	}
	if e.Text != nil {
		parts = append(parts, terminal.OneLine(*e.Text, maxDiffColumn))
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// diffOfGlobals returns the difference as the package that compares heaps has it.
func diffOfGlobals(d *client.GlobalsDiff) globals.Diff {
	diff := globals.Diff{Uncompared: d.Uncompared, Partial: d.Partial}
	for i := range d.Removed {
		diff.Changes = append(diff.Changes, globals.Change{A: &d.Removed[i]})
	}
	for i := range d.Added {
		diff.Changes = append(diff.Changes, globals.Change{B: &d.Added[i]})
	}
	for i := range d.Changed {
		diff.Changes = append(diff.Changes, globals.Change{A: &d.Changed[i].Recorded, B: &d.Changed[i].New})
	}
	slices.SortFunc(diff.Changes, func(a, b globals.Change) int { return strings.Compare(a.Name(), b.Name()) })
	return diff
}

// validateWhatIf checks the flags beside --what-if.
func (c *replayCmd) validateWhatIf() error {
	switch {
	case c.WhatIf == "":
		return nil
	case c.Step:
		return errors.New("give --step or --what-if, not both")
	case len(c.IDs) != 1:
		return errors.New("--what-if takes the inputs of one run: give its id")
	}
	return nil
}

// withExport calls use with the options of an export, and turns its errors into those of the
// command line.
func (c *replayCmd) withExport(std *streams, use func(embed.ReplayExportOptions) error) error {
	keys, err := readVKeys("--trust-key", c.TrustKeys)
	if err != nil {
		return err
	}
	if err := checkExportDir("--from-export", c.FromExport); err != nil {
		return err
	}
	err = use(embed.ReplayExportOptions{Dir: c.FromExport, Keys: keys, KeyDir: c.KeyDir, Executions: c.IDs, Session: c.Session, Timeline: c.Step, Parallel: c.Parallel, HeapCeilingMB: c.HeapCeiling, JIT: c.JIT == "on"})
	_, selection := errors.AsType[*embed.SelectionError](err)
	unproven, _ := errors.AsType[*embed.VerdictError](err)
	switch {
	case errors.Is(err, embed.ErrBadKey):
		return usageError{fmt.Errorf("--trust-key: %w", err)}
	case selection:
		return usageError{err}
	case err != nil && unproven == nil:
		return optionError(err) // of a directory that holds no export
	case unproven != nil:
		fmt.Fprintln(std.err, "daybook:", err)
		if unproven.Report.Verdict == embed.WrongKey {
			std.err.Printf("No checkpoint of the export is signed with the keys of --trust-key. Ask the operator of the ledger for its key, in the file audit/vkey of the data directory.\n")
		} else {
			std.err.Printf("\"daybook verify --export %s\" with the same key lists the findings.\n", c.FromExport)
		}
		if status, ok := verdictStatus[unproven.Report.Verdict]; ok {
			return exitError(status)
		}
		return exitError(exitFailed)
	}
	return err
}
