package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type heapMigrateCmd struct {
	clientFlags
	Heaps        []string `arg:"" optional:"" name:"heap" help:"${heap_help}" placeholder:"HASH"`
	AllTagged    bool     `help:"Migrate the heaps that have tags."`
	SessionHeads bool     `help:"Migrate the heaps that sessions continue from."`
	Retag        bool     `help:"Move the tags of each heap to the heap that takes its place."`
	Parallel     int      `help:"Number of migrations at a time. The server executes at most half as many replays as runs." default:"2" placeholder:"N"`
}

// Help is shown by "daybook heap migrate --help".
func (c *heapMigrateCmd) Help() string {
	return "Makes heaps of another engine, such as that of an earlier version, again: the server replays the runs that led to each heap, compares output, host calls, status, result and error with the record, " +
		"and stores the heap that the replays left. A heap is not migrated if a replay differs. Runs and sessions migrate the heaps that they need without this command.\n\n" +
		"The recorded heaps stay, with their tags. The ledger records each migration: to continue an interrupted command, repeat it.\n\n" +
		"Examples:\n\n" +
		"  daybook heap migrate 4f2a\n\n" +
		"  daybook heap migrate --all-tagged --session-heads\n\n" +
		"Exit status: 0 if the server can restore every heap or a migration of it, 1 if not, 2 for a mistake in the command line."
}

// Validate checks which heaps the command line names.
func (c *heapMigrateCmd) Validate() error {
	selects := c.AllTagged || c.SessionHeads
	switch {
	case len(c.Heaps) == 0 && !selects:
		return errors.New("name the heaps to migrate: give their keys, or --all-tagged or --session-heads")
	case len(c.Heaps) > 0 && selects:
		return errors.New("give keys, or --all-tagged and --session-heads, not both")
	case c.Parallel < 1:
		return fmt.Errorf("--parallel is %d: it must be 1 or more", c.Parallel)
	}
	return c.clientFlags.Validate()
}

// Run migrates heaps and prints the verdicts.
func (c *heapMigrateCmd) Run(ctx context.Context, std *streams) error {
	heaps, err := c.selected(ctx)
	if err != nil {
		return err
	}
	v := migrated{std: std, json: c.JSON, total: len(heaps), progress: terminal.NewProgress(std.err, "migrated")}
	v.progress.Unit = "heaps"
	defer v.progress.Clear()
	if err := c.migrate(ctx, heaps, &v); err != nil {
		return err
	}
	v.progress.Clear()
	if !c.JSON && v.total != 1 {
		v.printCounts()
	}
	if v.failed > 0 {
		return exitError(exitFailed)
	}
	return nil
}

// selected returns the keys of the heaps to migrate, without repetition. Heaps of a lineage
// come in its order, so that a migrated heap serves the migration of its descendants.
func (c *heapMigrateCmd) selected(ctx context.Context) (heaps []string, err error) {
	has := map[string]bool{}
	add := func(key string) {
		if !has[key] {
			has[key] = true
			heaps = append(heaps, key)
		}
	}
	for _, text := range c.Heaps {
		key, err := c.heapKey(ctx, text)
		if err != nil {
			return nil, err
		}
		add(key)
	}
	if c.AllTagged {
		var tagged []string
		for filter := (client.HeapFilter{Limit: mostRows}); ; {
			page, err := c.api().Heaps(ctx, filter)
			if err != nil {
				return nil, err
			}
			for _, h := range page.Body.Heaps {
				if len(h.Tags) > 0 && h.Lost == nil {
					tagged = append(tagged, h.Heap)
				}
			}
			if filter.Cursor = page.Body.NextCursor; filter.Cursor == "" {
				break
			}
		}
		for _, key := range slices.Backward(tagged) { // the page has the newest heap first
			add(key)
		}
	}
	for cursor := ""; c.SessionHeads; {
		page, err := c.api().Sessions(ctx, "all", mostRows, cursor, false)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Body.Items {
			if s.Head != nil && *s.Head != "" {
				add(*s.Head)
			}
		}
		if cursor = page.Body.NextCursor; cursor == "" {
			break
		}
	}
	return heaps, nil
}

