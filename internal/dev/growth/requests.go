package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"daybook/events"
	"daybook/internal/web/client"
)

// requestTimes are the times of one kind of request, made one after another.
type requestTimes struct {
	Name     string
	P50, P99 time.Duration
}

// measureRequests makes requests of each kind about executions, heaps and sessions of any age.
func measureRequests(ctx context.Context, c *client.Client, g *generator, calls int) ([]requestTimes, error) {
	random := rand.New(rand.NewPCG(1, uint64(g.executions)))
	any := func(of []string) string { return of[random.IntN(len(of))] }
	kinds := []struct {
		name string
		call func(n int) error
	}{
		{"submit a run", func(n int) error {
			_, err := c.Submit(ctx, client.Run{Code: strconv.Itoa(n)})
			return err
		}},
		{"submit with a key", func(n int) error {
			_, err := c.Submit(ctx, client.Run{Code: strconv.Itoa(n), Key: fmt.Sprintf("%d-of-%d", n, g.executions)})
			return err
		}},
		{"get an execution", func(int) error { _, err := c.Execution(ctx, any(g.ids)); return err }},
		{"get its output", func(int) error { _, err := c.Output(ctx, any(g.ids), 0, 100); return err }},
		{"get its events", func(int) error {
			for _, err := range c.ExecutionEvents(ctx, any(g.ids)) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"list executions", func(int) error {
			_, err := c.Executions(ctx, client.ExecutionFilter{Limit: 20})
			return err
		}},
		{"list a session's executions", func(int) error {
			_, err := c.Executions(ctx, client.ExecutionFilter{Session: sessionName(random.IntN(sessionCount)), Limit: 20})
			return err
		}},
		{"edit tags", func(n int) error {
			_, err := c.SetTags(ctx, any(g.heaps), map[string]string{"edit": strconv.Itoa(n)})
			return err
		}},
		{"find heaps by tag", func(int) error {
			_, err := c.Heaps(ctx, client.HeapFilter{Tags: []string{"stage=" + strconv.Itoa(random.IntN(1000))}, Limit: 20})
			return err
		}},
	}
	var results []requestTimes
	for _, kind := range kinds {
		took := make([]time.Duration, 0, calls)
		for n := range calls + calls/10 {
			start := time.Now()
			if err := kind.call(n); err != nil {
				return nil, fmt.Errorf("%s: %w", kind.name, err)
			}
			if n >= calls/10 { // the first fill caches
				took = append(took, time.Since(start))
			}
		}
		slices.Sort(took)
		results = append(results, requestTimes{kind.name, took[len(took)/2], took[len(took)*99/100]})
		if err := untilIdle(ctx, c); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// untilIdle waits until the runs that were submitted have ended, because they would slow the next
// requests.
func untilIdle(ctx context.Context, c *client.Client) error {
	for {
		list, err := c.Executions(ctx, client.ExecutionFilter{Status: string(events.StatusRunning), Limit: 1})
		if err != nil || len(list.Body.Executions) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
