package cli

import (
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/web/client"
	"daybook/projections"
)

// A fetch is shown as its request and its response.
func TestDescribeFetch(t *testing.T) {
	t.Parallel()
	asked := projections.FetchRequest{Method: "GET", URL: "https://example.com/a", Allowed: true, Status: 200}
	with := func(change func(*projections.FetchRequest)) projections.FetchRequest {
		r := asked
		change(&r)
		return r
	}
	for _, c := range []struct {
		name              string
		fetch             client.Fetch
		request, response string
	}{
		{"a response", client.Fetch{Requests: []projections.FetchRequest{asked}, ResponseBody: &events.FetchBody{Size: 1}}, `GET "https://example.com/a"`, "200, 1 byte"},
		{"no body", client.Fetch{Requests: []projections.FetchRequest{asked}}, `GET "https://example.com/a"`, "200"},
		{"a redirect", client.Fetch{Requests: []projections.FetchRequest{with(func(r *projections.FetchRequest) { r.Status = 302 }), asked}}, `GET "https://example.com/a"`, "200, after 1 redirect"},
		{"denied", client.Fetch{Requests: []projections.FetchRequest{with(func(r *projections.FetchRequest) { r.Allowed, r.Status, r.Rule = false, 0, "data.a" })}}, `GET "https://example.com/a"`, "denied by data.a"},
		{"failed", client.Fetch{Requests: []projections.FetchRequest{with(func(r *projections.FetchRequest) { r.Status = 0 })}}, `GET "https://example.com/a"`, "the result"},
		{"erased", client.Fetch{Requests: []projections.FetchRequest{with(func(r *projections.FetchRequest) { r.Method, r.URL = "", "" })}}, "the arguments", "200"},
		{"a long address", client.Fetch{Requests: []projections.FetchRequest{with(func(r *projections.FetchRequest) { r.URL = strings.Repeat("\x1b", 100) })}}, `GET "` + strings.Repeat(`\x1b`, 40) + `..."`, "200"},
	} {
		if request, response := describeFetch(&c.fetch, "the arguments", "the result"); request != c.request || response != c.response {
			t.Errorf("%s: %q, %q", c.name, request, response)
		}
	}
}
