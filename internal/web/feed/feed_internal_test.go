package feed

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
	"daybook/projections"
)

// silentLog is a ledger without new events.
type silentLog struct{ EventLog }

func (silentLog) Follow(ctx context.Context, _ uint64, _ func([]events.Event, uint64) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// Removed events are not held by the arrays of the feed's slices: many small events
// make a long array, which would hold as many large events later.
func TestFeedsReleaseRemovedEvents(t *testing.T) {
	t.Parallel()
	feed := NewEvents(silentLog{}, nil)
	feed.limit = 1
	f := feed.Join(t.Context(), "a", 0)
	defer f.Leave()
	f.audience.kept, feed.order = make([]*Event, 0, 8), make([]*audience, 0, 8)
	kept, order := f.audience.kept[:3], feed.order[:3]
	for seq := range uint64(3) {
		e := events.New("a", time.Now(), &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool})
		e.Seq = seq + 1
		if err := feed.add(f.reading, []events.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(kept, make([]*Event, 3)) || !slices.Equal(order, make([]*audience, 3)) || f.audience.since != 3 || feed.size != 0 {
		t.Errorf("events are held: %v, of %v, since %d", kept, order, f.audience.since)
	}

	outputs := NewOutput(nil, nil)
	run := &Run{kept: make([]Line, 0, 8), changed: make(chan struct{})}
	lines := run.kept[:3]
	large := bytes.Repeat([]byte("x"), outputBytes)
	outputs.add(run, []Line{large, large, large}, events.StatusRunning, nil)
	if lines[0] != nil || lines[1] != nil || lines[2] == nil || run.first != 2 {
		t.Errorf("lines before the line %d are held", run.first)
	}
}

// endedRun is an ended run with less output than a follower has received.
type endedRun struct{ Queries }

func (endedRun) Lines(context.Context, string, string, int64, int) ([]projections.OutputLine, events.Status, error) {
	return nil, events.StatusCompleted, nil
}

// A follower that is behind is notified of the end of a run, even if the last attempt
// wrote less output than the one before.
func TestFollowerBehindGetsTheEnd(t *testing.T) {
	t.Parallel()
	outputs := NewOutput(endedRun{}, reads.New(reads.Options{}))
	lines, status, err := outputs.Stored(t.Context(), &Run{runKey: runKey{"a", "x"}}, 7)
	if len(lines) != 0 || status != events.StatusCompleted || err != nil {
		t.Errorf("%d lines, %q, %v", len(lines), status, err)
	}
}
