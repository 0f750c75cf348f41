package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"daybook/httpapi"
)

var update = flag.Bool("update", false, "rewrite golden files and transcripts")

// The document is what clients are generated from: a change of it must be seen
// in review.
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

// Every operation of the contract is there, and each is documented throughout.
func TestOpenAPIIsComplete(t *testing.T) {
	t.Parallel()
	doc := document(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	want := []string{
		"delete /api/heaps/{heap}/tags", "delete /api/sessions/{name}/content", "delete /api/webhooks/{id}", "get /api/events", "get /api/executions", "get /api/executions/{id}",
		"get /api/executions/{id}/events", "get /api/executions/{id}/output", "get /api/heaps", "get /api/heaps/{heap}",
		"get /api/heaps/{heap}/lineage", "get /api/heaps/{heap}/tags", "get /api/ledger/blobs/{kind}/{hash}", "get /api/ledger/checkpoint", "get /api/ledger/damage", "get /api/ledger/export", "get /api/ledger/proof", "get /api/ledger/scrub", "get /api/ledger/volumes", "get /api/logical-sessions", "get /api/logical-sessions/{id}",
		"get /api/sessions", "get /api/sessions/{name}/entries",
		"get /api/sessions/{name}/replay", "get /api/version", "get /api/webhooks", "get /api/webhooks/{id}/dead-letters", "get /healthz", "get /readyz",
		"post /api/exec", "post /api/executions/{id}/cancel", "post /api/heaps/collect", "post /api/ledger/volumes/seal", "post /api/logical-sessions", "post /api/sessions/{name}/replay", "post /api/webhooks", "post /api/webhooks/{id}/retry", "put /api/heaps/{heap}/tags",
	}
	// projected are answered by the read side.
	projected := map[string]bool{}
	for _, name := range want {
		projected[name] = strings.HasPrefix(name, "get /api/") && name != "get /api/version" && !strings.HasSuffix(name, "/events") && !strings.Contains(name, "/webhooks") && !strings.Contains(name, "/ledger/")
	}
	var got []string
	for path, ops := range doc.Paths {
		for method, op := range ops {
			name := method + " " + path
			got = append(got, name)
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
			if projected[name] && params["Daybook-Min-Sequence"] != "header" {
				t.Errorf("%s does not take Daybook-Min-Sequence", name)
			}
			for code, r := range op.Responses {
				// A replay records nothing.
				if method != "get" && !strings.HasSuffix(path, "/replay") && code < "300" && r.Headers["Daybook-Sequence"] == nil {
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
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("operations:\n got %q\nwant %q", got, want)
	}
}
