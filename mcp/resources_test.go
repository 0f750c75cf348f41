package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
)

// TestResources reads what tools answer, by address.
func TestResources(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "täglich 100%")
	p.initialize()
	var templates struct {
		ResourceTemplates []struct{ URITemplate string }
	}
	if err := json.Unmarshal(p.call("resources/templates/list", `{}`), &templates); err != nil || len(templates.ResourceTemplates) != 4 {
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
