package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Timeouts and limits of a connection.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// maxHeader bounds the header of a request, including the line with the address, in
	// bytes. There is space for a bearer token of the largest size and 4 KiB of other
	// fields. net/http reads 4 KiB more before it refuses a header. Package connections
	// bounds the number of fields.
	maxHeader = 20 << 10
)

type drainKey struct{}

// NewServer returns a server for addr with all limits set. The caller runs it with
// Serve or ListenAndServe. Shutdown ends event streams at once, so that their clients
// can resume elsewhere, and waits for the other requests.
//
// There is no overall write timeout, because streams have no end. The handler of New
// extends a deadline with the progress of the client instead (Pace).
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

// drainOf returns the channel that is closed when the server shuts down. It returns
// nil for a request to a server that NewServer did not create.
func drainOf(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(drainKey{}).(<-chan struct{})
	return c
}

// cancelOnDrain cancels GET requests of mounted handlers when the server shuts down,
// because they may be streams. Other requests may finish: they may have an effect.
func cancelOnDrain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		drain := drainOf(r.Context())
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
