package httpapi

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"daybook/events"
	"daybook/internal/web/feed"
	"daybook/internal/web/pages"
)

// Number of positions that a page of events covers: more if a filter is set.
const (
	pagePositions     = 100
	filteredPositions = 2000
)

// wantsHTML reports whether an Accept header is that of a browser: it names HTML and no
// format for programs.
func wantsHTML(accept []string) bool {
	html := false
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil || params["q"] == "0" {
			continue
		}
		switch name {
		case "text/html":
			html = true
		case "application/json", typeSSE, typeNDJSON:
			return false
		}
	}
	return html
}

// browse writes an HTML page of the newest events, or of those after a position, with
// links to the other pages.
func (er *eventReader) browse(ctx context.Context, w http.ResponseWriter, query url.Values, removed, edge uint64) error {
	sel := er.selector
	view := pages.EventsData{Edge: edge, Filtered: len(sel.Types) > 0 || sel.Execution != "" || sel.Session != ""}
	positions := uint64(pagePositions)
	if view.Filtered {
		positions = filteredPositions
	}
	if !query.Has("after") && edge > positions {
		er.after = max(removed, edge-positions)
	}
	after := er.after
	view.First, view.Last = after+1, min(edge, after+positions)
	err := er.readTo(ctx, view.Last, func(e *feed.Event) error {
		ce, err := events.Structured(e.Event)
		view.Events = append(view.Events, ce)
		return err
	}, func() error { return nil })
	if err != nil {
		return err
	}
	slices.Reverse(view.Events)
	at := func(after uint64) string {
		q := cloneQuery(query)
		q.Set("after", strconv.FormatUint(after, 10))
		return "?" + q.Encode()
	}
	if after > removed {
		view.Older = at(max(removed, after-min(after, positions)))
	}
	if view.Last < edge {
		view.Newer = at(view.Last)
	}
	newest := cloneQuery(query)
	newest.Del("after")
	view.Newest = "/api/events?" + newest.Encode()
	page, err := pages.RenderEvents(view)
	if err != nil {
		return err
	}
	pages.Write(w, page)
	return nil
}

func cloneQuery(query url.Values) url.Values {
	q := url.Values{}
	for name, values := range query {
		q[name] = slices.Clone(values)
	}
	return q
}
