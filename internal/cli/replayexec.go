package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type replayCmd struct {
	clientFlags
	IDs      []string `arg:"" optional:"" name:"id" help:"${execution_help}" placeholder:"ID"`
	All      bool     `help:"Replay all ended runs."`
	Session  string   `help:"Replay the ended runs of this session: a name, intent, ref or id, or a unique prefix." placeholder:"SESSION"`
	Since    moment   `help:"Replay the ended runs accepted at this time or later: a time, a day, or an age such as 90s, 2h or 7d." placeholder:"TIME"`
	Parallel int      `help:"Number of replays at a time. The server executes at most half as many replays as runs." default:"2" placeholder:"N"`

	Step   bool   `help:"Show the run step by step: timers, host calls, answers, output. For one run."`
	WhatIf string `name:"what-if" help:"Execute this file with the inputs of one run, and show what differs; - reads standard input." placeholder:"FILE" type:"path" env:"-"`

	FromExport  string   `help:"Replay the runs of this export, without a server. Nothing is recorded." placeholder:"DIR" env:"-"`
	TrustKeys   []string `name:"trust-key" sep:"none" help:"Verification key of the export, or a file of keys; may be repeated. Required with --from-export." placeholder:"KEY" env:"-"`
	HeapCeiling int      `name:"heap-memory-ceiling" help:"Largest heap limit of a run of the export that is replayed, in MiB: 1 to 4096." default:"1024" placeholder:"MiB" env:"-"`
	JIT         string   `name:"jit" help:"Optimizing compiler for the runs of the export that had it: on or off. With off they are not replayed." enum:"on,off" default:"off" env:"-"`
	KeyDir      string   `name:"key-dir" help:"Directory of the content keys, for an export with encrypted content." placeholder:"DIR" env:"-"`
}

// Help is shown by "daybook replay --help".
func (c *replayCmd) Help() string {
	return "Executes runs again from their recorded source, heap, seed and start time, and compares output, host calls, status, result, error and heap with the record. " +
		"Host calls are answered from the ledger: no tool is called. Each verdict is recorded as an event.\n\n" +
		"With --from-export, the export is verified first, and its heaps are restored only if a checkpoint by a trusted key covers them. Make it with \"daybook events export --heaps\".\n\n" +
		"With --what-if, other code is executed with the recorded inputs, and the difference of output, result or error, and globals is shown: - for the recorded run, + for the code. A host call is answered by the first recorded call of the same tool with the same arguments that did not answer one yet; one that is not recorded ends the code. Nothing is recorded or stored.\n\n" +
		"A run that was stopped, for example by its time limit, is compared up to its last recorded line and call. A run of another engine than that of the server is compared without its heap.\n\n" +
		"Examples:\n\n" +
		"  daybook replay @last\n\n" +
		"  daybook replay @last --step\n\n" +
		"  daybook replay @last --what-if other.ts\n\n" +
		"  daybook replay --session plan\n\n" +
		"  daybook replay --all --since 7d\n\n" +
		"  daybook replay --from-export book --trust-key audit.vkey\n\n" +
		"Exit status: 0 if no run differs, 1 if a run or the code of --what-if differs or could not be replayed, 2 for a mistake in the command line."
}

// Validate checks which runs the command line names.
func (c *replayCmd) Validate() error {
	selects := c.All || c.Session != "" || c.Since.String() != ""
	switch {
	case c.FromExport != "" && len(c.TrustKeys) == 0:
		return errors.New("--from-export needs --trust-key: give the verification key of the ledger, or the file that holds it: audit/vkey in the data directory of its server. Do not take the key from the export: it would prove itself")
	case c.FromExport == "" && (len(c.TrustKeys) > 0 || c.KeyDir != ""):
		return errors.New("--trust-key and --key-dir are for --from-export")
	case c.FromExport == "" && c.JIT == "on":
		return errors.New("--jit is for --from-export: a server has a flag of its own")
	case c.FromExport != "" && c.Since.String() != "":
		return errors.New("--since is for a server: give ids or --session with --from-export")
	case c.FromExport != "" && len(c.IDs) == 0:
	case len(c.IDs) == 0 && !selects:
		return errors.New("name the runs to replay: give their ids, or --session, --since or --all")
	case len(c.IDs) > 0 && selects:
		return errors.New("give ids, or --session, --since or --all, not both")
	case c.Step && len(c.IDs) != 1:
		return errors.New("--step shows one run: give its id")
	case c.validateWhatIf() != nil:
		return c.validateWhatIf()
	case c.HeapCeiling < 1 || c.HeapCeiling > embed.MaxExportHeapMB:
		return fmt.Errorf("--heap-memory-ceiling is %d: it must be 1 to %d MiB", c.HeapCeiling, embed.MaxExportHeapMB)
	case c.Parallel < 1:
		return fmt.Errorf("--parallel is %d: it must be 1 or more", c.Parallel)
	}
	return c.clientFlags.Validate()
}

