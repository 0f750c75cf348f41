package projections_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/events"
	"daybook/projections"
)

// Each known type of event has a rule: without one the projections stop at the first
// event of the type.
func TestEveryTypeIsApplied(t *testing.T) {
	t.Parallel()
	for _, typ := range events.Types() {
		raw, err := os.ReadFile(filepath.Join("..", "events", "testdata", string(typ)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var fixture struct {
			Subject string
			Headers map[string]string
			Body    json.RawMessage
		}
		if err := json.Unmarshal(raw, &fixture); err != nil {
			t.Fatal(err)
		}
		m := events.Message{Subject: fixture.Subject, Header: map[string][]string{}}
		for name, value := range fixture.Headers {
			m.Header[name] = []string{value}
		}
		var body bytes.Buffer
		if err := json.Compact(&body, fixture.Body); err != nil {
			t.Fatal(err)
		}
		m.Body = body.Bytes()
		e, err := events.Decode(1, m)
		if _, unknown := e.Data.(*events.Unknown); err != nil || unknown {
			t.Fatalf("%s: %v, unknown: %v", typ, err, unknown)
		}
		s := open(t, projections.Options{})
		if err := s.Apply(t.Context(), []events.Event{e}); err != nil && strings.Contains(err.Error(), "no rule for") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}
