package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"daybook/httpapi"
	"daybook/internal/globals"
	"daybook/internal/lifecycle/retention"
	"daybook/projections"
)

// Heap is a heap that a run left.
type Heap = projections.Heap

// HeapPage is a page of heaps.
type HeapPage = projections.HeapPage

// TagEdit is an edit of the tags of a heap.
type TagEdit = projections.TagEdit

// Collection is the report of a collection of heaps.
type Collection = retention.Report

// HeapFilter selects heaps. Zero members select all.
type HeapFilter struct {
	// Tags are KEY=VALUE pairs.
	Tags []string
	// Limit is the maximum size of the page; 0 for the default of the server. Cursor is
	// that of the page before.
	Limit  int
	Cursor string
}

// Heaps returns a page of heaps: newest first, or ordered by key if f has tags.
func (c *Client) Heaps(ctx context.Context, f HeapFilter) (Answer[HeapPage], error) {
	params := withTags([]string{"limit", number(f.Limit), "cursor", f.Cursor}, f.Tags)
	return call[HeapPage](ctx, c, http.MethodGet, "/api/heaps"+query(params...), nil)
}

func heapPath(key string) string { return "/api/heaps/" + url.PathEscape(key) }

// Heap returns a heap.
func (c *Client) Heap(ctx context.Context, key string) (Answer[Heap], error) {
	return call[Heap](ctx, c, http.MethodGet, heapPath(key), nil)
}

// MigratedHeap is the verdict about a heap of another engine.
type MigratedHeap = httpapi.MigratedHeap

// MigrateHeap migrates a heap to the engine of the server and returns the verdict. That can
// take as long as all runs that led to the heap. With retag, the tags of the heap move to the
// migrated heap.
func (c *Client) MigrateHeap(ctx context.Context, key string, retag bool) (Answer[MigratedHeap], error) {
	var params []string
	if retag {
		params = []string{"retag", "true"}
	}
	return call[MigratedHeap](ctx, c, http.MethodPost, heapPath(key)+"/migrate"+query(params...), nil)
}

// Globals is a list of the globals that scripts added to a heap.
type Globals = globals.List

// Globals lists the globals of a heap, without the first skip of them. The server must have
// workers of the engine that made it.
func (c *Client) Globals(ctx context.Context, key string, skip int) (Answer[Globals], error) {
	return call[Globals](ctx, c, http.MethodGet, heapPath(key)+"/globals"+query("skip", number(skip)), nil)
}

// Lineage is the chain of runs from a heap back to a fresh isolate, newest first.
type Lineage struct {
	Lineage []projections.HeapOrigin `json:"lineage"`
}

// Lineage returns the lineage of a heap.
func (c *Client) Lineage(ctx context.Context, key string) (Answer[Lineage], error) {
	return call[Lineage](ctx, c, http.MethodGet, heapPath(key)+"/lineage", nil)
}

// Tags are the tags of a heap, with a page of their edits if that was requested.
type Tags struct {
	Tags       map[string]string `json:"tags"`
	History    []TagEdit         `json:"history,omitempty"`
	NextCursor string            `json:"next_cursor,omitempty"`
}

// Tags returns the tags of a heap. A heap that is not known has none.
func (c *Client) Tags(ctx context.Context, key string) (Answer[Tags], error) {
	return call[Tags](ctx, c, http.MethodGet, heapPath(key)+"/tags", nil)
}

// TagHistory returns the tags of a heap with a page of their edits, oldest first.
func (c *Client) TagHistory(ctx context.Context, key string, limit int, cursor string) (Answer[Tags], error) {
	return call[Tags](ctx, c, http.MethodGet, heapPath(key)+"/tags"+query("history", "1", "limit", number(limit), "cursor", cursor), nil)
}

// SetTags replaces the tags of a heap.
func (c *Client) SetTags(ctx context.Context, key string, tags map[string]string) (Answer[OK], error) {
	return call[OK](ctx, c, http.MethodPut, heapPath(key)+"/tags", map[string]any{"tags": tags})
}

// DeleteTags deletes tags of a heap, or all of them if keys is empty.
func (c *Client) DeleteTags(ctx context.Context, key string, keys []string) (Answer[OK], error) {
	return call[OK](ctx, c, http.MethodDelete, heapPath(key)+"/tags"+query("keys", strings.Join(keys, ",")), nil)
}

// CollectRule selects the heaps that a collection deletes.
type CollectRule struct {
	// OlderThanSecs is the minimum time since the last use of a heap, in seconds.
	OlderThanSecs int64 `json:"older_than_secs"`
	// KeepEntries is the number of newest entries of each session that keep their heaps.
	KeepEntries int  `json:"keep_entries"`
	DryRun      bool `json:"dry_run"`
}

// Collect deletes unused heaps.
func (c *Client) Collect(ctx context.Context, rule CollectRule) (Answer[Collection], error) {
	return call[Collection](ctx, c, http.MethodPost, "/api/heaps/collect", rule)
}
