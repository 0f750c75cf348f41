package jetstream_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jetstream"
)

func TestParseReply(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]struct {
		delivered int
		seq       uint64
	}{
		"$JS.ACK.LEDGER-0001.runners-default.3.17.5.1795238087394887947.0":              {3, 17},
		"$JS.ACK.hub.ACCOUNT.LEDGER-0001.runners-default.1.9.5.1795238087394887947.0":   {1, 9},
		"$JS.ACK.hub.ACCOUNT.LEDGER-0001.runners-default.1.9.5.1795238087394887947.0.x": {1, 9},
	} {
		if delivered, seq, err := jetstream.ParseReply(reply); err != nil || delivered != want.delivered || seq != want.seq {
			t.Errorf("%s: %d, %d, %v; want %+v", reply, delivered, seq, err, want)
		}
	}
	for _, reply := range []string{
		"", "_INBOX.x", "$JS.ACK", "$JS.ACK.a.b.1.2.3.4", "$JS.ACK.a.b.0.2.3.4.5", "$JS.ACK.a.b.x.2.3.4.5", "$JS.ACK.a.b.1.0.3.4.5",
		"$JS.ACK.a.b.1.-2.3.4.5", "$JS.FC.a.b.1.2.3.4.5", "$JS.ACK.a.b.1.2.3.4.5.6", strings.Repeat(".", 12),
	} {
		if _, _, err := jetstream.ParseReply(reply); err == nil {
			t.Errorf("%q was taken for a delivery", reply)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.LEDGER-0001.runners-default.3.17.5.1795238087394887947.0")
	f.Add("$JS.ACK.hub.ACCOUNT.LEDGER-0001.runners-default.1.9.5.1795238087394887947.0.x")
	f.Fuzz(func(t *testing.T, reply string) {
		delivered, seq, err := jetstream.ParseReply(reply)
		if err == nil && (delivered < 1 || seq == 0) {
			t.Errorf("%q: delivery %d of position %d", reply, delivered, seq)
		}
	})
}

// FuzzStored feeds the decoder what a server could answer. Whatever it is, the
// result is an event at the position the server named, or an error.
func FuzzStored(f *testing.F) {
	f.Add([]byte("NATS/1.0\r\nNats-Subject: ledger.0001.default.exec.x\r\nNats-Sequence: 7\r\nce-specversion: 1.0\r\nce-id: a\r\n"+
		"ce-type: daybook.execution.started.v1\r\nce-tenant: default\r\nce-time: 2026-01-01T00:00:00.000Z\r\n\r\n"), []byte(`{"attempt":1}`))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: 18446744073709551616\r\n\r\n"), []byte(`{}`))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: -1\r\nNats-Sequence: 1\r\n\r\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		h, err := nats.DecodeHeadersMsg(header)
		if err != nil {
			return // the connection is broken off
		}
		e, err := jetstream.DecodeStored(&nats.Msg{Header: h, Data: body})
		if err != nil {
			return
		}
		if e.Seq == 0 || e.ID == "" || e.Tenant == "" || e.Data == nil {
			t.Errorf("decoded to %+v", e)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	f.Add(jetstream.Compress([]byte("hello")), 5)
	f.Add(jetstream.Compress(make([]byte, 1<<20)), 1<<20)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd}, 0)
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		if size < 0 || size > 1<<20 {
			return // refused before
		}
		blob, err := jetstream.Decompress(packed, size)
		if err != nil {
			return
		}
		if len(blob) != size {
			t.Errorf("%d bytes, want %d", len(blob), size)
		}
		if again, err := jetstream.Decompress(jetstream.Compress(blob), size); err != nil || !bytes.Equal(again, blob) {
			t.Errorf("packing again: %v", err)
		}
	})
}

func TestDecodeStoredNamesThePosition(t *testing.T) {
	t.Parallel()
	m := &nats.Msg{Header: nats.Header{"Nats-Sequence": {"42"}, "Nats-Subject": {"ledger.0001.default.exec.x"}}, Data: []byte("{}")}
	_, err := jetstream.DecodeStored(m)
	var de *events.DecodeError
	if !errors.Is(err, events.ErrDamaged) || !errors.As(err, &de) || de.Seq != 42 {
		t.Errorf("got %v", err)
	}
}
