package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
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
	var raw json.RawMessage
	body := map[string]any{"older_than_secs": int64(c.OlderThan / time.Second), "keep_entries": c.KeepEntries, "dry_run": c.DryRun}
	if err := c.call(ctx, http.MethodPost, "/api/heaps/collect", body, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.writeJSON(compact(raw))
	}
	var report struct {
		Heaps, Collected, Finished, Orphans int
		Bytes                               int64
		List                                []struct {
			Heap    string `json:"heap"`
			Size    int64  `json:"size"`
			LastUse string `json:"last_use"`
			Seq     uint64 `json:"seq"`
		}
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if len(report.List) > 0 {
		w := table(std.out, "HEAP", "SIZE", "LAST USE", "EVENT")
		for _, h := range report.List {
			event := "-"
			if h.Seq != 0 {
				event = fmt.Sprint(h.Seq)
			}
			w.row(h.Heap, h.Size, h.LastUse, event)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	verb := "Collected"
	if c.DryRun {
		verb = "Would collect"
	}
	_, err := fmt.Fprintf(std.out, "%s %d of %s, %s before compression; %s; %d removals of an earlier pass finished.\n",
		verb, report.Collected, countNoun(report.Heaps, "heap"), countNoun(report.Bytes, "byte"), countNoun(report.Orphans, "orphan"), report.Finished)
	return err
}
