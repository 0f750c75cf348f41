package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/ledger"
	"daybook/projections"
)

// countedReads counts how often the bytes of artifacts are read.
type countedReads struct {
	httpapi.Queries
	n atomic.Int64
}

func (c *countedReads) ArtifactBytes(ctx context.Context, tenant string, f projections.Artifact) ([]byte, error) {
	c.n.Add(1)
	return c.Queries.ArtifactBytes(ctx, tenant, f)
}

// Answers without a body come from the record of an artifact; its bytes are not read.
func TestArtifactHeadersDoNotReadTheBytes(t *testing.T) {
	t.Parallel()
	reads := &countedReads{}
	s := start(t, func(o *httpapi.Options) { reads.Queries, o.Queries = o.Queries, reads })
	id := s.submit(`{"code":"1"}`)
	run := s.begin(id)
	const content = "0123456789"
	if err := s.ledger.RecordArtifact(t.Context(), run.run, ledger.Artifact{Number: 1, Name: "a.txt", MIME: "text/plain", Bytes: []byte(content), Line: 1, At: time.UnixMilli(0)}); err != nil {
		t.Fatal(err)
	}
	run.finish(events.StatusCompleted, "1", "")
	etag := `"` + events.Hash([]byte(content)) + `"`
	for _, tt := range []struct {
		method string
		header []string
		status int
		length string
		body   string
		reads  int64
	}{
		{"GET", nil, 200, "10", content, 1},
		{"HEAD", nil, 200, "10", "", 0},
		{"HEAD", []string{"Range", "bytes=2-4"}, 206, "3", "", 0},
		{"HEAD", []string{"If-None-Match", etag}, 304, "", "", 0},
		{"GET", []string{"If-None-Match", etag}, 304, "", "", 0},
		{"GET", []string{"If-None-Match", `"x", W/` + etag}, 304, "", "", 0},
		{"GET", []string{"If-None-Match", "*"}, 304, "", "", 0},
		{"GET", []string{"If-None-Match", `"x"`}, 200, "10", content, 1},
		{"GET", []string{"If-None-Match", `"*"`}, 200, "10", content, 1},
		{"GET", []string{"Range", "bytes=2-4"}, 206, "3", "234", 1},
		{"GET", []string{"Range", "bytes=-2"}, 206, "2", "89", 1},
		{"GET", []string{"Range", "bytes=2-4", "If-None-Match", etag}, 304, "", "", 0},
	} {
		before := reads.n.Load()
		got := s.do(tt.method, "/api/executions/"+id+"/artifacts/a.txt", "", tt.header...)
		what := fmt.Sprint(tt.method, " ", tt.header)
		if got.StatusCode != tt.status || string(got.body) != tt.body || got.Header.Get("Content-Length") != tt.length || got.Header.Get("ETag") != etag {
			t.Errorf("%s: %s %q, %v", what, got.Status, got.body, got.Header)
		}
		if n := reads.n.Load() - before; n != tt.reads {
			t.Errorf("%s: the bytes were read %d times, want %d", what, n, tt.reads)
		}
	}
	s.do(http.MethodHead, "/api/executions/"+id+"/artifacts/b.txt", "").into(t, http.StatusNotFound, nil)
}
