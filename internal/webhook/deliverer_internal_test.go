package webhook

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"daybook/events"
)

// soleEvent is a ledger with one event to read. Events that it stores are applied at once.
type soleEvent struct {
	Feed
	Journal
	event   events.Event
	service *Service
}

func (l *soleEvent) Read(context.Context, uint64, int) ([]events.Event, error) {
	return []events.Event{l.event}, nil
}

func (l *soleEvent) Append(_ context.Context, e events.Event, _ int64) (uint64, error) {
	e.Seq = 100
	l.service.advance([]events.Event{e})
	return e.Seq, nil
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A receiver that answers 410 Gone to a dead letter gets no further attempt of the event
// that waits for its next attempt meanwhile.
func TestDisabledDuringPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := events.New(events.DefaultTenant, time.Now(), &events.ExecutionRequested{ExecutionID: "dead"})
		dead.Seq = 1
		ledger := &soleEvent{event: dead}
		h := newHook(events.Event{Tenant: events.DefaultTenant}, &events.WebhookRegistered{WebhookID: "hook", Content: events.Plain(events.WebhookContent{URL: "http://192.0.2.1/"})})
		h.letters[dead.Seq] = &letter{event: &events.WebhookDeadLettered{EventSeq: dead.Seq}}
		s := &Service{opts: Options{Journal: ledger, Feed: ledger, Attempts: 3, BackoffFirst: time.Minute, BackoffMax: time.Minute}, hooks: map[string]*hook{h.id: h}, appliedChanged: make(chan struct{})}
		ledger.service = s
		attempts := map[string]int{}
		c := &deliverer{s: s, h: h, client: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			id, status := r.Header.Get(headerID), http.StatusInternalServerError
			if attempts[id]++; id == dead.ID {
				status = http.StatusGone
			}
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
		})}}
		ended := make(chan error, 1)
		go func() {
			done, err := c.deliver(t.Context(), parcel{seq: 2, kind: events.TypeExecutionRequested, message: message{id: "next"}})
			if done {
				t.Error("the event counts as delivered")
			}
			ended <- err
		}()
		synctest.Wait() // the deliverer pauses
		s.mu.Lock()
		h.letters[dead.Seq].retrying = true
		h.wake()
		s.mu.Unlock()
		if err := <-ended; err != nil || !c.isDisabled() || attempts[dead.ID] != 1 || attempts["next"] != 1 {
			t.Errorf("%d attempts of the dead letter and %d of the next event, %v", attempts[dead.ID], attempts["next"], err)
		}
	})
}
