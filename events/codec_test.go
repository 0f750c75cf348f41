package events_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
)

// stored returns the wire form of a small event, changed by edit.
func stored(t *testing.T, edit func(m *events.Message)) events.Message {
	t.Helper()
	m, err := events.Encode(envelope(0, &events.ExecutionCancelRequested{ExecutionID: execution, Actor: client}))
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&m)
	}
	return m
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	header := func(name string, value ...string) func(*events.Message) {
		return func(m *events.Message) {
			if m.Header[name] = value; len(value) == 0 {
				delete(m.Header, name)
			}
		}
	}
	body := func(s string) func(*events.Message) { return func(m *events.Message) { m.Body = []byte(s) } }
	tests := []struct {
		name string
		edit func(*events.Message)
		want string
	}{
		{"no headers", func(m *events.Message) { m.Header = nil }, "ce-specversion"},
		{"another specification", header("ce-specversion", "2.0"), `"2.0"`},
		{"no id", header("ce-id"), "ce-id"},
		{"no type", header("ce-type"), "ce-type"},
		{"no tenant", header("ce-tenant"), "ce-tenant"},
		{"no time", header("ce-time"), "ce-time"},
		{"not a time", header("ce-time", "yesterday"), "yesterday"},
		{"no body", body(""), "cancel_requested"},
		{"not JSON", body("{"), "cancel_requested"},
		{"not an object", body("[]"), "cancel_requested"},
		{"wrong kind of member", body(`{"execution_id":7}`), "execution_id"},
		{"about something else", header("ce-subject", "other"), `"other"`},
		{"about nothing", body(`{}`), "ce-subject"},
		{"a later record version", header("ce-recordversion", "3"), "a newer version of Daybook is needed"},
		{"record version 1 in words", header("ce-recordversion", "1"), "a newer version of Daybook is needed"},
		{"a record version with a space", header("ce-recordversion", "2 "), "a newer version of Daybook is needed"},
		{"two record versions", header("ce-recordversion", "2", "2"), "malformed"},
		{"an empty list of record versions", func(m *events.Message) { m.Header["ce-recordversion"] = []string{} }, "malformed"},
		{"an attribute twice", header("ce-traceparent", "a", "b"), "malformed"},
		{"a space after an attribute", header("ce-id", "x "), "malformed"},
		{"a tab before the content type", header("content-type", "\tapplication/json"), "malformed"},
		{"an attribute that is no text", header("ce-traceparent", "\xff"), "malformed"},
		{"an attribute in capitals", header("Ce-Type", "other"), "malformed"},
		{"an attribute with a capital", header("ce-Type", "other"), "malformed"},
		{"an attribute with a space", header(" ce-type", "other"), "malformed"},
		{"an attribute without a name", header("ce-", "other"), "malformed"},
		{"the content type in capitals", header("Content-Type", "text/plain"), "malformed"},
		{"a line end in another header", header("X-Other", "x\rce-type: other"), "malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := events.Decode(42, stored(t, tt.edit))
			var de *events.DecodeError
			if !errors.As(err, &de) || de.Seq != 42 || de.Subject == "" || de.Unwrap() == nil {
				t.Fatalf("error %#v", err)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "42") {
				t.Errorf("message %q names neither %q nor the position", err, tt.want)
			}
		})
	}
}

