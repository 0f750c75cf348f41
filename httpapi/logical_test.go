package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"daybook/httpapi"
	"daybook/internal/tools/catalog"
)

// offered are two tools of one server.
type offered struct{}

func (offered) Entries(context.Context, string) (list []catalog.Entry) {
	for _, name := range []string{"search", "star"} {
		list = append(list, catalog.Entry{
			ID: "mcp.gh." + name, Source: "mcp.gh", Summary: name, Declaration: "declare const mcp: { readonly gh: { " + name + "(): void; }; };",
			Member: catalog.Member{Global: "mcp", Property: "gh", Text: name + "(): void;"},
		})
	}
	return list
}

// New entries of a session are declared once for each object, and the number of seeds
// has the same limit as in MCP.
func TestOpenLogicalSession(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *httpapi.Options) { o.Catalog = catalog.New(nil, offered{}) })
	var got struct {
		Declarations string
		Added        []struct{ Symbol, ID, Declaration string }
	}
	s.do("POST", "/api/logical-sessions", `{"intent":"declare","seeds":["mcp.gh"]}`, "Content-Type", "application/json").into(t, http.StatusOK, &got)
	if len(got.Added) != 2 || strings.Count(got.Declarations, "declare const mcp") != 1 || !strings.Contains(got.Declarations, "search(): void; // t1") || !strings.Contains(got.Declarations, "star(): void; // t2") {
		t.Errorf("%+v", got)
	}
	for n, want := range map[int]int{catalog.MaxSeeds: http.StatusOK, catalog.MaxSeeds + 1: http.StatusBadRequest} {
		body, err := json.Marshal(map[string]any{"intent": "many", "seeds": slices.Repeat([]string{"mcp.gh.star"}, n)})
		if err != nil {
			t.Fatal(err)
		}
		if a := s.do("POST", "/api/logical-sessions", string(body), "Content-Type", "application/json"); a.StatusCode != want || want != http.StatusOK && !strings.Contains(string(a.body), "at most 256") {
			t.Errorf("%d seeds: %d %s", n, a.StatusCode, a.body)
		}
	}
}
