package attack_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Clients that submit runs over HTTP/2 and reset the stream slow another tenant only within
// the limit of compare, as do clients that submit runs over HTTP/1.1 and do not wait for
// them: the runs are recorded, so they share the slots with those of other tenants.
func TestResetRuns(t *testing.T) {
	attack(t, "TestIdleFrames and TestSurplus in internal/web/connections, TestShareOfARecordingTenant in internal/web/access")
	s := newServer(t)
	s.certify(t)
	s.start()
	quiet, loud := s.token("alone", "read,run"), s.token("loud", "read,run")
	alone := s.baseline(quiet)
	body := []byte(`{"code":"1"}`)
	header := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: s.addr}, {Name: ":path", Value: "/api/exec"},
		{Name: "content-type", Value: "application/json"}, {Name: "content-length", Value: fmt.Sprint(len(body))}, {Name: "authorization", Value: "Bearer " + loud}}
	for _, a := range []struct {
		name   string
		resets bool
		behind int // number of further runs that are submitted before a stream is reset
	}{{"over HTTP/1.1", false, 0}, {"and reset at once", true, 0}, {"and reset later", true, 8}} {
		t.Run(a.name, func(t *testing.T) {
			var sending sync.WaitGroup
			var resets atomic.Int64
			earlier := s.newestRun(loud)
			ctx, stop := context.WithCancel(t.Context())
			for range 16 {
				if !a.resets {
					sending.Go(func() { s.submitInLoop(ctx, loud, string(body)) })
					continue
				}
				c := s.dialHTTP2(t, nil, false)
				context.AfterFunc(ctx, func() { c.Close() })
				sending.Go(func() {
					var open []uint32
					for c.err == nil {
						stream := c.next
						c.next += 2
						c.frame(&http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.encode(header), EndHeaders: true})
						c.framer.WriteData(stream, true, body)
						if open = append(open, stream); len(open) > a.behind {
							c.reset(open[0])
							resets.Add(1)
							open = open[1:]
						}
						if err := c.out.Flush(); err != nil { // the connection is closed
							c.err = err
						}
					}
				})
			}
			time.Sleep(2 * time.Second) // until the connections have used their free processor time
			began, cpu, workers := time.Now(), s.cpu(), s.workersCPU()
			var took, asked, queued []time.Duration
			for range choose(10, 50) {
				start := time.Now()
				id := s.submit(quiet, "1", nil)
				asked = append(asked, time.Since(start))
				e := s.wait(quiet, id)
				took = append(took, time.Since(start))
				ms, _ := e["queued_ms"].(float64)
				queued = append(queued, time.Duration(ms)*time.Millisecond)
				if e["status"] != "completed" {
					t.Fatalf("a run of 1 answers %v", e)
				}
			}
			lasted, used, worked := time.Since(began), s.cpu()-cpu, s.workersCPU()-workers
			newest := s.newestRun(loud)
			stop()
			sending.Wait()
			if newest == earlier {
				t.Error("no run of the other tenant is recorded")
			}
			t.Logf("%d streams were reset", resets.Load())
			if a.resets && resets.Load() == 0 {
				t.Error("no stream was reset")
			}
			for _, list := range [][]time.Duration{took, asked, queued} {
				slices.Sort(list)
			}
			t.Logf("in %v the server used %v of the processors, its workers %v", lasted, used, worked)
			t.Logf("from submission to end p50 %v p99 %v, request p50 %v p99 %v, queue p50 %v p99 %v",
				percentile(took, 50), percentile(took, 99), percentile(asked, 50), percentile(asked, 99), percentile(queued, 50), percentile(queued, 99))
			s.compare("runs that are submitted "+a.name, alone, took)
		})
	}
}

// newestRun returns the id of a tenant's newest run, or "".
func (s *server) newestRun(token string) string {
	s.t.Helper()
	list, _ := s.call(token, http.MethodGet, "/api/executions?limit=1", nil, http.StatusOK)["executions"].([]any)
	if len(list) == 0 {
		return ""
	}
	id, _ := list[0].(map[string]any)["execution_id"].(string)
	return id
}

// submitInLoop submits runs over an HTTP/1.1 connection until ctx is done. The answers may
// be refusals.
func (s *server) submitInLoop(ctx context.Context, token, body string) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for ctx.Err() == nil {
		req, err := s.request(ctx, token, http.MethodPost, "/api/exec", body)
		if err != nil {
			s.t.Error(err)
			return
		}
		resp, err := client.Do(req)
		switch {
		case err == nil:
			discard(resp)
		case ctx.Err() == nil:
			s.t.Error(err)
			return
		}
	}
}
