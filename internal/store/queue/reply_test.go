package queue_test

import (
	"strings"
	"testing"

	"daybook/internal/store/queue"
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
		if delivered, seq, err := queue.ParseReply(reply); err != nil || delivered != want.delivered || seq != want.seq {
			t.Errorf("%s: %d, %d, %v; want %+v", reply, delivered, seq, err, want)
		}
	}
	for _, reply := range []string{
		"", "_INBOX.x", "$JS.ACK", "$JS.ACK.a.b.1.2.3.4", "$JS.ACK.a.b.0.2.3.4.5", "$JS.ACK.a.b.x.2.3.4.5", "$JS.ACK.a.b.1.0.3.4.5",
		"$JS.ACK.a.b.1.-2.3.4.5", "$JS.FC.a.b.1.2.3.4.5", "$JS.ACK.a.b.1.2.3.4.5.6", strings.Repeat(".", 12),
	} {
		if _, _, err := queue.ParseReply(reply); err == nil {
			t.Errorf("%q was taken for a delivery", reply)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.LEDGER-0001.runners-default.3.17.5.1795238087394887947.0")
	f.Add("$JS.ACK.hub.ACCOUNT.LEDGER-0001.runners-default.1.9.5.1795238087394887947.0.x")
	f.Fuzz(func(t *testing.T, reply string) {
		delivered, seq, err := queue.ParseReply(reply)
		if err == nil && (delivered < 1 || seq == 0) {
			t.Errorf("%q: delivery %d of position %d", reply, delivered, seq)
		}
	})
}