// Run replays runs and prints the verdicts.
func (c *replayCmd) Run(ctx context.Context, std *streams) error {
	if c.WhatIf != "" {
		return c.runWhatIf(ctx, std)
	}
	v := verdicts{std: std, json: c.JSON, step: c.Step, progress: terminal.NewProgress(std.err, "replayed")}
	v.progress.Unit = "runs"
	defer v.progress.Clear()
	var running int
	var err error
	if c.FromExport != "" {
		err = c.replayExport(ctx, &v)
	} else {
		running, err = c.replayRuns(ctx, &v)
	}
	if err != nil {
		return err
	}
	v.progress.Clear()
	if !c.JSON && v.total != 1 {
		v.printCounts(running)
	}
	if v.identical+v.unexecuted < v.total {
		return exitError(exitFailed)
	}
	return nil
}

// replayExport replays runs of an export.
func (c *replayCmd) replayExport(ctx context.Context, v *verdicts) error {
	return c.withExport(v.std, func(opts embed.ReplayExportOptions) error {
		opts.Selected = func(runs int) {
			if v.total = runs; runs == 0 {
				v.std.err.Printf("%s\n", c.describeNoRuns())
			}
		}
		return embed.ReplayExport(ctx, opts, func(r client.Replayed) error {
			raw, err := json.Marshal(r)
			return errors.Join(err, v.add(r, raw))
		})
	})
}

// runs returns the ids of the runs to replay, oldest first, and the number of selected runs
// that have not ended.
func (c *replayCmd) runs(ctx context.Context, std *streams) (ids []string, running int, err error) {
	if len(c.IDs) > 0 {
		for _, text := range c.IDs {
			id, err := c.execution(ctx, text)
			if err != nil {
				return nil, 0, err
			}
			ids = append(ids, id)
		}
		return ids, 0, nil
	}
	filter := client.ExecutionFilter{Session: c.Session, Since: c.Since.String(), Limit: mostRows}
	for {
		page, err := c.api().Executions(ctx, filter)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page.Body.Executions {
			if e.Status.Terminal() {
				ids = append(ids, e.ExecutionID)
			} else {
				running++
			}
		}
		if filter.Cursor = page.Body.NextCursor; filter.Cursor == "" {
			break
		}
	}
	if len(ids)+running == 0 {
		if err := c.checkSession(ctx); err != nil {
			return nil, 0, err
		}
	}
	if len(ids) == 0 {
		std.err.Printf("%s\n", c.describeNoRuns())
	}
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids, running, nil
}

// checkSession returns an error if no session has the name that --session gives.
func (c *replayCmd) checkSession(ctx context.Context) error {
	if c.Session == "" {
		return nil
	}
	if err := (oneSession{c.Session}).check(); err != nil {
		return err
	}
	_, err := c.api().Session(ctx, c.Session)
	return withSessionHint(err, listSessions)
}

// describeNoRuns returns a sentence that says which runs were looked for.
func (c *replayCmd) describeNoRuns() string {
	sentence := "No run has ended"
	if c.Session != "" {
		sentence = fmt.Sprintf("No run of session %q has ended", c.Session)
	}
	if c.Since.String() != "" {
		sentence += " of those accepted since " + c.Since.String()
	}
	return sentence + ": there is nothing to replay."
}

// replayRuns replays runs on the server, several at a time. It returns the number of selected
// runs that have not ended.
func (c *replayCmd) replayRuns(ctx context.Context, v *verdicts) (running int, err error) {
	ids, running, err := c.runs(ctx, v.std)
	if err != nil {
		return 0, err
	}
	v.total = len(ids)
	type result struct {
		client.Answer[client.Replayed]
		isMissing bool // the run no longer exists
		refusal   error
	}
	return running, inOrder(ctx, len(ids), c.Parallel, func(ctx context.Context, i int) (result, error) {
		answer, err := c.api().ReplayExecution(ctx, ids[i], c.Step)
		if refused, ok := errors.AsType[*client.Error](err); ok && len(ids) > 1 && (refused.Status == http.StatusNotFound || refused.Status == http.StatusGone) {
			return result{isMissing: true, refusal: err}, nil
		}
		return result{Answer: answer}, err
	}, func(i int, r result) error {
		if r.isMissing {
			v.addMissing(ids[i], r.refusal)
			return nil
		}
		return v.add(r.Body, r.JSON)
	})
}