func TestDecodeIgnoresUnknownMembersAndHeaders(t *testing.T) {
	t.Parallel()
	e, err := events.Decode(7, stored(t, func(m *events.Message) {
		m.Body = []byte(strings.Replace(string(m.Body), "{", `{"added_later":{"a":1},`, 1))
		m.Header["ce-added"] = []string{"x"}
		m.Header["X-Other"] = []string{"\xff", ""}
		m.Header["ce-time"] = []string{"2026-11-21T10:30:00.125+01:00"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if e.Seq != 7 || !e.Time.Equal(began) || e.Time.Location() != time.UTC || e.About() != execution {
		t.Errorf("decoded %+v", e)
	}
}

// An event of a type or version of a newer program is read and encoded unchanged.
func TestUnknownTypesAreKept(t *testing.T) {
	t.Parallel()
	for _, typ := range []events.Type{"daybook.execution.paused.v1", "daybook.execution.completed.v2", "other"} {
		m := stored(t, func(m *events.Message) {
			m.Header["ce-type"] = []string{string(typ)}
			m.Subject = "ledger.0009." + m.Subject
			m.Body = []byte("not even JSON")
		})
		e, err := events.Decode(9, m)
		if err != nil {
			t.Fatal(err)
		}
		want := &events.Unknown{Type: typ, StoredSubject: m.Subject, Concerns: execution, Body: m.Body}
		if diff := cmp.Diff(events.Data(want), e.Data); diff != "" {
			t.Error(diff)
		}
		if _, terminal := e.Type.Status(); terminal || events.EndingOf(e.Data) != nil {
			t.Errorf("%s ends an execution", typ)
		}
		again, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		again.Subject = "ledger.0009." + again.Subject
		if diff := cmp.Diff(m, again); diff != "" {
			t.Error(diff)
		}
	}
}

// Events that were recorded before version 2 stay events of version 1 when they are encoded again. Their
// attributes are read as their record has them.
func TestRecordVersion1(t *testing.T) {
	t.Parallel()
	m := stored(t, func(m *events.Message) { delete(m.Header, "ce-recordversion") })
	e, err := events.Decode(1, m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := events.Encode(e)
	if diff := cmp.Diff(m, again); err != nil || diff != "" || e.RecordVersion != 1 {
		t.Errorf("version %d, error %v, difference %s", e.RecordVersion, err, diff)
	}
	if ce, err := events.Structured(e); err != nil || ce.RecordVersion != "" {
		t.Errorf("the structured form has version %q, error %v", ce.RecordVersion, err)
	}
	for name, v := range m.Header {
		m.Header[name] = []string{" \t" + v[0] + " ", "another"}
	}
	spaced, err := events.Decode(1, m)
	if diff := cmp.Diff(e, spaced); err != nil || diff != "" {
		t.Errorf("error %v, difference %s", err, diff)
	}
	fresh, err := events.Encode(events.Event{ID: "x", Type: e.Type, Tenant: e.Tenant, Data: e.Data})
	if err != nil || fresh.Header["ce-recordversion"][0] != "2" {
		t.Errorf("a new event has the headers %v, error %v", fresh.Header, err)
	}
}

func TestEncodeRefusesLargeEvents(t *testing.T) {
	t.Parallel()
	_, err := events.Encode(envelope(0, &events.ExecutionHandedBack{ExecutionID: execution, Reason: strings.Repeat("x", events.MaxEventBytes)}))
	if !errors.Is(err, events.ErrTooLarge) || !strings.Contains(err.Error(), "handed_back") {
		t.Errorf("error %v", err)
	}
}

func TestEncodeRefusesWhatDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, trace := range []string{trace + " ", trace + "\r\nce-tenant: other", "\xff"} {
		e := envelope(0, &events.ExecutionCancelRequested{ExecutionID: execution})
		e.Traceparent = trace
		if m, err := events.Encode(e); err == nil || !strings.Contains(err.Error(), "ce-traceparent") {
			t.Errorf("%q is encoded to %v, error %v", trace, m.Header, err)
		}
	}
	e := envelope(0, &events.ExecutionCancelRequested{ExecutionID: execution})
	e.RecordVersion = 3
	if m, err := events.Encode(e); err == nil {
		t.Errorf("version 3 is encoded to %v", m.Header)
	}
}

// A chunk of the maximum size can be stored, even if all of its characters take the most
// bytes in JSON.
func TestLargestOutputFits(t *testing.T) {
	t.Parallel()
	lines := make([]events.Line, events.OutputMaxLines)
	for i := range lines {
		lines[i] = events.Line{
			Text:  strings.Repeat("\x01", events.OutputMaxBytes/events.OutputMaxLines),
			Level: events.LevelDebug, TimeMillis: -1 << 63, Continued: true,
		}
	}
	_, err := events.Encode(envelope(0, &events.ExecutionOutput{
		ExecutionID: execution, Attempt: 1 << 30, FirstLine: 1 << 62, FirstByte: 1 << 62, Content: events.Plain(events.OutputContent{Lines: lines}),
	}))
	if err != nil {
		t.Error(err)
	}
}

func TestNilAndEmptyTagsDiffer(t *testing.T) {
	t.Parallel()
	for _, tags := range []map[string]string{nil, {}} {
		m, err := events.Encode(envelope(0, &events.ExecutionRequested{
			ExecutionID: execution, Pool: "default", Content: events.Plain(events.RequestedContent{Tags: tags}),
		}))
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(1, m)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Data.(*events.ExecutionRequested).Content.Value().Tags; (got == nil) != (tags == nil) {
			t.Errorf("tags %#v came back as %#v", tags, got)
		}
	}
}

func TestEncryptedContentHasNoValue(t *testing.T) {
	t.Parallel()
	c := events.Content[events.TagContent]{Sealed: &events.EncryptedContent{KeyID: "k", Algorithm: "a", Nonce: []byte{1}, Ciphertext: []byte{2}}}
	m, err := events.Encode(envelope(0, &events.HeapTagged{Heap: heapIn, Content: c}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Decode(1, m)
	if err != nil {
		t.Fatal(err)
	}
	got := e.Data.(*events.HeapTagged).Content
	if diff := cmp.Diff(c, got); diff != "" || got.Value().Tags != nil {
		t.Errorf("value %v, difference %s", got.Value(), diff)
	}
}

// Decode never panics. An event that it accepts is encoded to a form that stays the same
// when it is decoded and encoded again. FuzzDecodeAndRecord of internal/eventproof changes the
// headers as a whole.
func FuzzDecode(f *testing.F) {
	for i, d := range examples() {
		m, err := events.Encode(envelope(i, d))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Header["ce-type"][0], m.Header["ce-subject"][0], m.Header["ce-time"][0], "2", m.Body)
	}
	f.Add("daybook.execution.paused.v1", execution, "2026-11-21T09:30:00Z", "", []byte("?"))
	f.Add(string(events.TypeExecutionStarted), "", "0000-01-01T00:00:00Z", "2", []byte("null"))
	f.Add(string(events.TypeHeapTagged), "x", "9999-12-31T23:59:59.9999+23:59", "3", []byte(`{"heap":"x","content":{"sealed":{"nonce":""}}}`))
	f.Fuzz(func(t *testing.T, typ, subject, at, version string, body []byte) {
		m := events.Message{Subject: "ledger.0001.default.exec.x", Body: body, Header: map[string][]string{
			"ce-specversion": {"1.0"}, "ce-id": {"id"}, "ce-type": {typ}, "ce-subject": {subject}, "ce-time": {at}, "ce-tenant": {"default"},
		}}
		if version != "" {
			m.Header["ce-recordversion"] = []string{version}
		}
		e, err := events.Decode(1, m)
		if err != nil {
			return
		}
		if want := max(1, len(version)+1); version != "" && version != "2" || e.RecordVersion != want {
			t.Fatalf("version %q is decoded to %d", version, e.RecordVersion)
		}
		if version == "" {
			typ, subject = strings.Trim(typ, " \t"), strings.Trim(subject, " \t")
		}
		if string(e.Type) != typ || e.Type != events.TypeOf(e.Data) || e.About() != subject {
			t.Fatalf("decoded to %s about %q", e.Type, e.About())
		}
		first, err := events.Encode(e)
		switch {
		case errors.Is(err, events.ErrTooLarge):
			return
		case err != nil:
			t.Fatalf("decoded but not encoded: %v", err)
		}
		e, err = events.Decode(1, first)
		if err != nil {
			t.Fatalf("encoded but not decoded: %v", err)
		}
		second, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Error(diff)
		}
	})
}
