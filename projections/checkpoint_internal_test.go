package projections

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// Pages move from the log to the file without a commit that moves them.
func TestCheckpointsAreApartFromCommits(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "projections.db")})
	if err != nil {
		t.Fatal(err)
	}
	const size = 4 << 10
	var list feed
	for i := range 2 * minCheckpointPages / initialPagesPerEvent {
		list = append(list, events.Event{
			Seq: uint64(i + 1), ID: fmt.Sprint(i), Type: events.TypeExecutionRequested, Tenant: events.DefaultTenant, Time: time.Now(),
			Data: &events.ExecutionRequested{ExecutionID: events.NewID(time.Now()), Pool: events.DefaultPool,
				Content: events.Plain(events.RequestedContent{Source: events.Body{Text: strings.Repeat("x", size)}})},
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, list) }()
	for {
		info, err := os.Stat(s.opts.Path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= minCheckpointPages/initialPagesPerEvent*size {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the file has %d bytes after %d events", info.Size(), s.appliedEvents())
		}
		time.Sleep(time.Millisecond) // polls the file
	}
	stop()
	<-ended
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Pages that a query kept in the log are moved after the query, even if no event
// follows.
func TestCheckpointsAreRepeated(t *testing.T) {
	t.Parallel()
	log := logEstimate{perEvent: initialPagesPerEvent}
	for _, step := range []struct {
		now         uint64
		due         bool
		pages, left int
	}{
		{now: minCheckpointPages/initialPagesPerEvent - 1},
		{now: 250, due: true, pages: 3000, left: 3000}, // a query needs all of them
		{now: 250, due: true, pages: 3000, left: 2400},
		{now: 250, due: true, pages: 3000},
		{now: 250},
		{now: 300},
		{now: 250 + minCheckpointPages/12 + 1, due: true, pages: 1000, left: 120}, // 12 pages per event
		{now: 250 + minCheckpointPages/12 + 2},
	} {
		if got := log.isDue(step.now); got != step.due {
			t.Fatalf("after %d events a checkpoint is due: %v; %+v", step.now, got, log)
		}
		if step.due {
			log.learn(step.now, step.pages, step.left)
		}
	}
}

// Between two checkpoints that left pages, a commit empties the log. The estimate of the
// pages per event does not become lower.
func TestCheckpointsAfterACommitEmptiedTheLog(t *testing.T) {
	t.Parallel()
	log := logEstimate{perEvent: initialPagesPerEvent}
	log.learn(1000, 8000, 20)
	if log.learn(1125, 200, 20); log.isDue(1225) || !log.isDue(1250) {
		t.Errorf("of a log with 8 pages an event, %+v", log)
	}
	if log.learn(1250, 1200, 0); log.perEvent != 8 || log.isDue(1374) || !log.isDue(1375) {
		t.Errorf("once all are moved, %+v", log)
	}
}
