package eventproof_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// FuzzDecodeAndRecord decodes messages with arbitrary headers and makes records of them. Both find the
// same version, and the record has every attribute that Decode returns. A header that is added and
// that the record does not cover changes nothing in the event.
func FuzzDecodeAndRecord(f *testing.F) {
	const common = "ce-specversion:1.0\nce-id:a\nce-type:daybook.execution.cancel_requested.v1\nce-source:daybook\nce-subject:x\nce-time:2026-01-01T00:00:00.000Z\nce-tenant:default\ncontent-type:application/json\n"
	for _, more := range []string{"", "ce-recordversion:2\n", "ce-recordversion:3\n", "ce-recordversion:2\nce-recordversion:2\n", "ce-traceparent:t\nce-recordversion:2\nNats-Msg-Id:a\n", "ce-id:b\n", "Nats-Sequence:7\n"} {
		for _, added := range []string{"Nats-Msg-Id", "Ce-Type", "ce-type", "Status", "Nats-Sequence"} {
			f.Add(common+more, added, "404")
		}
	}
	f.Fuzz(func(t *testing.T, header, added, value string) {
		m := events.Stored{Seq: 1, Subject: "ledger.0001.default.exec.x", Header: map[string][]string{}, Body: []byte(`{"execution_id":"x"}`)}
		for line := range strings.SplitSeq(header, "\n") {
			if name, v, ok := strings.Cut(line, ":"); ok {
				m.Header[name] = append(m.Header[name], v)
			}
		}
		e, record := agree(t, m)
		m.Header = maps.Clone(m.Header)
		m.Header[added] = append(m.Header[added][:len(m.Header[added]):len(m.Header[added])], value)
		changed, again := agree(t, m)
		if record == "" || record != again {
			return
		}
		if e.Data != nil && changed.Data != nil && (e.ID != changed.ID || e.Type != changed.Type || e.Tenant != changed.Tenant || !e.Time.Equal(changed.Time) ||
			e.Traceparent != changed.Traceparent || e.RecordVersion != changed.RecordVersion || e.About() != changed.About()) {
			t.Errorf("%q: %q, which the record does not cover, makes another event of %q", added, value, header)
		}
		if (e.Data == nil) != (changed.Data == nil) {
			t.Errorf("%q: %q, which the record does not cover, decides whether %q is an event", added, value, header)
		}
	})
}

// agree decodes a message and makes its record, and compares them. It returns the zero event, or no
// record, if there is none.
func agree(t *testing.T, m events.Stored) (events.Event, string) {
	t.Helper()
	raw, rerr := proof.AppendRecord(nil, eventproof.RecordOf(m))
	record := string(raw)
	e, err := events.Decode(m.Seq, m.Message())
	if err == nil && e.RecordVersion == 2 && rerr != nil && !strings.Contains(rerr.Error(), "longer than") {
		t.Errorf("%v is decoded and has no record: %v", m.Header, rerr)
	}
	if err != nil && rerr == nil && (strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), "record")) {
		t.Errorf("%v is not decoded because of its headers, but has the record %q: %v", m.Header, record, err)
	}
	if rerr != nil {
		return e, ""
	}
	if err != nil {
		return events.Event{}, record
	}
	if !strings.HasPrefix(record, fmt.Sprintf("daybook-event-v%d\n", e.RecordVersion)) {
		t.Errorf("%v is decoded as version %d, and its record is %q", m.Header, e.RecordVersion, record)
	}
	for name, value := range map[string]string{"ce-id": e.ID, "ce-type": string(e.Type), "ce-tenant": e.Tenant, "ce-subject": e.About(), "ce-traceparent": e.Traceparent} {
		if value != "" && !strings.Contains(record, "\n"+name+": "+value+"\n") || !utf8.ValidString(value) {
			t.Errorf("%v is decoded with the %s %q, which its record does not have: %q", m.Header, name, value, record)
		}
	}
	if got := eventproof.HasType(m, e.Type); !got && len(m.Header["ce-type"]) == 1 {
		t.Errorf("%v does not have the type %s that is decoded", m.Header, e.Type)
	}
	return e, record
}
