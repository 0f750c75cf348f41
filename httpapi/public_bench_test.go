package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// publicPaths are the paths that need no token, or a token without scopes.
var publicPaths = []string{"/healthz", "/readyz", "/openapi.json", "/docs"}

// discard is a response writer that keeps no body.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// Requests that clients without a token may send are cheap: documents are computed
// once.
func TestPublicPathsAreCheap(t *testing.T) { //nolint:paralleltest // counts allocations
	h := newBareHandler(t)
	for _, path := range publicPaths {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		h.ServeHTTP(discard{http.Header{}}, r)
		if n := testing.AllocsPerRun(20, func() { h.ServeHTTP(discard{http.Header{}}, r) }); n > 150 {
			t.Errorf("GET %s allocates %.0f times", path, n)
		}
	}
}

func BenchmarkPublicPaths(b *testing.B) {
	h := newBareHandler(b)
	for _, path := range publicPaths {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
			for b.Loop() {
				h.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}
