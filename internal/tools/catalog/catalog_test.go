package catalog_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/internal/tools/catalog"
)

type fixed []catalog.Entry

func (f fixed) Entries(context.Context, string) []catalog.Entry { return f }

func ids(list []catalog.Entry) (names []string) {
	for _, e := range list {
		names = append(names, e.ID)
	}
	return names
}

func snapshot(t *testing.T) *catalog.Snapshot {
	t.Helper()
	servers := fixed{
		{ID: "mcp.zoo.feed", Source: "mcp.zoo", Summary: "Feed an animal", Declaration: "feed"},
		{ID: "mcp.gh.search", Source: "mcp.gh", Summary: "Search code", Declaration: "search"},
		{ID: "mcp.gh.a.b", Source: "mcp.gh", Summary: "A tool with a dot", Declaration: "dot"},
	}
	twice := fixed{{ID: "mcp.zoo.feed", Source: "elsewhere", Declaration: "another"}}
	return catalog.New(map[string]string{"code": "mcp.gh", "animals": "mcp.zoo.feed"}, servers, twice).Snapshot(t.Context(), "t")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := snapshot(t)
	for name, c := range map[string]struct {
		seeds   []string
		aliases map[string]string
		want    []string
	}{
		"an entry":                  {[]string{"mcp.zoo.feed"}, nil, []string{"mcp.zoo.feed"}},
		"a source":                  {[]string{"mcp.gh"}, nil, []string{"mcp.gh.a.b", "mcp.gh.search"}},
		"both, once":                {[]string{"mcp.gh.search", "mcp.gh", "mcp.gh"}, nil, []string{"mcp.gh.a.b", "mcp.gh.search"}},
		"the operator's alias":      {[]string{"animals"}, nil, []string{"mcp.zoo.feed"}},
		"for the beginning":         {[]string{"code.search"}, nil, []string{"mcp.gh.search"}},
		"with a dot after it":       {[]string{"code.a.b"}, nil, []string{"mcp.gh.a.b"}},
		"the caller's first":        {[]string{"code"}, map[string]string{"code": "mcp.zoo"}, []string{"mcp.zoo.feed"}},
		"no alias hides what is":    {[]string{"mcp.zoo.feed"}, map[string]string{"mcp.zoo.feed": "mcp.gh"}, []string{"mcp.zoo.feed"}},
		"an alias is not looked up": {[]string{"animals"}, map[string]string{"mcp.zoo.feed": "nowhere"}, []string{"mcp.zoo.feed"}},
	} {
		got, err := s.Resolve(c.seeds, c.aliases)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, ids(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for seed, near := range map[string]string{"saerch code": "mcp.gh.search", "zzz": "mcp.gh", "": "mcp.gh"} {
		_, err := s.Resolve([]string{seed}, nil)
		var unknown *catalog.UnknownError
		if !errors.As(err, &unknown) || !slices.Contains(unknown.Near, near) {
			t.Errorf("%q: %v, want a mention of %s", seed, err, near)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := snapshot(t)
	for query, want := range map[string][]string{
		"feed the animal":   {"mcp.zoo.feed"},
		"SEARCH":            {"mcp.gh.search"},
		"search for a tool": {"mcp.gh.search", "mcp.gh.a.b"}, // a word in a name counts more than in a summary
		"a":                 {"mcp.gh.a.b", "mcp.gh.search", "mcp.zoo.feed"},
		"nothing like that": nil,
	} {
		if diff := cmp.Diff(want, ids(s.Search("", query, 10).Entries)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	if got := s.Search("", "", 2); len(got.Entries) != 2 || got.Total != 3 {
		t.Errorf("found %+v, want 2 of 3", got)
	}
}

// TestHashes: the hash of a source depends on its entries and on nothing else.
func TestHashes(t *testing.T) {
	t.Parallel()
	of := func(list ...catalog.Entry) map[string]string {
		return catalog.New(nil, fixed(list)).Snapshot(t.Context(), "t").SourceHashes()
	}
	a, b := catalog.Entry{ID: "s.a", Source: "s", Declaration: "1"}, catalog.Entry{ID: "s.b", Source: "s", Declaration: "1"}
	other := catalog.Entry{ID: "o.a", Source: "o", Declaration: "1"}
	base := of(a, b)["s"]
	if of(b, a, other)["s"] != base {
		t.Error("the order, or another source, counts")
	}
	changed := b
	changed.Declaration = "2"
	if of(a)["s"] == base || of(a, changed)["s"] == base {
		t.Error("a change was not noticed")
	}
	if h := snapshot(t).Hashes()["mcp.zoo.feed"]; h != (catalog.Entry{Declaration: "feed"}).Hash() {
		t.Error("of two entries with one id the second counts")
	}
}
