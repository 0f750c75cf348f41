package cli

import (
	"context"
	"fmt"
	"time"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type heapCollectCmd struct {
	clientFlags
	DryRun      bool          `help:"Report the heaps to delete without deleting them."`
	OlderThan   time.Duration `help:"Minimum time since the last use of a heap, 1h or more." default:"720h" placeholder:"DURATION"`
	KeepEntries int           `help:"Number of newest entries of each session that keep their heaps." default:"100" placeholder:"N"`
}

// Help is shown by "daybook heap collect --help".
func (c *heapCollectCmd) Help() string {
	return "Deletes each heap that has no tags, was last created, restored or tagged longer ago than --older-than, and is not referenced by a queued or active run, one of the newest entries of a session, " +
		"or a logical session. Each deletion is recorded as an event; a later run that requests the heap is refused with that event. Blobs that no event references are deleted too."
}

// Run requests a collection and prints its result.
func (c *heapCollectCmd) Run(ctx context.Context, std *streams) error {
	answer, err := c.api().Collect(ctx, client.CollectRule{OlderThanSecs: int64(c.OlderThan / time.Second), KeepEntries: c.KeepEntries, DryRun: c.DryRun})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	report := answer.Body
	if len(report.List) > 0 {
		w := terminal.Table(std.out, "HEAP", "SIZE", "LAST USE", "EVENT")
		for _, h := range report.List {
			event := "-"
			if h.Seq != 0 {
				event = fmt.Sprint(h.Seq)
			}
			w.Row(h.Heap, h.Size, h.LastUse, event)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	verb := "Collected"
	if c.DryRun {
		verb = "Would collect"
	}
	_, err = fmt.Fprintf(std.out, "%s %d of %s, %s before compression; %s; %d removals of an earlier pass finished.\n",
		verb, report.Collected, terminal.CountNoun(report.Heaps, "heap"), terminal.CountNoun(report.Bytes, "byte"), terminal.CountNoun(report.Orphans, "orphan"), report.Finished)
	return err
}
