package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"daybook/internal/dev/process"
)

// call makes one call: client is the number of the client, n differs in each call.
type call func(ctx context.Context, client, n int) error

// side is one of two servers that are compared.
type side struct {
	server *process.Server
	beside *process.Server // a second process of the server, or nil
	call   call
}

// figures are the medians of the rounds of one side.
type figures struct {
	P50, P99  time.Duration
	PerSecond float64
	CPU       time.Duration // of the server for a call, without its worker processes
	BesideCPU time.Duration // of its second process
}

// comparison is one row: Daybook and a peer with equal numbers of clients.
type comparison struct {
	Clients     int
	Ours, Peers figures
}

// compare measures two sides in turn, so that a change of the machine's speed affects both.
func compare(ctx context.Context, s settings, clients int, ours, peers side) (comparison, error) {
	calls := s.calls
	if clients == 1 {
		calls = max(calls/4, 1)
	}
	var next atomic.Int64
	rounds := make(map[*side][]figures)
	for round := range s.rounds + 1 {
		for _, side := range []*side{&ours, &peers} {
			one, err := side.round(ctx, clients, calls, &next)
			if err != nil {
				return comparison{}, fmt.Errorf("%s: %w", side.server.Name, err)
			}
			if round > 0 { // the first fills caches and starts workers
				rounds[side] = append(rounds[side], one)
			}
		}
	}
	return comparison{Clients: clients, Ours: medians(rounds[&ours]), Peers: medians(rounds[&peers])}, nil
}

// round makes calls from a number of clients, each of which waits for the answer of its last.
func (s *side) round(ctx context.Context, clients, calls int, next *atomic.Int64) (figures, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var left atomic.Int64
	left.Store(int64(calls))
	var mu sync.Mutex
	var took []time.Duration
	cpu, beside := s.server.CPU(), s.beside.CPU()
	start := time.Now()
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				begin := time.Now()
				if err := s.call(ctx, client, int(next.Add(1))); err != nil {
					stop(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if ctx.Err() != nil {
		return figures{}, context.Cause(ctx)
	}
	busy := time.Since(start)
	slices.Sort(took)
	return figures{
		P50:       took[len(took)/2],
		P99:       took[len(took)*99/100],
		PerSecond: float64(len(took)) / busy.Seconds(),
		CPU:       (s.server.CPU() - cpu) / time.Duration(len(took)),
		BesideCPU: (s.beside.CPU() - beside) / time.Duration(len(took)),
	}, nil
}

func medians(rounds []figures) figures {
	return figures{
		P50:       median(rounds, func(f figures) time.Duration { return f.P50 }),
		P99:       median(rounds, func(f figures) time.Duration { return f.P99 }),
		PerSecond: median(rounds, func(f figures) float64 { return f.PerSecond }),
		CPU:       median(rounds, func(f figures) time.Duration { return f.CPU }),
		BesideCPU: median(rounds, func(f figures) time.Duration { return f.BesideCPU }),
	}
}

func median[T float64 | time.Duration](rounds []figures, of func(figures) T) T {
	var all []T
	for _, f := range rounds {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
