package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
)

type heapCmd struct {
	List  heapListCmd  `cmd:"" help:"List the heaps that runs left, newest first."`
	Show  heapShowCmd  `cmd:"" help:"Show a heap and its lineage."`
	Diff  heapDiffCmd  `cmd:"" help:"Compare the globals of two heaps."`
	Tags  heapTagsCmd  `cmd:"" help:"Show the tags of a heap."`
	Tag   heapTagCmd   `cmd:"" help:"Replace all tags of a heap."`
	Untag heapUntagCmd `cmd:"" help:"Delete tags of a heap: the given keys, or all."`
	Find  heapFindCmd  `cmd:"" help:"Find the heaps that have all given tags."`

	Migrate heapMigrateCmd `cmd:"" help:"Make heaps of another engine again by replays."`
	Collect heapCollectCmd `cmd:"" help:"Delete unused heaps."`
}

type heapListCmd struct {
	clientFlags
	Limit int `short:"n" help:"Maximum number of heaps to list; 0 lists all." default:"20" placeholder:"N"`
}

// Validate checks --limit.
func (c *heapListCmd) Validate() error { return c.checkLimit(c.Limit) }

func (c *heapListCmd) Run(ctx context.Context, std *streams) error {
	return c.showHeaps(ctx, std, nil, c.Limit)
}

type heapFindCmd struct {
	clientFlags
	Tags  []string `arg:"" help:"Tags that the heaps have, as KEY=VALUE." placeholder:"KEY=VALUE"`
	Limit int      `short:"n" help:"Maximum number of heaps to list; 0 lists all." default:"100" placeholder:"N"`
}

// Validate checks --limit.
func (c *heapFindCmd) Validate() error { return c.checkLimit(c.Limit) }

// Run prints the heaps that have every given tag.
func (c *heapFindCmd) Run(ctx context.Context, std *streams) error {
	if _, err := tagsOf(c.Tags); err != nil {
		return err
	}
	return c.showHeaps(ctx, std, c.Tags, c.Limit)
}

// tagsOf parses KEY=VALUE pairs. A value may contain "=".
func tagsOf(pairs []string) (map[string]string, error) {
	tags := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("tag %q is not of the form KEY=VALUE", pair)}
		}
		if _, twice := tags[key]; twice {
			return nil, usageError{fmt.Errorf("tag %q is given twice", key)}
		}
		tags[key] = value
	}
	return tags, nil
}

func (f clientFlags) showHeaps(ctx context.Context, std *streams, tags []string, limit int) error {
	rows, err := readPages("results", limit, func(limit int, cursor string) (page[client.Heap], error) {
		a, err := f.api().Heaps(ctx, client.HeapFilter{Tags: tags, Limit: limit, Cursor: cursor})
		return page[client.Heap]{a.Body.Heaps, a.JSON, a.Body.NextCursor}, err
	})
	if err != nil {
		return err
	}
	if f.JSON {
		return rows.print(std.out, "results")
	}
	isLost := slices.ContainsFunc(rows.list, func(h client.Heap) bool { return h.Lost != nil })
	w := terminal.Table(std.out, "HEAP", "CREATED", "TAGS")
	if isLost {
		w = terminal.Table(std.out, "HEAP", "CREATED", "STATE", "TAGS")
	}
	for _, h := range rows.list {
		switch {
		case !isLost:
			w.Row(h.Heap, orDash(h.CreatedAt), pairs(h.Tags))
		case h.Lost == nil:
			w.Row(h.Heap, orDash(h.CreatedAt), "-", pairs(h.Tags))
		default:
			w.Row(h.Heap, orDash(h.CreatedAt), fmt.Sprintf("lost: event %d", *h.Lost), pairs(h.Tags))
		}
	}
	return flushPage(w, std, rows.cursor, limit)
}

type heapShowCmd struct {
	clientFlags
	oneHeap
	Globals bool `help:"Also list the globals that scripts added, which a worker reads from the heap."`
}

// Help is shown by "daybook heap show --help".
func (c *heapShowCmd) Help() string {
	return "With --globals, a worker of the server restores the heap and describes its globals without running any of its code. Nothing is recorded. " +
		"It can read only heaps of its own engine."
}

// Run prints a heap and its lineage, and its globals.
func (c *heapShowCmd) Run(ctx context.Context, std *streams) error {
	key, err := c.heapKey(ctx, c.Heap)
	if err != nil {
		return err
	}
	heap, err := c.api().Heap(ctx, key)
	if err != nil {
		return err
	}
	var list client.Answer[client.Globals]
	if c.Globals {
		if list, err = c.api().Globals(ctx, key, 0); err != nil {
			return err
		}
	}
	if c.JSON {
		return std.out.WriteJSON(withMembers(compact(heap.JSON), list.JSON))
	}
	if err := printFields(std.out, heap.JSON); err != nil {
		return err
	}
	fmt.Fprintln(std.out)
	origin, err := c.api().Lineage(ctx, key)
	if err != nil {
		return err
	}
	w := terminal.Table(std.out, "HEAP", "CREATED BY", "CREATED")
	for _, step := range origin.Body.Lineage {
		w.Row(step.Heap, step.ExecutionID, step.CreatedAt)
	}
	if err := w.Flush(); err != nil || !c.Globals {
		return err
	}
	fmt.Fprintln(std.out)
	return printGlobals(std, list.Body)
}

