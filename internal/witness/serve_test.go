package witness_test

import (
	"context"
	"net"
	"testing"

	"daybook/internal/witness"
)

// serve serves a witness on loopback. stop ends it; the end of the test does too.
func serve(t *testing.T, w *witness.Witness) (url string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, listener) }()
	done := false
	stop = func() {
		cancel()
		if done {
			return
		}
		done = true
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return "http://" + listener.Addr().String(), stop
}
