package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"daybook/events"
	"daybook/projections"
)

func (a *api) heapRoutes(r *router) {
	const base = "/api/heaps/{heap}"
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Tags: []string{tagHeaps}, Summary: summary, Description: description}
	}
	register(r, markHeavy(op("list-heaps", http.MethodGet, "/api/heaps", "List heaps, or find them by tags",
		"Without tag: all recorded heaps, newest first. With tags: the heaps that have all of them, ordered by key.")),
		[]int{http.StatusBadRequest}, a.listHeaps)
	r.bounds(http.MethodGet, "/api/heaps", "limit", 1, maxListLimit, 100)
	register(r, op("get-heap", http.MethodGet, base, "Get a heap", ""),
		[]int{http.StatusBadRequest, http.StatusNotFound, http.StatusGone}, a.getHeap)
	register(r, markHeavy(op("get-heap-tags", http.MethodGet, base+"/tags", "Get the tags of a heap", "An empty object if there are none. With history=1 also the edits, oldest first: the position of each edit, its actor and the tags after it.")),
		[]int{http.StatusBadRequest}, a.heapTags)
	r.bounds(http.MethodGet, base+"/tags", "limit", 1, maxListLimit, nil)
	set := op(idSetTags, http.MethodPut, base+"/tags", "Replace the tags of a heap", "Any well-formed heap key can have tags.")
	set.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": mediaOf[tagsBody](r)}}
	register(r, set, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, a.setHeapTags)
	delete(set.RequestBody.Content, "application/octet-stream") // huma documents it for every RawBody
	register(r, op("delete-heap-tags", http.MethodDelete, base+"/tags", "Delete tags of a heap", "Without keys, all tags are deleted."),
		[]int{http.StatusBadRequest}, a.deleteHeapTags)
	register(r, markHeavy(op("get-heap-lineage", http.MethodGet, base+"/lineage", "Get the lineage of a heap",
		"The runs that produced the heap and its ancestors, from the heap back to a fresh isolate.")),
		[]int{http.StatusBadRequest, http.StatusNotFound}, a.lineage)
	a.globalsRoutes(r)
}

// OneHeap is embedded in the inputs of operations on one heap.
type OneHeap struct {
	Heap string `path:"heap" doc:"Heap key: 64 lowercase hex characters."`
}

func (h OneHeap) about() subject { return subject{"heap", "Heap", h.Heap} }

func (h OneHeap) check() error {
	if f := checkHeapKey("heap", h.Heap, events.ValidHash(h.Heap)); f != nil {
		return f
	}
	return nil
}

type heapsInput struct {
	Reading
	Tags   []string      `query:"tag,explode" doc:"Only heaps with this tag, as KEY=VALUE; repeatable."`
	Limit  optional[int] `query:"limit" doc:"Maximum number of heaps."`
	Cursor string        `query:"cursor" doc:"next_cursor of the previous page."`
}

type heapsAnswer struct{ Body projections.HeapPage }

func (a *api) listHeaps(ctx context.Context, in *heapsInput) (*heapsAnswer, error) {
	r := requestOf(ctx)
	tags, f := tagList("tag", r.query["tag"])
	if f != nil {
		return nil, f
	}
	limit := in.Limit.or(100)
	if f := checkRange("limit", limit, 1, maxListLimit); f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	if tags == nil {
		page, err := a.q.Heaps(ctx, r.tenant, limit, in.Cursor)
		return &heapsAnswer{Body: page}, err
	}
	page, err := a.q.HeapsByTags(ctx, r.tenant, projections.TagQuery{Tags: tags, Limit: limit, Cursor: in.Cursor})
	return &heapsAnswer{Body: page}, err
}

type heapInput struct {
	Reading
	OneHeap
}

type heapAnswer struct{ Body projections.Heap }

func (a *api) getHeap(ctx context.Context, in *heapInput) (*heapAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	h, err := readCurrent(ctx, a, func() (projections.Heap, error) { return a.q.Heap(ctx, requestOf(ctx).tenant, in.Heap) })
	return &heapAnswer{Body: h}, err
}

