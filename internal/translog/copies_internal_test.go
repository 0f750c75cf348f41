package translog

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The log of a witness that does not answer contains no part of the secrets in its address.
func TestWitnessLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	const address = "192.0.2.1:8080"
	var log bytes.Buffer
	w, err := newCopySender("http://TOKEN:SECRET@"+address+"/?key=SECRET", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.pause = time.Millisecond
	w.client.Transport = noConnection{}
	w.send(t.Context(), []byte("a checkpoint"))
	if w.failed != copyTries {
		t.Fatalf("%d attempts failed", w.failed)
	}
	if text := log.String(); !strings.Contains(text, address) || strings.Contains(text, "TOKEN") || strings.Contains(text, "SECRET") {
		t.Errorf("the log is %s", text)
	}
}

// noConnection fails like the transport of a server that is not reached.
type noConnection struct{}

func (noConnection) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// transport answers requests without a body.
type transport func(body string) (status int)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: f(string(body)), Body: http.NoBody, Request: r}, nil
}

// A checkpoint that replaces another gets all its attempts. A witness that fails is logged also
// while each checkpoint is replaced before its last attempt.
func TestWitnessTriesNewerCheckpoint(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w, err := newCopySender("http://192.0.2.1/", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.pause = time.Millisecond
	var sent []string
	w.client.Transport = transport(func(body string) int {
		sent = append(sent, body)
		switch len(sent) {
		case copyTries - 1:
			w.offer([]byte("new"))
		case 2*copyTries - 1:
			return http.StatusOK
		}
		return http.StatusBadGateway
	})
	w.send(t.Context(), []byte("old"))
	if got := strings.Join(sent, " "); got != "old old new new new" || w.failed != 0 {
		t.Errorf("sent %s; %d attempts failed since the last success", got, w.failed)
	}
	log.Reset()
	sent = nil
	w.client.Transport = transport(func(body string) int {
		if sent = append(sent, body); len(sent) < 10 {
			w.offer([]byte("new"))
		}
		return http.StatusBadGateway
	})
	w.send(t.Context(), []byte("old"))
	if n := strings.Count(log.String(), "does not accept checkpoints"); n != 1 || len(sent) != 9+copyTries {
		t.Errorf("%d lines in the log after %d attempts", n, len(sent))
	}
}

// Several goroutines offer copies without waiting for each other, also when nothing sends them.
func TestOfferNeverWaits(t *testing.T) {
	t.Parallel()
	w, err := newCopySender("http://127.0.0.1:1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var offering sync.WaitGroup
	for range 4 {
		offering.Go(func() {
			for range 1000 {
				w.offer([]byte("checkpoint"))
			}
		})
	}
	offering.Wait()
	if got := string(<-w.next); got != "checkpoint" {
		t.Errorf("queued %q", got)
	}
}
