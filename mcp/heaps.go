package mcp

import (
	"context"
	"strings"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

func (s *Server) heapTools() []tool {
	heap := property{name: "heap", kind: text, required: true}
	ok := objectSchema(typedField("ok", "boolean"))
	return []tool{
		{
			name: "get_heap_tags", title: "Get heap tags", readOnly: true, idempotent: true,
			description: "Get a heap's tags.",
			input:       []property{heap},
			output:      objectSchema(stringMapField("tags")),
			call:        s.getTags,
		},
		{
			name: "set_heap_tags", title: "Set heap tags", destructive: true, idempotent: true,
			description: "Replace a heap's tags.",
			input:       []property{heap, {name: "tags", kind: textMap, required: true, description: "{} clears"}},
			output:      ok,
			call:        s.setTags,
		},
		{
			name: "delete_heap_tags", title: "Delete heap tags", destructive: true, idempotent: true,
			description: "Delete a heap's tags: keys, or all.",
			input:       []property{heap, {name: "keys", kind: text, description: "comma-separated"}},
			output:      ok,
			call:        s.deleteTags,
		},
		{
			name: "query_heaps_by_tags", title: "Find heaps by tags", heavy: true, readOnly: true, idempotent: true, reportsRepeats: true,
			description: "Find heaps with all given tags; {} finds every tagged heap.",
			input: []property{
				{name: "tags", kind: textMap, required: true},
				{name: "limit", kind: integer, max: projections.MaxListLimit},
				{name: "cursor", kind: text, description: "next_cursor"},
			},
			output: objectSchema(listField("results", objectSchema(typedField("heap", "string"), stringMapField("tags"), optionalField(typedField("lost", "integer")))), optionalField(typedField("next_cursor", "string"))),
			call:   s.findHeaps,
		},
	}
}

type tagsAnswer struct {
	Tags map[string]string `json:"tags"`
}

func (s *Server) getTags(ctx context.Context, _ caller, a arguments) (answer, error) {
	heap := a.text("heap")
	if !events.ValidHash(heap) {
		return answer{}, ledger.Invalid("heap", "heap must be 64 lowercase hex characters, as an execution returns it, not %s", quote(heap))
	}
	tags, err := s.opts.Queries.HeapTags(ctx, s.tenant, heap)
	if err != nil {
		return answer{}, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	return answer{value: tagsAnswer{Tags: tags}}, nil
}

func (s *Server) setTags(ctx context.Context, c caller, a arguments) (answer, error) {
	seq, err := s.opts.Commands.SetTags(ctx, s.tenant, a.text("heap"), a.textMap("tags"), c.actor)
	if err != nil {
		return answer{}, err
	}
	return answer{value: okAnswer{OK: true}, seq: seq}, nil
}

func (s *Server) deleteTags(ctx context.Context, c caller, a arguments) (answer, error) {
	var keys []string // nil means all
	if a.has("keys") {
		keys = strings.Split(a.text("keys"), ",")
	}
	seq, err := s.opts.Commands.DeleteTags(ctx, s.tenant, a.text("heap"), keys, c.actor)
	if err != nil {
		return answer{}, err
	}
	return answer{value: okAnswer{OK: true}, seq: seq}, nil
}

type taggedHeap struct {
	Heap string            `json:"heap"`
	Tags map[string]string `json:"tags"`
	Lost *uint64           `json:"lost,omitempty"`
}

type heapsAnswer struct {
	Results    []taggedHeap `json:"results"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

func (s *Server) findHeaps(ctx context.Context, _ caller, a arguments) (answer, error) {
	limit, err := a.pageLimit()
	if err != nil {
		return answer{}, err
	}
	page, err := s.opts.Queries.HeapsByTags(ctx, s.tenant, projections.TagQuery{Tags: a.textMap("tags"), Limit: limit, Cursor: a.text("cursor")})
	if err != nil {
		return answer{}, err
	}
	found := heapsAnswer{Results: make([]taggedHeap, 0, len(page.Heaps)), NextCursor: page.NextCursor}
	for _, h := range page.Heaps {
		found.Results = append(found.Results, taggedHeap{h.Heap, h.Tags, h.Lost})
	}
	return answer{value: found}, nil
}
