package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

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
}

// Help is shown by "daybook replay --help".
func (c *replayCmd) Help() string {
	return "Executes runs again from their recorded source, heap, seed and start time, and compares output, host calls, status, result, error and heap with the record. " +
		"Host calls are answered from the ledger: no tool is called. Each verdict is recorded as an event.\n\n" +
		"A run that was stopped, for example by its time limit, is compared up to its last recorded line and call. A run of another engine than that of the server is compared without its heap.\n\n" +
		"Examples:\n\n" +
		"  daybook replay @last\n\n" +
		"  daybook replay --session plan\n\n" +
		"  daybook replay --all --since 7d\n\n" +
		"Exit status: 0 if no run differs, 1 if a run differs or could not be replayed, 2 for a mistake in the command line."
}

// Validate checks which runs the command line names.
func (c *replayCmd) Validate() error {
	selects := c.All || c.Session != "" || c.Since.String() != ""
	switch {
	case len(c.IDs) == 0 && !selects:
		return errors.New("name the runs to replay: give their ids, or --session, --since or --all")
	case len(c.IDs) > 0 && selects:
		return errors.New("give ids, or --session, --since or --all, not both")
	case c.Parallel < 1:
		return fmt.Errorf("--parallel is %d: it must be 1 or more", c.Parallel)
	}
	return c.clientFlags.Validate()
}

// Run replays runs and prints the verdicts.
func (c *replayCmd) Run(ctx context.Context, std *streams) error {
	ids, running, err := c.runs(ctx, std)
	if err != nil {
		return err
	}
	counts, err := c.replayAll(ctx, std, ids)
	if err != nil {
		return err
	}
	if !c.JSON && len(ids) != 1 {
		counts.print(std, running)
	}
	if counts.identical+counts.unexecuted < len(ids) {
		return exitError(exitFailed)
	}
	return nil
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
	if len(ids) == 0 {
		c.noteUnknownSession(ctx, std, c.Session)
	}
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
	return ids, running, nil
}

// replayCounts counts verdicts. Unexecuted runs never started a script.
type replayCounts struct{ identical, different, unexecuted, failed int }

// replayAll replays runs, several at a time, and prints the verdicts in the order of the
// runs. With several runs, only those that are not identical are printed.
func (c *replayCmd) replayAll(ctx context.Context, std *streams, ids []string) (counts replayCounts, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	results := make([]chan client.Answer[client.Replayed], len(ids))
	for i := range results {
		results[i] = make(chan client.Answer[client.Replayed], 1)
	}
	var workers sync.WaitGroup
	for range min(c.Parallel, len(ids)) {
		workers.Go(func() {
			for i := range next {
				answer, err := c.api().ReplayExecution(ctx, ids[i])
				if err != nil {
					stop(err)
					return
				}
				results[i] <- answer
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range ids {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	defer workers.Wait()
	defer stop(context.Canceled)
	progress := terminal.NewProgress(std.err, "replayed")
	progress.Unit = "runs"
	defer progress.Clear()
	for i := range ids {
		var answer client.Answer[client.Replayed]
		select {
		case answer = <-results[i]:
		case <-ctx.Done():
			return counts, context.Cause(ctx)
		}
		progress.Show(uint64(i+1), uint64(len(ids)))
		counts.add(answer.Body)
		isNews := len(ids) == 1 || answer.Body.Verdict != events.ReplayIdentical && answer.Body.Reason != reasonNotExecuted
		switch {
		case c.JSON:
			err = std.out.WriteJSON(compact(answer.JSON))
		case isNews:
			progress.Clear()
			err = printReplay(std.out, answer.Body)
		}
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// reasonNotExecuted is the reason of a run that never started a script, for example because
// it was cancelled before.
const reasonNotExecuted = "not_executed"

func (n *replayCounts) add(r client.Replayed) {
	switch {
	case r.Verdict == events.ReplayIdentical:
		n.identical++
	case r.Verdict == events.ReplayDifferent:
		n.different++
	case r.Reason == reasonNotExecuted:
		n.unexecuted++
	default:
		n.failed++
	}
}

func (n *replayCounts) print(std *streams, running int) {
	parts := []string{fmt.Sprintf("%d identical", n.identical)}
	for _, p := range []struct {
		count int
		what  string
	}{{n.different, "different"}, {n.failed, "not replayed"}, {n.unexecuted, "never executed"}} {
		if p.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.count, p.what))
		}
	}
	std.out.Printf("%s: %s\n", terminal.CountNoun(n.identical+n.different+n.failed+n.unexecuted, "run"), strings.Join(parts, ", "))
	if running > 0 {
		std.err.Printf("Skipped %s in progress.\n", terminal.CountNoun(running, "run"))
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
		out.Printf("\n  recorded  %s\n  replayed  %s\n", terminal.OneLine(r.Difference.Recorded, 500), terminal.OneLine(r.Difference.Replayed, 500))
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
		out.Printf("\n")
	}
	return out.Err()
}
