package pages

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/yuin/goldmark"

	"daybook/events"
)

// The pages are self-contained: they load no script, font or image.
var (
	//go:embed style.css
	styleSheet string
	//go:embed landing.html
	landingSource string
	//go:embed reference.html
	referenceSource string
	//go:embed events.html
	eventsSource string

	pageFuncs     = template.FuncMap{"style": func() template.CSS { return template.CSS(styleSheet) }, "markdown": markdown} //nolint:gosec // embedded file
	landingPage   = template.Must(template.New("landing").Funcs(pageFuncs).Parse(landingSource))
	referencePage = template.Must(template.New("reference").Funcs(pageFuncs).Parse(referenceSource))
	eventsPage    = template.Must(template.New("events").Funcs(pageFuncs).Parse(eventsSource))

	// pagePolicy allows only the style sheet, by its hash.
	pagePolicy = func() string {
		sum := sha256.Sum256([]byte(styleSheet))
		return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
	}()
)

// Write writes a page as the response, with the policy that browsers apply. It ignores
// errors of w.
func Write(w http.ResponseWriter, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(page)
}

// LandingData is the data of the landing page.
type LandingData struct {
	Version string
	// Base is the address of the service in the example commands.
	Base     string
	Position uint64
	Running  int
	Sessions int
	// Known is true if the counts could be read. Closed is true if the visitor needs a
	// token with the scope read and has sent none.
	Known, Closed bool
	// Auth is true if the commands need a token.
	Auth bool
}

// RenderLanding returns the landing page.
func RenderLanding(data LandingData) ([]byte, error) {
	var b bytes.Buffer
	err := landingPage.Execute(&b, data)
	return b.Bytes(), err
}

// EventsData is the data of the events page.
type EventsData struct {
	Events []events.CloudEvent
	// First and Last are the positions that the page covers, Edge is the end of the ledger.
	First, Last, Edge uint64
	// Filtered is true if the page has only some of the events at these positions.
	Filtered bool
	// Older, Newer and Newest are the addresses of other pages, empty if there is none.
	Older, Newer, Newest string
}

// eventView is an event as the page shows it.
type eventView struct {
	events.CloudEvent
	Data, Link string
}

// RenderEvents returns a page of events, in the order of data.
func RenderEvents(data EventsData) ([]byte, error) {
	views := make([]eventView, 0, len(data.Events))
	for _, e := range data.Events {
		views = append(views, viewOf(e))
	}
	var b bytes.Buffer
	err := eventsPage.Execute(&b, struct {
		EventsData
		Events []eventView
	}{data, views})
	return b.Bytes(), err
}

// viewOf formats an event for the page.
func viewOf(e events.CloudEvent) eventView {
	v := eventView{CloudEvent: e, Data: string(e.Data)}
	var b bytes.Buffer
	if json.Indent(&b, e.Data, "", "  ") == nil {
		v.Data = b.String()
	}
	if strings.HasPrefix(e.Type, "daybook.execution.") {
		v.Link = "/api/executions/" + url.PathEscape(e.Subject)
	}
	return v
}

// referenceOperation is the data of an operation on the reference page.
type referenceOperation struct {
	ID, Method, Path, Summary, Description string
	Parameters                             []referenceField
	Request, Responses                     []referenceBody
	Errors                                 []string
}

type referenceField struct{ Name, In, Type, Text string }

type referenceBody struct {
	Status, Media, Text string
	Fields              []referenceField
}

type referenceGroup struct {
	Name, Text string
	Operations []referenceOperation
}

// RenderReference renders the OpenAPI document as an HTML page.
func RenderReference(doc *huma.OpenAPI) ([]byte, error) {
	schemas := doc.Components.Schemas
	var groups []referenceGroup
	for _, tag := range doc.Tags {
		g := referenceGroup{Name: tag.Name, Text: tag.Description}
		for path, item := range doc.Paths {
			for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
				if op != nil && slices.Contains(op.Tags, tag.Name) {
					g.Operations = append(g.Operations, describeOperation(schemas, path, op))
				}
			}
		}
		slices.SortFunc(g.Operations, func(a, b referenceOperation) int {
			return strings.Compare(a.Path+a.Method, b.Path+b.Method)
		})
		groups = append(groups, g)
	}
	var b bytes.Buffer
	err := referencePage.Execute(&b, struct {
		Description string
		Groups      []referenceGroup
	}{doc.Info.Description, groups})
	return b.Bytes(), err
}

func describeOperation(schemas huma.Registry, path string, op *huma.Operation) referenceOperation {
	out := referenceOperation{ID: op.OperationID, Method: op.Method, Path: path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		out.Parameters = append(out.Parameters, referenceField{p.Name, p.In, typeName(p.Schema), p.Description})
	}
	if op.RequestBody != nil {
		out.Request = describeBodies(schemas, "", "", op.RequestBody.Content)
	}
	codes := make([]string, 0, len(op.Responses))
	for code := range op.Responses {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		r := op.Responses[code]
		if code >= "4" {
			out.Errors = append(out.Errors, code+" "+r.Description)
			continue
		}
		if all := describeBodies(schemas, code, r.Description, r.Content); all != nil {
			out.Responses = append(out.Responses, all...)
		} else {
			out.Responses = append(out.Responses, referenceBody{Status: code, Text: r.Description})
		}
	}
	return out
}

func describeBodies(schemas huma.Registry, code, text string, content map[string]*huma.MediaType) []referenceBody {
	media := make([]string, 0, len(content))
	for name := range content {
		media = append(media, name)
	}
	slices.Sort(media)
	var out []referenceBody
	for _, name := range media {
		b := referenceBody{Status: code, Media: name, Text: text}
		s := content[name].Schema
		if s != nil && s.Items != nil {
			s = s.Items
		}
		if s != nil && s.Ref != "" {
			s = schemas.SchemaFromRef(s.Ref)
		}
		if s != nil && s.Properties == nil && s.Description != "" {
			b.Text = s.Description
		}
		if s != nil {
			names := make([]string, 0, len(s.Properties))
			for name := range s.Properties {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				p := s.Properties[name]
				b.Fields = append(b.Fields, referenceField{Name: name, Type: typeName(p), Text: p.Description})
			}
		}
		out = append(out, b)
	}
	return out
}

// typeName describes the type of a schema in a few words.
func typeName(s *huma.Schema) string {
	if s == nil {
		return "any"
	}
	name := s.Type
	switch {
	case s.Ref != "":
		name = s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Items != nil:
		name = "array of " + typeName(s.Items)
	case name == "":
		name = "any"
	}
	if s.Nullable {
		name += " or null"
	}
	if s.Minimum != nil && s.Maximum != nil {
		name += " " + number(*s.Minimum) + " to " + number(*s.Maximum)
	}
	if s.Default != nil {
		if raw, err := json.Marshal(s.Default); err == nil {
			name += ", default " + string(raw)
		}
	}
	return name
}

func number(f float64) string {
	raw, _ := json.Marshal(f)
	return string(raw)
}

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