// verdicts prints and counts the verdicts of replays, in the order of the runs.
type verdicts struct {
	std      *streams
	json     bool
	step     bool // print the timelines
	progress *terminal.Progress
	// total is the number of runs. unexecuted of them never started a script, and failed
	// could not be replayed.
	total, done, identical, different, unexecuted, failed int
}

// reasonNotExecuted is the reason of a run that never started a script, for example because
// it was cancelled before.
const reasonNotExecuted = "not_executed"

// add counts a verdict and prints it. With several runs, only those that are not identical
// are printed.
func (v *verdicts) add(r client.Replayed, raw json.RawMessage) error {
	v.done++
	v.progress.Show(uint64(v.done), uint64(v.total))
	isNews := true
	switch {
	case r.Verdict == events.ReplayIdentical:
		v.identical++
		isNews = false
	case r.Verdict == events.ReplayDifferent:
		v.different++
	case r.Reason == reasonNotExecuted:
		v.unexecuted++
		isNews = false
	default:
		v.failed++
	}
	if v.step && r.Timeline != nil {
		v.progress.Clear()
		if err := printTimeline(v.std, r, v.json); err != nil {
			return err
		}
		if r.Timeline = nil; v.json {
			return printLineOfJSON(v.std.out, r)
		}
	}
	switch {
	case v.json:
		return v.std.out.WriteJSON(compact(raw))
	case isNews || v.total == 1:
		v.progress.Clear()
		return printReplay(v.std.out, r)
	}
	return nil
}

// addMissing counts a run that was listed and cannot be read, and prints why.
func (v *verdicts) addMissing(id string, err error) {
	v.done++
	v.failed++
	v.progress.Clear()
	v.std.err.Printf("%s  not replayed: %s\n", id, terminal.OneLine(err.Error(), maxDiffColumn))
}

func (v *verdicts) printCounts(running int) {
	parts := []string{fmt.Sprintf("%d identical", v.identical)}
	for _, p := range []struct {
		count int
		what  string
	}{{v.different, "different"}, {v.failed, "not replayed"}, {v.unexecuted, "never executed"}} {
		if p.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.count, p.what))
		}
	}
	v.std.out.Printf("%s: %s\n", terminal.CountNoun(v.total, "run"), strings.Join(parts, ", "))
	if running > 0 {
		v.std.err.Printf("Skipped %s in progress.\n", terminal.CountNoun(running, "run"))
	}
}

func printReplay(out *terminal.Screen, r client.Replayed) error {
	out.Printf("%s  %s", r.ExecutionID, strings.ReplaceAll(string(r.Verdict), "_", " "))
	switch {
	case r.Difference != nil:
		out.Printf(": %s", r.Difference.Part)
		if r.Difference.Line > 0 {
			out.Printf(", line %d", r.Difference.Line)
		}
		if r.Difference.Call > 0 {
			out.Printf(", call %d", r.Difference.Call)
		}
		if r.Difference.Artifact > 0 {
			out.Printf(", artifact %d", r.Difference.Artifact)
		}
		out.Printf("\n  recorded  %s\n  replayed  %s\n", terminal.OneLine(r.Difference.Recorded, 500), terminal.OneLine(r.Difference.Replayed, 500))
		if len(r.Nondeterministic) > 0 {
			out.Printf("  may differ: %s in one of the two\n", describeNondeterminism(r.Nondeterministic))
		}
		if r.OtherBuild {
			out.Printf("  may differ: another build of Daybook may have recorded the run, and converted TypeScript or files in another way\n")
		}
	case r.Message != "":
		out.Printf(": %s\n", terminal.OneLine(r.Message, 500))
	default:
		var parts []string
		for _, p := range r.Compared {
			parts = append(parts, string(p))
		}
		out.Printf(" (%s) in %s", strings.Join(parts, ", "), terminal.FormatDuration(time.Duration(r.WallMillis)*time.Millisecond))
		if r.Stopped {
			out.Printf(", up to where the run was stopped")
		}
		if r.EngineID != r.RecordedEngineID {
			out.Printf(", by another engine than the recorded %s", r.RecordedEngineID)
		}
		if r.MigratedHeap != "" {
			out.Printf(", from heap %s, a migration of its input heap", shortHash(r.MigratedHeap))
		}
		out.Printf("\n")
	}
	return out.Err()
}
