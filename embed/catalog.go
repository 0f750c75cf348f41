package embed

import (
	"context"
	"strings"
	"unicode/utf8"

	"daybook/internal/tools/catalog"
	"daybook/internal/tools/toolserver"
)

// catalog returns the APIs that code may use: the built-in ones, and the tools of the
// configured tool servers.
func (d *Daybook) catalog() *catalog.Catalog {
	sources := []catalog.Source{catalog.Builtin{}}
	if d.toolServers != nil {
		sources = append(sources, toolSource{d.toolServers})
	}
	return catalog.New(nil, sources...)
}

// toolSource is a catalog source of the tools of servers.
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

// summary returns the first line of a description, shortened.
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
