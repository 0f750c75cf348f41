package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/internal/tools/catalog"
)

// many returns a snapshot with more than 40 tools of one server and a few of others.
func many(t *testing.T) *catalog.Snapshot {
	t.Helper()
	var list fixed
	add := func(server, name, summary string) {
		list = append(list, catalog.Entry{
			ID: "mcp." + server + "." + name, Source: "mcp." + server, Summary: summary, Declaration: "declare const mcp: { " + name + "(): void; };",
			Member: catalog.Member{Global: "mcp", Property: server, Text: "/** " + summary + " */\n" + name + "(): void;"},
		})
	}
	for i := range 40 {
		add("crm", fmt.Sprintf("report%02d", i), "Report of customers")
	}
	add("crm", "listInvoices", "List the invoices of a customer")
	add("mail", "send_message", "Send an e-mail message to a person")
	add("mail", "search", "Search messages")
	add("weather", "forecast", "Weather forecast of a city")
	add("wetter", "vorhersage", "Wetter für Städte, 天気予報を調べる")
	return catalog.New(nil, list, catalog.Builtin{}).Snapshot(t.Context(), "t")
}

// The intent ranks entries, the query counts more, and every match is counted.
func TestRank(t *testing.T) {
	t.Parallel()
	s := many(t)
	for _, tc := range []struct {
		intent, query string
		want          []string // the first entries
		total         int      // 0 means any
	}{
		{"Send the invoices of last month to our customers by mail", "", []string{"mcp.mail.send_message"}, 0},
		{"Write to a customer", "invoice", []string{"mcp.crm.listInvoices"}, 0},
		{"Plan a trip: what is the weather like?", "", []string{"mcp.weather.forecast"}, 1},
		{"send a message", "search", []string{"mcp.mail.search", "mcp.mail.send_message"}, 2},
		{"", "forecasts", []string{"mcp.weather.forecast"}, 1},
		{"天気", "", []string{"mcp.wetter.vorhersage"}, 1},
		{"quarterly report", "", []string{"mcp.crm.report00", "mcp.crm.report01"}, 40},
		{"do the washing-up", "xyzzy", nil, 0},
		{"to be or not to be", "", []string{"builtin.clone"}, 53},
	} {
		got := s.Search(tc.intent, tc.query, 3)
		names := ids(got.Entries)
		if len(names) < len(tc.want) || !cmp.Equal(names[:len(tc.want)], tc.want, equateNil) || tc.total != 0 && got.Total != tc.total || tc.want == nil && got.Total != 0 {
			t.Errorf("%q, %q: %v of %d", tc.intent, tc.query, names, got.Total)
		}
		if again := s.Search(tc.intent, tc.query, 3); !cmp.Equal(got, again) {
			t.Errorf("%q, %q: another answer the second time", tc.intent, tc.query)
		}
	}
	s.Search(strings.Repeat("word aWord ", 1<<20), strings.Repeat("x", 1<<20), 10) // must return in time
}

var equateNil = cmp.Comparer(func(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") })

// All members of one object are in one declaration, grouped by property.
func TestTable(t *testing.T) {
	t.Parallel()
	s := many(t)
	got := s.Table([]catalog.Symbol{{"t1", "builtin.performance"}, {"t2", "mcp.mail.search"}, {"t3", "mcp.weather.forecast"}, {"t4", "mcp.mail.send_message"}, {"t5", "mcp.gone"}})
	want := `// t1 builtin.performance
declare const performance: { now(): number; readonly timeOrigin: number };
declare const mcp: {
 readonly mail: {
  /** Search messages */
  search(): void; // t2
  /** Send an e-mail message to a person */
  send_message(): void; // t4
 };
 readonly weather: {
  /** Weather forecast of a city */
  forecast(): void; // t3
 };
};
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := s.Table(nil); got != "" {
		t.Errorf("nothing is declared as %q", got)
	}
}

func TestOffers(t *testing.T) {
	t.Parallel()
	want := []catalog.Offer{{"builtin", 8}, {"mcp.crm", 41}, {"mcp.mail", 2}, {"mcp.weather", 1}, {"mcp.wetter", 1}}
	if diff := cmp.Diff(want, many(t).Offers()); diff != "" {
		t.Error(diff)
	}
}
