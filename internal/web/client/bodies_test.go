package client_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"daybook/internal/web/client"
)

// TestBodies compares the types that package httpapi does not export, and that are
// declared here again, with the OpenAPI document of the server: each member must be
// documented there. So must each member that the client requires, as required; only the
// items of sessions depend on the request.
func TestBodies(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../httpapi/testdata/openapi.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
				Required   []string                   `json:"required"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	for schema, body := range map[string]any{
		"Submission": client.Run{}, "Accepted": client.Receipt{}, "Ok": client.OK{}, "CallsAnswerBody": client.Calls{}, "HeapLineage": client.Lineage{},
		"TagsAnswerBody": client.Tags{}, "CollectBody": client.CollectRule{}, "SessionList": client.SessionList{}, "SessionLog": client.SessionLog{},
		"SessionTurns": client.Turns{}, "Moment": client.Moment{}, "TurnRun": client.Turn{}, "Excerpt": client.Excerpt{}, "OpeningBody": client.Opening{},
		"OpenedSession": client.Opened{}, "Declaration": client.Declaration{}, "ResetDone": client.Reset{}, "VolumesAnswerBody": client.Volumes{},
		"WebhookList": client.Webhooks{}, "WebhookBody": client.NewWebhook{}, "NewWebhook": client.AddedWebhook{}, "LetterList": client.DeadLetters{}, "Retried": client.Retried{},
		"Entry": client.SessionEntry{}, "ExecutionDetail": client.Execution{}, "ExecutionPage": client.ExecutionPage{}, "OutputPage": client.OutputPage{}, "Heap": client.Heap{}, "HeapPage": client.HeapPage{},
		"Report": client.Collection{}, "Session": client.Session{}, "ShredResult": client.Shredded{}, "Volume": client.Volume{}, "RemovedVolume": client.RemovedVolume{},
		"DamageReport": client.Damage{}, "ScrubReport": client.Scrub{}, "AnomalyReport": client.Anomalies{}, "ClearedBody": client.Cleared{},
	} {
		if len(document.Components.Schemas[schema].Properties) == 0 {
			t.Errorf("the server has no body %s", schema)
		}
		for _, member := range client.RequiredMembers(body) {
			if name, _, _ := strings.Cut(member, "[]."); name != "items" && !slices.Contains(document.Components.Schemas[schema].Required, name) {
				t.Errorf("%T: the body %s of the server need not have %q", body, schema, name)
			}
		}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(body)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			if _, ok := document.Components.Schemas[schema].Properties[name]; !ok {
				t.Errorf("%s.%s: the body %s of the server has no member %q", reflect.TypeOf(body), f.Name, schema, name)
			}
		}
	}
}

// Each type of an answer has required members.
func TestEachAnswerHasRequiredMembers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(raw)
	}
	calls := regexp.MustCompile(`\bcall\[(\w+)\]\(ctx`).FindAllStringSubmatch(source.String(), -1)
	if len(calls) < 20 {
		t.Errorf("the source has %d calls", len(calls))
	}
	for _, call := range calls {
		if !strings.Contains(source.String(), "reflect.TypeFor["+call[1]+"]():") {
			t.Errorf("an answer of type %s has no required members", call[1])
		}
	}
}
