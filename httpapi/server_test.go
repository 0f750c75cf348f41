package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"daybook/httpapi"
)

// All limits of a server are set except those that would cut a stream.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	srv := httpapi.NewServer("127.0.0.1:0", http.NotFoundHandler())
	if srv.ReadHeaderTimeout <= 0 || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 || srv.Addr != "127.0.0.1:0" {
		t.Errorf("a limit is missing: %+v", srv)
	}
	if srv.WriteTimeout != 0 || srv.ReadTimeout != 0 {
		t.Errorf("streams would be cut: %v, %v", srv.WriteTimeout, srv.ReadTimeout)
	}
}

// Streams of mounted handlers end when the server shuts down. Requests with an effect
// may finish.
func TestShutdownAndMounts(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 2)
	finish := make(chan struct{})
	h := newBareHandler(t, func(o *httpapi.Options) {
		o.Mounts = map[string]http.Handler{"/mcp": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- r.Method
			select {
			case <-r.Context().Done():
				w.WriteHeader(http.StatusGone)
			case <-finish:
				w.WriteHeader(http.StatusOK)
			}
		})}
	})
	ts := httptest.NewUnstartedServer(h)
	ts.Config = httpapi.NewServer("", h)
	ts.Start()
	defer ts.Close()
	answered := map[string]chan int{http.MethodGet: make(chan int, 1), http.MethodPost: make(chan int, 1)}
	for method, status := range answered {
		go func() {
			req, err := http.NewRequest(method, ts.URL+"/mcp", nil)
			if err != nil {
				status <- -1
				return
			}
			resp, err := ts.Client().Do(req)
			if err != nil {
				status <- -1
				return
			}
			resp.Body.Close()
			status <- resp.StatusCode
		}()
	}
	<-arrived
	<-arrived
	down := make(chan error, 1)
	go func() { down <- ts.Config.Shutdown(t.Context()) }()
	select {
	case got := <-answered[http.MethodGet]:
		if got != http.StatusGone {
			t.Errorf("GET: %d, want the handler to see its context end", got)
		}
	case <-time.After(patience):
		t.Fatal("GET did not end")
	}
	// The other request is still running: its context is not done.
	close(finish)
	if got := <-answered[http.MethodPost]; got != http.StatusOK {
		t.Errorf("POST: %d, want 200", got)
	}
	if err := <-down; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}