// withMembers returns a JSON object with the members of another one, or without them if more is
// empty.
func withMembers(object string, more []byte) string {
	text := compact(more)
	if len(text) <= len("{}") {
		return object
	}
	return strings.TrimSuffix(object, "}") + "," + text[1:]
}

type heapTagsCmd struct {
	clientFlags
	oneHeap
	History bool `help:"Show the edits of the tags instead, oldest first."`
}

func (c *heapTagsCmd) Run(ctx context.Context, std *streams) error {
	key, err := c.heapKey(ctx, c.Heap)
	if err != nil {
		return err
	}
	if err := c.checkKnown(ctx, key); err != nil {
		return err
	}
	if c.History {
		return c.history(ctx, std, key)
	}
	answer, err := c.api().Tags(ctx, key)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	printTags(std.out, answer.Body.Tags)
	return nil
}

// checkKnown returns the error of the server about a heap that no run has left and
// whose tags were never edited. The tags of such a heap read like those of a heap
// without tags.
func (c *heapTagsCmd) checkKnown(ctx context.Context, key string) error {
	_, err := c.api().Heap(ctx, key)
	if !isNotFound(err) {
		return nil // reading the tags returns any other error too
	}
	answer, failed := c.api().TagHistory(ctx, key, 1, "")
	if failed != nil {
		return failed
	}
	if len(answer.Body.History) > 0 {
		return nil
	}
	return err
}

// isNotFound reports whether the server answered 404.
func isNotFound(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Status == http.StatusNotFound
}

// printTags prints one tag per line.
func printTags(out *terminal.Screen, tags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.Printf("%s=%s\n", key, tags[key])
	}
}

func (c *heapTagsCmd) history(ctx context.Context, std *streams, key string) error {
	edits, err := readPages("history", 0, func(limit int, cursor string) (page[client.TagEdit], error) {
		a, err := c.api().TagHistory(ctx, key, limit, cursor)
		return page[client.TagEdit]{a.Body.History, a.JSON, a.Body.NextCursor}, err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		var answer struct {
			Tags    json.RawMessage   `json:"tags"`
			History []json.RawMessage `json:"history"`
		}
		now, err := c.api().Tags(ctx, key)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(now.JSON, &answer); err != nil {
			return err
		}
		answer.History = append([]json.RawMessage{}, edits.raw...)
		raw, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return std.out.WriteJSON(compact(raw))
	}
	w := terminal.Table(std.out, "EVENT", "TIME", "EDIT", "BY", "TAGS AFTER IT")
	for _, e := range edits.list {
		w.Row(e.Seq, e.Time, e.Edit, e.Actor.Principal, pairs(e.Tags))
	}
	return w.Flush()
}

type heapTagCmd struct {
	clientFlags
	oneHeap
	Tags []string `arg:"" help:"New tags of the heap, as KEY=VALUE; other tags are deleted." placeholder:"KEY=VALUE"`
}

// Run replaces the tags of a heap and prints the new ones.
func (c *heapTagCmd) Run(ctx context.Context, std *streams) error {
	tags, err := tagsOf(c.Tags)
	if err != nil {
		return err
	}
	key, err := c.heapKey(ctx, c.Heap)
	if err != nil {
		return err
	}
	answer, err := c.api().SetTags(ctx, key, tags)
	if err != nil {
		return err
	}
	if _, err := c.api().Heap(ctx, key); isNotFound(err) {
		std.err.Printf("warning: no run has left heap %s; check the key: \"daybook heap list\" lists heaps\n", c.Heap)
	}
	if c.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	printTags(std.out, tags)
	return nil
}

type heapUntagCmd struct {
	clientFlags
	oneHeap
	Keys []string `arg:"" optional:"" help:"Keys to delete. Default: all." placeholder:"KEY"`
}

func (c *heapUntagCmd) Run(ctx context.Context, std *streams) error {
	key, err := c.heapKey(ctx, c.Heap)
	if err != nil {
		return err
	}
	answer, err := c.api().DeleteTags(ctx, key, c.Keys)
	return c.done(std, answer, err)
}

// done prints the answer to a write that has nothing to report.
func (f clientFlags) done(std *streams, answer client.Answer[client.OK], err error) error {
	if err != nil {
		return err
	}
	if f.JSON {
		return std.out.WriteJSON(compact(answer.JSON))
	}
	_, err = fmt.Fprintln(std.out, "ok")
	return err
}

func pairs(tags map[string]string) string {
	var b strings.Builder
	for i, key := range slices.Sorted(maps.Keys(tags)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key + "=" + tags[key])
	}
	return b.String()
}
