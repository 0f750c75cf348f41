package retention_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// gate stops the appends of requests, which are encrypted below it, until it is opened.
type gate struct {
	ledger.Store
	reached, opened chan struct{}
	once            sync.Once
}

func (g *gate) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if e.Type == events.TypeExecutionRequested {
		close(g.reached)
		<-g.opened
	}
	return g.Store.Append(ctx, e, after)
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// settling opens the gate once a shred waits for the commands that use its keys.
type settling struct {
	retention.Keys
	*gate
}

func (s settling) Settle(ctx context.Context, ids []string) error {
	s.open()
	return s.Keys.Settle(ctx, ids)
}

// A request that is being recorded when its session is shredded is among the runs that the
// shred finds. The content of an accepted run is never lost.
func TestShredWaitsForRequests(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	v.leaves("s", "", "x")
	g := &gate{Store: v.store, reached: make(chan struct{}), opened: make(chan struct{})}
	behind := ledger.New(g, ledger.Options{Keys: v.keys, EncryptContent: true, Logger: storetest.Logger(t)})
	var (
		accepted  ledger.Receipt
		submitErr error
		submitted = make(chan struct{})
	)
	go func() {
		defer close(submitted)
		accepted, submitErr = behind.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "secret", Session: "s", Actor: actor})
	}()
	<-g.reached
	s := retention.NewShredder(retention.ShredOptions{Store: v.store, Keys: settling{v.keys, g}, Recorder: late{v.ledger, func() {
		g.open()
		<-submitted
	}}})
	_, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor)
	<-submitted
	if submitErr != nil {
		t.Fatal(submitErr)
	}
	var refused *retention.RefusedError
	if !errors.As(err, &refused) || len(v.shreds()) != 0 {
		t.Errorf("the shred did not see the run that was accepted before it: %v", err)
	}
	if got := v.source(accepted.ExecutionID); got != "secret" {
		t.Errorf("the content of the accepted run reads %q", got)
	}
}

// source returns the source of a run; empty if it cannot be read.
func (v *vault) source(id string) string {
	v.t.Helper()
	list, err := v.ledger.History(v.t.Context(), tenant, id)
	if err != nil || len(list) == 0 {
		v.t.Fatalf("run %s has %d events, %v", id, len(list), err)
	}
	return list[0].Data.(*events.ExecutionRequested).Content.Value().Source.Text
}

// Clients submit runs while the session is shredded again and again. Each accepted run is
// readable, or a recorded event says that it is shredded.
func TestSubmitsAgainstShreds(t *testing.T) {
	t.Parallel()
	v := openVault(t)
	const clients, each = 4, 25
	var (
		writers sync.WaitGroup
		mu      sync.Mutex
		ids     []string
	)
	for c := range clients {
		writers.Go(func() {
			for i := range each {
				r, err := v.ledger.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "secret", Session: "s", Actor: actor})
				if err != nil {
					t.Error(err)
					return
				}
				if err := v.ends(r.ExecutionID, int64(c*each+i)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids = append(ids, r.ExecutionID)
				mu.Unlock()
			}
		})
	}
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n, s := 0, v.shredder(v.keys)
		for {
			select {
			case <-stop:
				stopped <- n
				return
			default:
			}
			done, err := s.Shred(t.Context(), tenant, retention.Named("s"), false, actor)
			var refused *retention.RefusedError
			switch {
			case err == nil:
				n += done.Executions
			case !errors.As(err, &refused) && !errors.Is(err, events.ErrNotFound):
				t.Error(err)
			}
		}
	}()
	writers.Wait()
	close(stop)
	n := <-stopped
	done, err := v.shredder(v.keys).Shred(t.Context(), tenant, retention.Named("s"), false, actor)
	if err == nil {
		n += done.Executions
	}
	destroyed := map[string]bool{}
	for _, d := range v.shreds() {
		for _, id := range d.KeyIDs {
			destroyed[id] = true
		}
	}
	shredded := 0
	for _, id := range ids {
		list, err := v.ledger.History(t.Context(), tenant, id)
		if err != nil || len(list) == 0 {
			t.Fatalf("run %s has %d events, %v", id, len(list), err)
		}
		d := list[0].Data.(*events.ExecutionRequested)
		switch readable := d.Content.Value().Source.Text == "secret"; {
		case destroyed[events.ContentKeyID(d)]:
			shredded++
			if readable {
				t.Errorf("run %s is recorded as shredded and readable", id)
			}
		case !readable:
			t.Errorf("the content of run %s is lost", id)
		}
	}
	if len(ids) != clients*each || shredded != n {
		t.Errorf("%d runs; %d are shredded, and the shreds count %d", len(ids), shredded, n)
	}
}

// ends records the end and the session entry of a run in session s.
func (v *vault) ends(id string, index int64) error {
	end, err := v.store.Append(v.t.Context(), events.New(tenant, v.now, events.NewEnding(events.StatusCompleted, events.Ending{ExecutionID: id})), ledger.AnyPosition)
	if err != nil {
		return fmt.Errorf("record an end: %w", err)
	}
	entry := &events.SessionEntryRecorded{SessionID: events.SessionID(tenant, "s"), Session: "s", Index: index, ExecutionID: id, Status: events.StatusCompleted, TerminalSeq: end}
	_, err = v.store.Append(v.t.Context(), events.New(tenant, v.now, entry), ledger.AnyPosition)
	return err
}
