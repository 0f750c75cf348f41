package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"daybook/ledger"
	"daybook/mcp"
)

// A large source over HTTP reaches the ledger as it was sent, in each form that a
// message can have, and broken ones are refused as small ones are.
func TestLargeCode(t *testing.T) {
	t.Parallel()
	var got string
	book := &fakeBook{submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
		got = s.Code
		return ledger.Receipt{ExecutionID: "one", Seq: 1}, nil
	}}
	s := book.serve(t, mcp.Options{})
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		_ = s.Close()
		srv.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	_, h, _ := post(t, srv.URL+"/mcp", initializeLine)
	session := []string{"Mcp-Session-Id", h.Get("Mcp-Session-Id")}
	const size = 1 << 20
	plain, escaped := strings.Repeat("ab", size), strings.Repeat(`\u0041\"\n`, size/4)
	for _, c := range []struct{ arguments, want string }{
		{`{"code":"` + plain + `"}`, plain},
		{` { "execution_timeout_secs" : 5, "code" : "` + escaped + `" } `, strings.Repeat("A\"\n", size/4)},
		{`{"code":"` + plain + `\ud800"}`, ""},
		{`{"code":"1","code":"` + plain + `"}`, ""},
		{`{"code":["` + plain + `"]}`, ""},
		{`{"code":"1","tags":{"a":"` + plain + `"}}`, "1"},
	} {
		got = ""
		_, _, body := post(t, srv.URL+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_js","arguments":`+c.arguments+`}}`, session...)
		if got != c.want || strings.Contains(body, `"isError":true`) != (c.want == "") {
			t.Errorf("%.60s: the code has %d bytes, want %d: %.300s", c.arguments, len(got), len(c.want), body)
		}
	}
}
