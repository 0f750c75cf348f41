package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Deadlines and bounds of a connection.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader bounds the header of a request with its address, in bytes. It holds a
	// bearer token of the largest size and 4 KiB of other fields. net/http reads 4 KiB
	// more before it refuses a header. Package connections bounds the number of fields.
	maxHeader = 20 << 10
)

type drainKey struct{}

// NewServer returns a server for addr with every limit set. The caller runs it
// (Serve or ListenAndServe). Shutdown ends event streams at once, for their
// clients to resume elsewhere, and waits for the other requests.
//
// There is no overall write timeout, since streams have no end; the handler
// made by New moves a deadline with the progress of the client instead (Pace).
func NewServer(addr string, handler http.Handler) *http.Server {
	drain := make(chan struct{})
	base := context.WithValue(context.Background(), drainKey{}, (<-chan struct{})(drain))
	srv := &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	var once sync.Once
	srv.RegisterOnShutdown(func() { once.Do(func() { close(drain) }) })
	return srv
}

// draining returns the channel that is closed when the server shuts down; nil
// when the request did not come through a server made by NewServer.
func draining(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return c
}

// untilDrained cancels standing streams of mounted handlers when the server
// shuts down; requests with an effect are left to finish.
func untilDrained(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain := draining(r.Context())
		if drain == nil || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-drain:
				cancel()
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
