package translog

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// The log of a witness that does not answer contains no part of the secrets in its address.
func TestWitnessLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := unused.Addr().String()
	unused.Close() // no program listens there
	var log bytes.Buffer
	w, err := newWitness("http://TOKEN:SECRET@"+address+"/?key=SECRET", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	w.pause = time.Millisecond
	err = w.send(t.Context(), []byte("a checkpoint"))
	if err == nil {
		t.Fatal("a witness that does not exist accepted a checkpoint")
	}
	w.logFailure(context.Background(), err)
	if text := log.String(); !strings.Contains(text, address) || strings.Contains(text, "TOKEN") || strings.Contains(text, "SECRET") {
		t.Errorf("the log is %s", text)
	}
}