// migrate migrates heaps on the server, several at a time, and prints the verdicts in the order
// of the heaps.
func (c *heapMigrateCmd) migrate(ctx context.Context, heaps []string, v *migrated) error {
	type answer struct {
		client.Answer[client.MigratedHeap]
		refused error
	}
	return inOrder(ctx, len(heaps), c.Parallel, func(ctx context.Context, i int) (answer, error) {
		a, err := c.api().MigrateHeap(ctx, heaps[i], c.Retag)
		if _, refused := errors.AsType[*client.Error](err); refused && len(heaps) > 1 {
			return answer{a, err}, nil
		}
		return answer{a, nil}, err
	}, func(i int, a answer) error { return v.add(heaps[i], a.Answer, a.refused) })
}

// migrated prints and counts the verdicts of migrations, in the order of the heaps.
type migrated struct {
	std      *streams
	json     bool
	progress *terminal.Progress
	// total is the number of heaps, unchanged that of those that the engine of the server
	// made, and failed that of those without a migration.
	total, done, migrated, unchanged, failed int
}

func (v *migrated) add(heap string, a client.Answer[client.MigratedHeap], refused error) error {
	v.done++
	v.progress.Show(uint64(v.done), uint64(v.total))
	m := a.Body
	switch {
	case refused != nil:
		v.failed++
		v.progress.Clear()
		v.std.err.Printf("%s  not migrated: %s\n", heap, terminal.OneLine(refused.Error(), 500))
		return nil
	case m.Verdict == events.MigrationDone:
		v.migrated++
	case m.NewHeap != "":
		v.unchanged++
	default:
		v.failed++
	}
	if v.json {
		return v.std.out.WriteJSON(compact(a.JSON))
	}
	if m.NewHeap == heap && v.total > 1 {
		return nil
	}
	v.progress.Clear()
	return printMigration(v.std.out, m)
}

func (v *migrated) printCounts() {
	parts := []string{fmt.Sprintf("%d migrated", v.migrated)}
	if v.unchanged > 0 {
		parts = append(parts, fmt.Sprintf("%d of the engine of the server", v.unchanged))
	}
	if v.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d not migrated", v.failed))
	}
	v.std.out.Printf("%s: %s\n", terminal.CountNoun(v.total, "heap"), strings.Join(parts, ", "))
}

func printMigration(out *terminal.Screen, m client.MigratedHeap) error {
	out.Printf("%s  %s", m.Heap, strings.ReplaceAll(string(m.Verdict), "_", " "))
	switch {
	case m.Difference != nil:
		out.Printf(": execution %s, %s", m.ExecutionID, m.Difference.Part)
		if m.Difference.Line > 0 {
			out.Printf(", line %d", m.Difference.Line)
		}
		if m.Difference.Call > 0 {
			out.Printf(", call %d", m.Difference.Call)
		}
		if m.Difference.Artifact > 0 {
			out.Printf(", artifact %d", m.Difference.Artifact)
		}
		out.Printf("\n  recorded  %s\n  replayed  %s\n", terminal.OneLine(m.Difference.Recorded, 500), terminal.OneLine(m.Difference.Replayed, 500))
	case m.Message != "":
		out.Printf(": %s\n", terminal.OneLine(m.Message, 500))
	case m.NewHeap == m.Heap:
		out.Printf(": the engine of the server made it\n")
	case m.Recorded:
		out.Printf(" to %s before%s\n", m.NewHeap, movedTags(m.TagsMoved))
	default:
		out.Printf(" to %s, with %s in %s%s\n", m.NewHeap, terminal.CountNoun(m.Replayed, "replay"), terminal.FormatDuration(time.Duration(m.WallMillis)*time.Millisecond), movedTags(m.TagsMoved))
	}
	return out.Err()
}

func movedTags(n int) string {
	if n == 0 {
		return ""
	}
	return "; moved " + terminal.CountNoun(n, "tag")
}
