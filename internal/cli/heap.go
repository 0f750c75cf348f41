package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"daybook/internal/web/client"
)

type heapCmd struct {
	List  heapListCmd  `cmd:"" help:"List the heaps that runs left, newest first."`
	Show  heapShowCmd  `cmd:"" help:"Show a heap and its lineage."`
	Tags  heapTagsCmd  `cmd:"" help:"Show the tags of a heap."`
	Tag   heapTagCmd   `cmd:"" help:"Replace all tags of a heap."`
	Untag heapUntagCmd `cmd:"" help:"Delete tags of a heap: the given keys, or all."`
	Find  heapFindCmd  `cmd:"" help:"Find the heaps that have all given tags."`

	Collect heapCollectCmd `cmd:"" help:"Delete unused heaps."`
}

type heapListCmd struct {
	clientFlags
	Limit int `short:"n" help:"Maximum number of heaps to list; 0 lists all." default:"20" placeholder:"N"`
}

// Validate checks --limit.
func (c *heapListCmd) Validate() error { return c.checkLimit(c.Limit) }

func (c *heapListCmd) Run(ctx context.Context, std *streams) error {
	return c.showHeaps(ctx, std, url.Values{}, c.Limit)
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
	return c.showHeaps(ctx, std, url.Values{"tag": c.Tags}, c.Limit)
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

func (f clientFlags) showHeaps(ctx context.Context, std *streams, params url.Values, limit int) error {
	rows, more, err := f.pages(ctx, "/api/heaps", "results", params, limit)
	if err != nil {
		return err
	}
	if f.JSON {
		return printPage(std.out, "results", rows, more)
	}
	type listedHeap struct {
		Heap      string            `json:"heap"`
		Tags      map[string]string `json:"tags"`
		CreatedAt *string           `json:"created_at"`
		Lost      *uint64           `json:"lost"`
	}
	heaps, isLost := make([]listedHeap, len(rows)), false
	for i, raw := range rows {
		if err := json.Unmarshal(raw, &heaps[i]); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		isLost = isLost || heaps[i].Lost != nil
	}
	w := table(std.out, "HEAP", "CREATED", "TAGS")
	if isLost {
		w = table(std.out, "HEAP", "CREATED", "STATE", "TAGS")
	}
	for _, h := range heaps {
		switch {
		case !isLost:
			w.row(h.Heap, orDash(h.CreatedAt), pairs(h.Tags))
		case h.Lost == nil:
			w.row(h.Heap, orDash(h.CreatedAt), "-", pairs(h.Tags))
		default:
			w.row(h.Heap, orDash(h.CreatedAt), fmt.Sprintf("lost: event %d", *h.Lost), pairs(h.Tags))
		}
	}
	return flushPage(w, std, more, limit)
}

type heapShowCmd struct {
	clientFlags
	oneHeap
}

// Run prints a heap and its lineage.
func (c *heapShowCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	err = c.show(ctx, std.out, path, func(raw []byte) error { return printFields(std.out, raw) })
	if err != nil || c.JSON {
		return err
	}
	fmt.Fprintln(std.out)
	return c.show(ctx, std.out, path+"/lineage", func(raw []byte) error {
		var answer struct {
			Lineage []struct {
				Heap        string `json:"heap"`
				ExecutionID string `json:"execution_id"`
				CreatedAt   string `json:"created_at"`
			} `json:"lineage"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		w := table(std.out, "HEAP", "MADE BY", "CREATED")
		for _, step := range answer.Lineage {
			w.row(step.Heap, step.ExecutionID, step.CreatedAt)
		}
		return w.Flush()
	})
}

type heapTagsCmd struct {
	clientFlags
	oneHeap
	History bool `help:"Show the edits of the tags instead, oldest first."`
}

func (c *heapTagsCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	if err := c.checkKnown(ctx, path); err != nil {
		return err
	}
	if c.History {
		return c.history(ctx, std, path)
	}
	return c.show(ctx, std.out, path+"/tags", func(raw []byte) error {
		var answer struct {
			Tags map[string]string `json:"tags"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		printTags(std.out, answer.Tags)
		return nil
	})
}

// checkKnown returns the error of the server about a heap that no run has left and
// whose tags were never edited. The tags of such a heap read like those of a heap
// without tags.
func (c *heapTagsCmd) checkKnown(ctx context.Context, path string) error {
	err := c.call(ctx, http.MethodGet, path, nil, nil)
	if !isNotFound(err) {
		return nil // reading the tags returns any other error too
	}
	var answer struct {
		History []json.RawMessage `json:"history"`
	}
	if failed := c.call(ctx, http.MethodGet, path+"/tags?history=1&limit=1", nil, &answer); failed != nil {
		return failed
	}
	if len(answer.History) > 0 {
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
func printTags(out *screen, tags map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out.printf("%s=%s\n", key, tags[key])
	}
}

func (c *heapTagsCmd) history(ctx context.Context, std *streams, path string) error {
	edits, _, err := c.pages(ctx, path+"/tags", "history", url.Values{"history": {"1"}}, 0)
	if err != nil {
		return err
	}
	if c.JSON {
		var answer struct {
			Tags    json.RawMessage   `json:"tags"`
			History []json.RawMessage `json:"history"`
		}
		if err := c.call(ctx, http.MethodGet, path+"/tags", nil, &answer); err != nil {
			return err
		}
		answer.History = append([]json.RawMessage{}, edits...)
		raw, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		return std.out.writeJSON(compact(raw))
	}
	w := table(std.out, "EVENT", "TIME", "EDIT", "BY", "TAGS AFTER IT")
	for _, raw := range edits {
		var e struct {
			Seq   uint64            `json:"seq"`
			Time  string            `json:"time"`
			Edit  string            `json:"edit"`
			Tags  map[string]string `json:"tags"`
			Actor struct {
				Principal string `json:"principal"`
			} `json:"actor"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("read the server's answer: %w", err)
		}
		w.row(e.Seq, e.Time, e.Edit, e.Actor.Principal, pairs(e.Tags))
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
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	err = c.call(ctx, http.MethodPut, path+"/tags", map[string]any{"tags": tags}, &raw)
	if err == nil && isNotFound(c.call(ctx, http.MethodGet, path, nil, nil)) {
		std.err.printf("warning: no run has left heap %s; check the key: \"daybook heap list\" lists heaps\n", c.Heap)
	}
	if err != nil || c.JSON {
		return c.done(std, raw, err)
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
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	err = c.call(ctx, http.MethodDelete, path+"/tags"+query("keys", strings.Join(c.Keys, ",")), nil, &raw)
	return c.done(std, raw, err)
}

func (f clientFlags) done(std *streams, raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	if f.JSON {
		return std.out.writeJSON(compact(raw))
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
