package projections_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/projections"
)

// Facts that follow from a conversation context, such as whether a resource was read
// before, are computed when they are requested: neither events nor contexts store a
// truth value that could contradict their lists.
func TestDerivedFactsAreNotStored(t *testing.T) {
	t.Parallel()
	for _, v := range []any{events.ContextUpdated{}, events.ContextCleared{}, events.ContextExpired{}, events.ContextNoted{}, projections.Context{}} {
		noBooleans(t, reflect.TypeOf(v), reflect.TypeOf(v).Name())
	}
	b, s, ref := newMemoryLedger(), open(t, projections.Options{}), contextRef(events.ContextSession, "a")
	for range 2 { // the resource was read before
		b.add(&events.ContextNoted{ContextRef: ref, UsedAt: events.Instant{Time: began}, Content: events.Plain(events.NotedContent{
			Calls:     []events.NotedCall{called("search", 1, began)},
			Resources: []events.NotedResource{{ResourceID: "heap://1", ResourceType: "document", FetchedAt: events.Instant{Time: began}, ContentSHA256: heap(1), Summary: "s"}},
		})})
	}
	apply(t, s, b)
	raw, err := json.Marshal(contextNow(t, s, ref).Context)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); strings.Contains(text, "true") || strings.Contains(text, "false") || !strings.Contains(text, "heap://1") {
		t.Errorf("the context holds a truth value, or lacks the resource: %s", text)
	}
}

// noBooleans checks every type that a type contains.
func noBooleans(t *testing.T, typ reflect.Type, path string) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Bool:
		t.Errorf("%s is a truth value", path)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		noBooleans(t, typ.Elem(), path)
	case reflect.Struct:
		switch typ {
		case reflect.TypeFor[time.Time](), reflect.TypeFor[events.EncryptedContent](): // the stored form, not the content
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			noBooleans(t, f.Type, path+"."+f.Name)
		}
	default:
	}
}
