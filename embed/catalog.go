package embed

import (
	"context"
	"strings"
	"unicode/utf8"

	"daybook/internal/tools/catalog"
	"daybook/internal/tools/toolserver"
)

// catalog lists what code may use: what isolates have built in, and the tools of
// the servers that this one is configured with.
func (d *Daybook) catalog() *catalog.Catalog {
	sources := []catalog.Source{catalog.Builtin{}}
	if d.toolServers != nil {
		sources = append(sources, toolSource{d.toolServers})
	}
	return catalog.New(nil, sources...)
}

// toolSource offers the tools of servers.
type toolSource struct{ *toolserver.Set }

func (s toolSource) Entries(ctx context.Context, tenant string) []catalog.Entry {
	tools := s.Tools(ctx, tenant)
	list := make([]catalog.Entry, len(tools))
	for i, t := range tools {
		list[i] = catalog.Entry{
			ID: "mcp." + t.Server + "." + t.Name, Source: "mcp." + t.Server, Summary: summary(t.Description),
			Declaration: strings.TrimRight(toolserver.Declarations(tools[i:i+1]), "\n"),
			Member:      catalog.Member{Global: "mcp", Property: toolserver.PropertyName(t.Server), Text: t.Declaration()},
		}
	}
	return list
}

// summary is the first line of a description, not at any length.
func summary(text string) string {
	const most = 160
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) <= most {
		return line
	}
	cut := most
	for !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "…"
}
