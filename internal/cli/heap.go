package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

type heapCmd struct {
	List  heapListCmd  `cmd:"" help:"List tagged heaps."`
	Show  heapShowCmd  `cmd:"" help:"Show a heap and its ancestry."`
	Tags  heapTagsCmd  `cmd:"" help:"Show the tags of a heap."`
	Tag   heapTagCmd   `cmd:"" help:"Replace the tags of a heap."`
	Untag heapUntagCmd `cmd:"" help:"Delete tags of a heap: the keys named, or all."`
	Find  heapFindCmd  `cmd:"" help:"Find heaps that carry all the tags given."`
}

type heapListCmd struct{ clientFlags }

// Run prints every tagged heap.
func (c *heapListCmd) Run(ctx context.Context, std *streams) error {
	return c.showHeaps(ctx, std, "/api/heaps")
}

type heapFindCmd struct {
	clientFlags
	Tags []string `arg:"" help:"Tags as KEY=VALUE." placeholder:"KEY=VALUE"`
}

// Run prints the heaps whose tags include every pair.
func (c *heapFindCmd) Run(ctx context.Context, std *streams) error {
	q := url.Values{}
	for _, pair := range c.Tags {
		if !strings.Contains(pair, "=") {
			return usageError{fmt.Errorf("%q is not of the form KEY=VALUE", pair)}
		}
		q.Add("tag", pair)
	}
	return c.showHeaps(ctx, std, "/api/heaps?"+q.Encode())
}

func (f clientFlags) showHeaps(ctx context.Context, std *streams, path string) error {
	return f.show(ctx, std.out, path, func(raw []byte) error {
		var answer struct {
			Results []struct {
				Heap string            `json:"heap"`
				Tags map[string]string `json:"tags"`
			} `json:"results"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		w := table(std.out, "HEAP", "TAGS")
		for _, h := range answer.Results {
			fmt.Fprintf(w, "%s\t%s\n", h.Heap, pairs(h.Tags))
		}
		return w.Flush()
	})
}

type heapShowCmd struct {
	clientFlags
	Heap string `arg:"" help:"Heap key." placeholder:"HASH"`
}

// Run prints what is on record about a heap and how it came to be.
func (c *heapShowCmd) Run(ctx context.Context, std *streams) error {
	path := "/api/heaps/" + url.PathEscape(c.Heap)
	if err := c.show(ctx, std.out, path, func(raw []byte) error { return printFields(std.out, raw) }); err != nil || c.JSON {
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
		w := table(std.out, "HEAP", "MADE BY", "AT")
		for _, step := range answer.Lineage {
			fmt.Fprintf(w, "%s\t%s\t%s\n", step.Heap, step.ExecutionID, step.CreatedAt)
		}
		return w.Flush()
	})
}

type heapTagsCmd struct {
	clientFlags
	Heap string `arg:"" help:"Heap key." placeholder:"HASH"`
}

// Run prints the tags of a heap.
func (c *heapTagsCmd) Run(ctx context.Context, std *streams) error {
	return c.show(ctx, std.out, "/api/heaps/"+url.PathEscape(c.Heap)+"/tags", func(raw []byte) error {
		var answer struct {
			Tags map[string]string `json:"tags"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(answer.Tags)) {
			fmt.Fprintf(std.out, "%s=%s\n", key, answer.Tags[key])
		}
		return nil
	})
}

type heapTagCmd struct {
	clientFlags
	Heap string   `arg:"" help:"Heap key." placeholder:"HASH"`
	Tags []string `arg:"" help:"All the tags the heap is to have, as KEY=VALUE." placeholder:"KEY=VALUE"`
}

// Run replaces the tags of a heap.
func (c *heapTagCmd) Run(ctx context.Context, std *streams) error {
	tags := map[string]string{}
	for _, pair := range c.Tags {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usageError{fmt.Errorf("%q is not of the form KEY=VALUE", pair)}
		}
		tags[key] = value
	}
	var raw json.RawMessage
	err := c.call(ctx, http.MethodPut, "/api/heaps/"+url.PathEscape(c.Heap)+"/tags", map[string]any{"tags": tags}, &raw)
	return c.done(std, raw, err)
}

type heapUntagCmd struct {
	clientFlags
	Heap string   `arg:"" help:"Heap key." placeholder:"HASH"`
	Keys []string `arg:"" optional:"" help:"Keys to delete; all when none is named." placeholder:"KEY"`
}

// Run deletes tags of a heap.
func (c *heapUntagCmd) Run(ctx context.Context, std *streams) error {
	var raw json.RawMessage
	path := "/api/heaps/" + url.PathEscape(c.Heap) + "/tags" + query("keys", strings.Join(c.Keys, ","))
	err := c.call(ctx, http.MethodDelete, path, nil, &raw)
	return c.done(std, raw, err)
}

func (f clientFlags) done(std *streams, raw json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	if f.JSON {
		_, err = fmt.Fprintf(std.out, "%s\n", compact(raw))
		return err
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
