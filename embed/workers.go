package embed

import (
	"context"
	"errors"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// workers adapts the pool of worker processes to the interface of the runner. It
// decides nothing.
type workers struct{ pool *worker.Pool }

func (w workers) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	task := worker.Task{
		Tenant: t.Tenant, Session: t.Session, Code: t.Code, FileName: t.FileName, Heap: t.Heap, Stateful: t.Stateful,
		HeapLimitBytes: t.HeapLimitBytes, ArrayBufferLimitBytes: t.ArrayBufferLimitBytes, Timeout: t.Timeout, Seed: t.Seed, Start: t.Start,
		Servers: t.Servers, Globals: t.Globals, HideNames: t.HideNames, HeapSent: t.OnHeapReceived, ReserveHeap: t.ReserveHeap,
	}
	if t.Host != nil {
		task.Host = host{t.Host}
	}
	out, err := w.pool.Run(ctx, task, func(ctx context.Context, batch []worker.Line) error {
		converted := make([]events.Line, len(batch))
		for i, l := range batch {
			converted[i] = events.Line{
				Text:       l.Text,
				Level:      events.Level(l.Level.String()),
				TimeMillis: l.At.UnixMilli(),
				Continued:  l.Continued,
			}
		}
		return lines(ctx, converted)
	})
	if _, short := errors.AsType[*worker.ShortageError](err); short {
		err = &runner.NotStartedError{Err: err}
	}
	return runner.Outcome(out), err
}

// host performs the host calls of a worker through the runner.
type host struct{ runner.Host }

func (h host) Next(ctx context.Context, due time.Time) (worker.Answer, error) {
	a, err := h.Host.Next(ctx, due)
	return worker.Answer(a), err
}

func (w workers) Engine(ctx context.Context, stateful bool) (events.Engine, error) {
	e, err := w.pool.Engine(ctx)
	if err != nil {
		return events.Engine{}, err
	}
	if !stateful {
		// Plain isolates have the optimizing compiler and save nothing.
		e.JIT, e.SnapshotFormat = true, 0
	}
	return events.Engine{
		ID: e.ID(), V8Version: e.V8Version, Flags: e.Flags, JIT: e.JIT, PreludeSHA256: e.PreludeSHA256, SnapshotFormat: e.SnapshotFormat,
	}, nil
}

func (w workers) Layers(ctx context.Context, stateful bool) ([]string, error) {
	return w.pool.Layers(ctx, stateful)
}
