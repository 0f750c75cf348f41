package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"daybook/events"
	"daybook/projections"
)

// tagRow is the result of one kind of query, repeated.
type tagRow struct {
	Question string
	Heaps    int // in the answer
	P50, P99 time.Duration
}

// tagResult holds the times of queries for heaps by two tags.
type tagResult struct {
	Heaps int
	Floor time.Duration // p50 of reading the tags of one heap
	Rows  []tagRow
}

// measureTags queries 100,000 tagged heaps for two tags: for one that few heaps have
// and one that many have, and for two that many have.
func measureTags(ctx context.Context, s settings, r *report) (err error) {
	const heaps, asks = 100_000, 1000
	r.Tags.Heaps = heaps
	store, err := projections.Open(ctx, projections.Options{Path: filepath.Join(s.dir, "tags.db")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	heap := func(n int) string { return events.Hash(fmt.Append(nil, n)) }
	var batch []events.Event
	for n := range heaps {
		e := events.New(events.DefaultTenant, time.Now(), &events.HeapTagged{Heap: heap(n), Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{
			"project": fmt.Sprint(n % 1000), "stage": fmt.Sprint(n % 7), "team": fmt.Sprint(n % 3), "owner": fmt.Sprint(n % 6),
		}})})
		e.Seq = uint64(n + 1)
		if batch = append(batch, e); len(batch) == 1000 {
			if err := store.Apply(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	timed := func(ask func(i int) error) (p50, p99 time.Duration, err error) {
		took := make([]time.Duration, 0, asks)
		for i := range asks {
			start := time.Now()
			if err := ask(i); err != nil {
				return 0, 0, err
			}
			took = append(took, time.Since(start))
		}
		return quantile(took, .5), quantile(took, .99), nil
	}
	r.Tags.Floor, _, err = timed(func(i int) error {
		_, err := store.HeapTags(ctx, events.DefaultTenant, heap(i))
		return err
	})
	if err != nil {
		return err
	}
	number := func(n int) string { return fmt.Sprint(n) }
	for _, q := range []struct {
		question string
		limit    int
		tags     func(i int) map[string]string
	}{
		{"a pair of 100 heaps and one of 14,286", 0, func(i int) map[string]string {
			return map[string]string{"project": number(i % 1000), "stage": number(i % 7)}
		}},
		{"pairs of 14,286 and 33,333 heaps, a page of 100", 100, func(i int) map[string]string {
			return map[string]string{"stage": number(i % 7), "team": number(i % 3)}
		}},
		{"pairs of 16,667 and 33,333 heaps that no heap has both of", 100, func(i int) map[string]string {
			return map[string]string{"owner": number(i % 3), "team": number((i + 1) % 3)}
		}},
		{"pairs of 14,286 and 33,333 heaps, all at once", 0, func(i int) map[string]string {
			return map[string]string{"stage": number(i % 7), "team": number(i % 3)}
		}},
	} {
		row := tagRow{Question: q.question}
		row.P50, row.P99, err = timed(func(i int) error {
			page, err := store.HeapsByTags(ctx, events.DefaultTenant, projections.TagQuery{Tags: q.tags(i), Limit: q.limit})
			row.Heaps = len(page.Heaps)
			return err
		})
		if err != nil {
			return err
		}
		r.Tags.Rows = append(r.Tags.Rows, row)
	}
	return nil
}
