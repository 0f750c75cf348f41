package jetstream_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
)

// A server is silent while it sends nothing, and answers again once it does, also if
// the connection broke while an answer was awaited.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	s, n, _ := unreliable(t, jetstream.Options{Client: jet.Options{Server: "ledger.test:4222"}})
	if err := s.Silent(); err != nil {
		t.Fatalf("a server that answers: %v", err)
	}
	n.lose()
	until(t, "the server is silent", func() bool { return s.Silent() != nil })
	// Nothing is sent to it: that would fill the connection and lock it.
	sent := n.sent.Load()
	began := time.Now()
	_, err := s.LastSeq(t.Context())
	why, ok := errors.AsType[*events.NoAnswerError](err)
	if !ok || why.Server != "ledger.test:4222" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request to a silent server: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a silent server is waited for: %v", took)
	}
	began = time.Now()
	if err := s.AwaitAnswers(t.Context()); !errors.As(err, &why) {
		t.Errorf("AwaitAnswers of a silent server: %v", err)
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > 3*time.Second {
		t.Errorf("AwaitAnswers takes %v", took)
	}
	appended := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), started(newID(), 1), -1)
		appended <- err
	}()
	pings := n.pings.Load()
	until(t, "the server is asked twice more", func() bool { return n.pings.Load() >= pings+2 })
	if sent = n.sent.Load() - sent; sent > 0 {
		t.Errorf("%d bytes are sent to a silent server", sent)
	}
	n.heal()
	until(t, "the server answers again", func() bool { return s.Silent() == nil })
	if err := s.AwaitAnswers(t.Context()); err != nil {
		t.Errorf("AwaitAnswers once the server is back: %v", err)
	}
	if _, err := s.LastSeq(t.Context()); err != nil {
		t.Errorf("a request once the server is back: %v", err)
	}
	if err := <-appended; err != nil {
		t.Errorf("an append that waited for the server: %v", err)
	}
}

// A write to a hanging server locks the connection. Readers get an answer soon
// nevertheless.
func TestSilenceOfAFullConnection(t *testing.T) {
	t.Parallel()
	tier.NightlyOnly(t, "a silent server is asked nothing: TestSilenceEnds")
	_, n, _ := unreliable(t, jetstream.Options{})
	dial := func(name string) *jet.Conn {
		c, err := jet.Connect("nats://"+n.listener.Addr().String(), name, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	conn := dial("publish")
	s, err := jetstream.Open(t.Context(), conn, dial("consume"), jetstream.Options{Client: jet.Options{Server: "ledger.test:4222", Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	n.jam()
	began := time.Now()
	jammed := make(chan struct{})
	go func() {
		defer close(jammed)
		for payload := make([]byte, 1<<19); conn.Publish("nothing", payload) == nil; {
		}
	}()
	for s.Silent() == nil {
		_, err := s.LastSeq(t.Context())
		if took := time.Since(began); took > 25*time.Second { // ten times the time after which a server is silent
			t.Fatalf("a request to a hanging server takes until %v: %v", took, err)
		}
	}
	began = time.Now()
	if _, err := s.LastSeq(t.Context()); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("a request to a silent server takes %v: %v", time.Since(began), err)
	}
	<-jammed
	n.heal()
	until(t, "the server answers again", func() bool { return s.Silent() == nil })
}

// until waits until reached returns true.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); !reached(); {
		if time.Now().After(late) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
