package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/runner"
)

// A runner takes the requests of a volume before that is archived, also those that it returned, and
// continues when another process has archived it.
func TestWorkOfArchivedVolumes(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	other := storetest.Open(t, server, jetstream.Options{})
	ended := func(id string) {
		mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id, Attempt: 1}}), 0)
	}
	returned := newID()
	mustAppend(t, s, requested(returned), 0)
	seal(t, s)
	archived := func(n events.Volume) error {
		_, err := s.Archive(t.Context(), stream.ArchiveOptions{Volume: n, PendingWork: s.PendingWork})
		return err
	}
	refused := func(when string) {
		t.Helper()
		if _, ok := errors.AsType[*stream.NotArchivableError](archived(1)); !ok {
			t.Errorf("the volume is archived %s", when)
		}
	}
	refused("with a request that waits")
	taken := make(chan runner.Delivery, 10)
	hold, end := make(chan struct{}), make(chan struct{})
	consume(t, other, 2, func(ctx context.Context, d runner.Delivery) {
		taken <- d
		if d.Event.About() == returned && d.Delivered == 1 {
			<-hold
			if err := d.Nak(ctx, 100*time.Millisecond); err != nil {
				t.Error(err)
			}
			return
		}
		if d.Event.About() == returned {
			<-end
		}
		ended(d.Event.About())
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	})
	<-taken
	refused("with a request in the hands of a runner")
	close(hold)
	refused("with a returned request")
	close(end)
	if d := <-taken; d.Event.About() != returned || d.Delivered != 2 {
		t.Errorf("delivery %d of %s", d.Delivered, d.Event.About())
	}
	until(t, "the volume is archived", func() bool { return archived(1) == nil })
	for range 3 { // the runner continues, in each later volume
		id := newID()
		mustAppend(t, s, requested(id), 0)
		if d := <-taken; d.Event.About() != id {
			t.Errorf("taken %s, want %s", d.Event.About(), id)
		}
		n := seal(t, s).Number
		until(t, "the volume is archived", func() bool { return archived(n) == nil })
	}
}
