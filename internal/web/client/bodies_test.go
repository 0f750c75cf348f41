package client_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"daybook/internal/web/client"
)

// TestBodies compares the types that package httpapi does not export, and that are
// declared here again, with the OpenAPI document of the server: each member must be
// documented there.
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
		"Entry": client.SessionEntry{},
	} {
		if len(document.Components.Schemas[schema].Properties) == 0 {
			t.Errorf("the server has no body %s", schema)
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
