package stream_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/stream"
)

// FuzzStored decodes arbitrary answers of a server. The result is an event at the
// position that the server named, or an error.
func FuzzStored(f *testing.F) {
	f.Add([]byte("NATS/1.0\r\nNats-Subject: ledger.0001.default.exec.x\r\nNats-Sequence: 7\r\nce-specversion: 1.0\r\nce-id: a\r\n"+
		"ce-type: daybook.execution.started.v1\r\nce-tenant: default\r\nce-time: 2026-01-01T00:00:00.000Z\r\n\r\n"), []byte(`{"attempt":1}`))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: 18446744073709551616\r\n\r\n"), []byte(`{}`))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: -1\r\nNats-Sequence: 1\r\n\r\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		h, err := nats.DecodeHeadersMsg(header)
		if err != nil {
			return // the connection is closed
		}
		e, err := stream.DecodeStored(&nats.Msg{Header: h, Data: body})
		if err != nil {
			return
		}
		if e.Seq == 0 || e.ID == "" || e.Tenant == "" || e.Data == nil {
			t.Errorf("decoded to %+v", e)
		}
		for name, got := range map[string]string{"ce-id": e.ID, "ce-tenant": e.Tenant, "ce-type": string(e.Type)} {
			if values := h[name]; len(values) != 1 || values[0] != got {
				t.Errorf("%s: %q is decoded to %q", name, values, got)
			}
		}
		if position := h["Nats-Sequence"]; len(position) == 0 || strings.TrimLeft(position[0], "0") != strconv.FormatUint(e.Seq, 10) {
			t.Errorf("the position %q is decoded to %d", position, e.Seq)
		}
	})
}

func TestDecodeStoredNamesThePosition(t *testing.T) {
	t.Parallel()
	m := &nats.Msg{Header: nats.Header{"Nats-Sequence": {"42"}, "Nats-Subject": {"ledger.0001.default.exec.x"}}, Data: []byte("{}")}
	_, err := stream.DecodeStored(m)
	var de *events.DecodeError
	if !errors.Is(err, events.ErrDamaged) || !errors.As(err, &de) || de.Seq != 42 {
		t.Errorf("got %v", err)
	}
}
