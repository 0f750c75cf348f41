package httpapi

import (
	"context"
	"errors"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// maxWaitSecs bounds the wait of a request for the end of a run, in seconds.
const maxWaitSecs = 60

// executionDetail is an execution in responses.
type executionDetail struct {
	projections.ExecutionDetail
	// OutputHead is nil unless the request has the parameter wait and the run has ended.
	*projections.OutputHead
}

// awaitEnd returns an execution as soon as its end can be read. After secs seconds, or when
// the server shuts down, it returns the current state. New output does not wake awaitEnd,
// so it reads the execution at most twice. If withOutput is set, the result for an ended run
// has the beginning of the output. requested is the position of the request of the run, or 0:
// before the projections have applied it, no end can be read, and awaitEnd does not look for
// one.
func (a *api) awaitEnd(ctx context.Context, id string, requested uint64, secs int, withOutput bool) (executionDetail, error) {
	r := requestOf(ctx)
	late := time.NewTimer(time.Duration(secs) * time.Second)
	defer late.Stop()
	ended, stop := a.q.WatchEnd(r.tenant, id)
	defer stop()
	last := secs == 0
	for look := last || requested <= a.q.Applied() || a.q.Damage() != nil; ; look = true {
		if look {
			d, err := readCurrent(ctx, a, func() (projections.ExecutionDetail, error) { return a.execution(ctx, r.tenant, id) })
			if err != nil {
				return executionDetail{}, err
			}
			if last || d.Status.Terminal() {
				d.Warnings = append([]string{}, d.Warnings...)
				out := executionDetail{ExecutionDetail: d}
				if withOutput && d.Status.Terminal() {
					out.OutputHead, err = a.outputHead(ctx, r.tenant, d)
				}
				return out, err
			}
		}
		reads.From(ctx).Yield()
		select {
		case <-ended:
		case <-late.C:
			last = true
		case <-r.drain:
			last = true
		case <-ctx.Done():
			return executionDetail{}, ctx.Err()
		}
	}
}

// outputHead returns the beginning of the output of an execution that has ended, or nil if it
// was shredded.
func (a *api) outputHead(ctx context.Context, tenant string, d projections.ExecutionDetail) (*projections.OutputHead, error) {
	if head, without := projections.HeadWithoutOutput(d); without {
		return &head, nil
	}
	page, err := a.q.Output(ctx, tenant, d.ExecutionID, projections.HeadQuery())
	switch {
	case errors.Is(err, events.ErrShredded):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return new(projections.HeadOf(page)), nil
}
