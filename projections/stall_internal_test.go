package projections

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// feed is a Feed with a fixed list of events.
type feed []events.Event

// Follow implements Feed.
func (f feed) Follow(ctx context.Context, after uint64, fn func([]events.Event, uint64) error) error {
	for _, e := range f[after:] {
		if err := fn([]events.Event{e}, uint64(len(f))); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// A file that cannot grow stalls the read side, which reports that and resumes when
// there is space again.
func TestRunOutlastsAFullDisk(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "projections.db")})
	if err != nil {
		t.Fatal(err)
	}
	var list feed
	for i := range 50 {
		id := events.NewID(time.Now())
		list = append(list, events.Event{
			Seq: uint64(i + 1), ID: fmt.Sprint(i), Type: events.TypeExecutionRequested, Tenant: events.DefaultTenant, Time: time.Now(),
			Data: &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool,
				Content: events.Plain(events.RequestedContent{Source: events.Body{Text: strings.Repeat("x", 4096)}})},
		})
	}
	var pages int
	if err := s.writer.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		t.Helper()
		if _, err := s.writer.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count=%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages + 20)

	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, list) }()
	defer func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()

	err = s.Wait(ctx, uint64(len(list)))
	var unwritable *events.UnwritableError
	if !errors.As(err, &unwritable) || !strings.Contains(err.Error(), "the read side cannot be written: the disk is full") {
		t.Fatalf("Wait: %v, want the reason of the stall", err)
	}
	if got := s.StallError(); !errors.Is(got, err) {
		t.Errorf("Stalled: %v, want %v", got, err)
	}
	applied := s.Applied()
	if applied == 0 || applied >= uint64(len(list)) {
		t.Fatalf("%d of %d events are applied", applied, len(list))
	}
	var rows uint64
	if err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM executions").Scan(&rows); err != nil || rows != applied {
		t.Errorf("%d executions can be read, %v; want %d", rows, err, applied)
	}

	limit(1 << 30)
	for s.Applied() < uint64(len(list)) {
		changed := s.NextCommit()
		if s.Applied() == uint64(len(list)) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%d of %d events are applied, although there is space: %v", s.Applied(), len(list), s.StallError())
		}
	}
	if err := s.StallError(); err != nil {
		t.Errorf("Stalled: %v, although events are applied", err)
	}
}
