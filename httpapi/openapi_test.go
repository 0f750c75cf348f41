package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/httpapi"
)

var update = flag.Bool("update", false, "rewrite golden files and transcripts")

// Clients are generated from the document, so its changes must be visible in review.
func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	got, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	again, err := httpapi.OpenAPI()
	if err != nil || !bytes.Equal(got, again) {
		t.Fatalf("the document differs from one call to the next (%v)", err)
	}
	golden := filepath.Join("testdata", "openapi.golden.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the OpenAPI document changed; if that is meant, run: go test ./httpapi -run OpenAPI -update")
	}
}

type openAPI struct {
	OpenAPI string                                 `json:"openapi"`
	Paths   map[string]map[string]openAPIOperation `json:"paths"`
}

type openAPIOperation struct {
	OperationID string `json:"operationId"`
	Summary     string `json:"summary"`
	Parameters  []struct {
		Name        string `json:"name"`
		In          string `json:"in"`
		Description string `json:"description"`
	} `json:"parameters"`
	Responses map[string]struct {
		Headers map[string]any `json:"headers"`
		Content map[string]struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func document(t *testing.T) openAPI {
	t.Helper()
	raw, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc openAPI
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every operation is documented completely. The golden file lists the operations.
func TestOpenAPIIsComplete(t *testing.T) {
	t.Parallel()
	doc := document(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	// projected reports whether an operation reads the projections.
	projected := func(name string) bool {
		return strings.HasPrefix(name, "get /api/") && name != "get /api/version" && name != "get /api/context" &&
			!strings.HasSuffix(name, "/events") && !strings.Contains(name, "/webhooks") && !strings.Contains(name, "/ledger/")
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			name := method + " " + path
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s has no id or no summary", name)
			}
			params := map[string]string{}
			for _, p := range op.Parameters {
				params[p.Name] = p.In
				if p.Description == "" {
					t.Errorf("%s: parameter %s has no description", name, p.Name)
				}
			}
			for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				if params[m[1]] != "path" {
					t.Errorf("%s: path parameter %s is not documented", name, m[1])
				}
			}
			if projected(name) && params["Daybook-Min-Sequence"] != "header" {
				t.Errorf("%s does not take Daybook-Min-Sequence", name)
			}
			for code, r := range op.Responses {
				// Neither a replay of a session nor a what-if records anything.
				if method != "get" && !strings.HasSuffix(path, "/replay") && !strings.HasSuffix(path, "/what-if") && code < "300" && r.Headers["Daybook-Sequence"] == nil {
					t.Errorf("%s does not document Daybook-Sequence", name)
				}
				switch {
				case code >= "400":
					if !strings.Contains(string(r.Content["application/problem+json"].Schema), "schemas/Problem") {
						t.Errorf("%s: %s is not a problem document", name, code)
					}
				case code != "204":
					if len(r.Content) == 0 {
						t.Errorf("%s: %s has no content", name, code)
					}
					for media, c := range r.Content {
						if len(c.Schema) < 5 {
							t.Errorf("%s: %s %s has no schema", name, code, media)
						}
					}
				}
			}
		}
	}
}

// Every operation with a JSON body refuses unknown members, as its schema does, and bodies that
// are compressed, not in UTF-8 or of another type.
func TestBodiesAreStrict(t *testing.T) {
	t.Parallel()
	raw, err := httpapi.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Ref  string `json:"$ref"`
		More any    `json:"additionalProperties"`
	}
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *httpapi.Options) {
		o.Volumes, o.Collector, o.Webhooks, o.Contexts = &fakeVolumes{}, struct{ httpapi.Collector }{}, struct{ httpapi.Webhooks }{}, struct{ httpapi.Contexts }{}
		type service = httpapi.Modules // the name of its method Modules is that of its type
		o.Modules = struct{ service }{}
	})
	bodies := 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			of, ok := op.RequestBody.Content["application/json"]
			if !ok {
				continue
			}
			bodies++
			closed := of.Schema
			if name := strings.TrimPrefix(closed.Ref, "#/components/schemas/"); name != "" {
				closed = doc.Components.Schemas[name]
			}
			if closed.More != false {
				t.Errorf("%s %s: additionalProperties of the body is %v", method, path, closed.More)
			}
			target := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(strings.Replace(path, "{volume}", "1", 1), strings.Repeat("0", 64))
			a := s.do(strings.ToUpper(method), target, `{"no_such_member":1}`, "Content-Type", "application/json")
			if a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `unknown field`) {
				t.Errorf("%s %s with an unknown member: %s %s", method, path, a.Status, a.body)
			}
			for _, wrong := range [][3]string{
				{"Content-Encoding", "gzip", "is encoded with"},
				{"Content-Type", "application/json; charset=utf-16", "charset"},
				{"Content-Type", "text/plain", "must be JSON"},
			} {
				if path == "/api/exec" && wrong[1] == "text/plain" {
					continue // the script itself
				}
				a := s.do(strings.ToUpper(method), target, `{}`, wrong[0], wrong[1])
				if a.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(string(a.body), wrong[2]) {
					t.Errorf("%s %s with %s %s: %s %s", method, path, wrong[0], wrong[1], a.Status, a.body)
				}
			}
		}
	}
	if bodies < 9 {
		t.Errorf("only %d operations have a JSON body", bodies)
	}
}