// tagsBody documents a body with tags; setHeapTags decodes it.
type tagsBody struct {
	Tags map[string]string `json:"tags" doc:"All tags of the heap."`
}

type tagsInput struct {
	Reading
	OneHeap
	History bool          `query:"history" doc:"True adds history: a page of the edits."`
	Limit   optional[int] `query:"limit" doc:"With history: maximum number of edits; default 100."`
	Cursor  string        `query:"cursor" doc:"With history: next_cursor of the previous page."`
}

type tagsAnswer struct {
	Body struct {
		Tags       map[string]string      `json:"tags" doc:"All tags of the heap."`
		History    *[]projections.TagEdit `json:"history,omitempty" doc:"Edits, oldest first; only with history."`
		NextCursor string                 `json:"next_cursor,omitempty" doc:"Cursor of the next page; absent on the last one."`
	}
}

func (a *api) heapTags(ctx context.Context, in *tagsInput) (*tagsAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if !in.History && (in.Limit.Set || in.Cursor != "") {
		return nil, invalid("history", "limit and cursor need history=1")
	}
	limit := in.Limit.or(100)
	if f := checkRange("limit", limit, 1, maxListLimit); f != nil {
		return nil, f
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	tenant, out := requestOf(ctx).tenant, &tagsAnswer{}
	var err error
	if out.Body.Tags, err = a.q.HeapTags(ctx, tenant, in.Heap); err != nil || !in.History {
		return out, err
	}
	page, err := a.q.TagHistory(ctx, tenant, in.Heap, limit, in.Cursor)
	out.Body.History, out.Body.NextCursor = &page.Edits, page.NextCursor
	return out, err
}

type setTagsInput struct {
	OneHeap
	RawBody []byte
}

func (a *api) setHeapTags(ctx context.Context, in *setTagsInput) (*okAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	if f := requireJSON(r, in.RawBody, `curl -X PUT -H 'Content-Type: application/json' --data '{"tags":{"KEY":"VALUE"}}' ...`); f != nil {
		return nil, f
	}
	var tags map[string]string
	if f := decodeObject(in.RawBody, map[string]member{"tags": textMap(&tags)}); f != nil {
		return nil, f
	}
	if tags == nil {
		return nil, mistyped("tags", "tags is missing: give an object of strings; {} clears them")
	}
	seq, err := a.cmd.SetTags(ctx, r.tenant, in.Heap, tags, r.actor)
	if err != nil {
		return nil, err
	}
	return &okAnswer{Written: a.noteWrite(seq), Body: ok{true}}, nil
}

type deleteTagsInput struct {
	OneHeap
	Keys string `query:"keys" doc:"Keys to delete, separated by commas; all if absent."`
}

func (a *api) deleteHeapTags(ctx context.Context, in *deleteTagsInput) (*okAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	var keys []string
	if r.query.Has("keys") { // keys= deletes no tag; without keys all are deleted
		keys = splitKeys(in.Keys)
	}
	seq, err := a.cmd.DeleteTags(ctx, r.tenant, in.Heap, keys, r.actor)
	if err != nil {
		return nil, err
	}
	return &okAnswer{Written: a.noteWrite(seq), Body: ok{true}}, nil
}

func splitKeys(s string) []string {
	keys := []string{}
	for k := range strings.SplitSeq(s, ",") {
		if k = strings.TrimSpace(k); k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

type lineageAnswer struct{ Body heapLineage }

type heapLineage struct {
	Lineage []projections.HeapOrigin `json:"lineage"`
}

func (a *api) lineage(ctx context.Context, in *heapInput) (*lineageAnswer, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := a.waitForPosition(ctx, in.Reading); err != nil {
		return nil, err
	}
	steps, err := readCurrent(ctx, a, func() ([]projections.HeapOrigin, error) { return a.q.Lineage(ctx, requestOf(ctx).tenant, in.Heap) })
	out := &lineageAnswer{}
	out.Body.Lineage = append([]projections.HeapOrigin{}, steps...)
	return out, err
}
