package httpapi

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
)

// markdown renders a text of the OpenAPI document, which is CommonMark according to the
// specification, as HTML. A single paragraph is returned without its p element, so that
// it fits into a line or a cell. HTML in the text is removed.
func markdown(text string) (template.HTML, error) {
	var b bytes.Buffer
	if err := goldmark.Convert([]byte(text), &b); err != nil {
		return "", err
	}
	page := strings.TrimSpace(b.String())
	if inner, ok := strings.CutPrefix(page, "<p>"); ok && strings.Count(page, "<p>") == 1 && strings.HasSuffix(inner, "</p>") {
		page = strings.TrimSuffix(inner, "</p>")
	}
	return template.HTML(page), nil //nolint:gosec // rendered from texts of this repository, without their HTML
}
