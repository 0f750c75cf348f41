package mcp_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// TestResources reads the answers of tools by address.
func TestResources(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "täglich 100%")
	p.initialize()
	var templates struct {
		ResourceTemplates []struct{ URITemplate string }
	}
	if err := json.Unmarshal(p.call("resources/templates/list", `{}`), &templates); err != nil || len(templates.ResourceTemplates) != 8 {
		t.Fatalf("templates: %+v, %v", templates, err)
	}
	var run struct {
		ExecutionID string `json:"execution_id"`
	}
	if err := json.Unmarshal(p.tool("run_js", `{"code":"console.log(\"hi\")\n7"}`).StructuredContent, &run); err != nil {
		t.Fatal(err)
	}
	heap := *book.await(t, run.ExecutionID).Heap
	for _, c := range []struct{ uri, mime, want string }{
		{"execution://" + run.ExecutionID, "application/json", `"result":"7"`},
		{"execution://" + run.ExecutionID + "/output", "text/plain; charset=utf-8", "hi\n"},
		{"heap://" + heap, "application/json", run.ExecutionID},
		{"session://t%C3%A4glich%20100%25", "application/json", `"output_heap":"` + heap},
	} {
		var res struct {
			Contents []struct{ URI, MIMEType, Text string }
		}
		if err := json.Unmarshal(p.call("resources/read", `{"uri":`+mustJSON(t, c.uri)+`}`), &res); err != nil {
			t.Fatal(err)
		}
		if len(res.Contents) != 1 || res.Contents[0].URI != c.uri || res.Contents[0].MIMEType != c.mime || !strings.Contains(res.Contents[0].Text, c.want) {
			t.Errorf("%s: %+v, want %s with %s", c.uri, res, c.mime, c.want)
		}
	}
	for _, uri := range []string{
		"execution://0192f0c1-0000-7000-8000-000000000000", "execution://nonsense/output", "heap://" + events.Hash([]byte("no such")),
		"session://nobody", "session://", "session://%zz", "file:///etc/passwd", "", "execution://\x00\xff",
	} {
		p.send(`{"jsonrpc":"2.0","id":"r","method":"resources/read","params":{"uri":` + mustJSON(t, uri) + `}}`)
		var e struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(p.receive()["error"], &e); err != nil || e.Code != -32602 && e.Code != -32002 || goDetail.MatchString(e.Message) {
			t.Errorf("%q: %+v, %v", uri, e, err)
		}
	}
}

// TestSubscriptions watches addresses with the methods of both kinds of revisions.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for transport, open := range transports {
			if transport == "sse" {
				continue
			}
			t.Run(transport+"/"+revision, func(t *testing.T) {
				t.Parallel()
				book := openStack(t, ledger.Options{})
				s := book.serve(t, mcp.Options{})
				updated := make(chan string, 100)
				c := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "3"}, &sdk.ClientOptions{
					ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
				})
				cs, err := c.Connect(t.Context(), open(t, s, "watched"), &sdk.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatalf("connect: %v", err)
				}
				a := agent{t, book, cs}
				waits := a.run(map[string]any{"code": "await forever"})
				heap := *book.await(t, a.run(map[string]any{"code": "1"})).Heap
				// The execution comes first: when the notifications for the others arrive, it is watched
				// too.
				for _, uri := range []string{"execution://" + waits, "heap://" + heap, "session://watched"} {
					if err := cs.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
						t.Fatalf("subscribe to %s: %v", uri, err)
					}
				}
				seen := map[string]bool{}
				until := func(uri string, change func()) {
					t.Helper()
					deadline := time.After(30 * time.Second)
					for !seen[uri] {
						change()
						select {
						case u := <-updated:
							seen[u] = true
						case <-time.After(500 * time.Millisecond): // a subscription takes effect some time after its answer
						case <-deadline:
							t.Fatalf("not notified of %s", uri)
						}
					}
				}
				n := 0
				rerun := func() {
					n++
					book.await(t, a.run(map[string]any{"code": "1", "tags": map[string]string{"n": strconv.Itoa(n)}}))
				}
				until("heap://"+heap, rerun)
				until("session://watched", rerun)
				var once sync.Once
				until("execution://"+waits, func() {
					once.Do(func() {
						var ok struct{ OK bool }
						a.call("cancel_execution", map[string]any{"execution_id": waits}, &ok)
					})
				})
				if err := cs.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

// TestSubscribeToUnknownAddress checks that a subscription to an unknown address is refused.
func TestSubscribeToUnknownAddress(t *testing.T) {
	t.Parallel()
	p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
	p.initialize()
	for _, uri := range []string{"execution://nonsense", "heap://" + events.Hash(nil), "file:///x", ""} {
		p.send(`{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":` + mustJSON(t, uri) + `}}`)
		if m := p.receive(); m["error"] == nil || goDetail.Match(m["error"]) {
			t.Errorf("%q: %s", uri, m)
		}
	}
}

// Checks of a watched session log do not read it: each check would cost more than the
// one before.
func TestWatchReadsNoEntries(t *testing.T) {
	t.Parallel()
	looks := 0
	book := &fakeStack{
		entries: func() []projections.Entry {
			t.Error("the watch reads the log")
			return nil
		},
		count: func() int64 {
			looks++
			return 3
		},
	}
	p := openPipe(t, book.serve(t, mcp.Options{}), "")
	p.initialize()
	p.send(`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"session://build"}}`)
	if m := p.receive(); m["error"] != nil || looks == 0 {
		t.Errorf("after %d checks: %s", looks, m["error"])
	}
}
