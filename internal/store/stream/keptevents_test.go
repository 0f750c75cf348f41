package stream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jet"
)

// TestKeptEvents sends kept events the requests that a stream answers.
func TestKeptEvents(t *testing.T) {
	t.Parallel()
	var list []events.Stored
	for i, subject := range []string{"t.run.default.a", "t.exec.a", "u.webhook.w", "t.webhook.v", "t.exec.a", "t.out.00"} {
		list = append(list, events.Stored{Seq: uint64(10 * (i + 1)), Subject: fmt.Sprintf("ledger.%04d.%s", 1+i%2, subject), Header: map[string][]string{"ce-id": {fmt.Sprint(i)}}, Body: []byte("{}")})
	}
	x := newKeptEvents(events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{Volume: 2, Last: 70}}, list)
	for _, tt := range []struct {
		name string
		r    jet.Request
		want []uint64
		more int
	}{
		{"one", jet.Request{Seq: 20}, []uint64{20}, 4},
		{"a position without an event", jet.Request{Seq: 21}, nil, 0},
		{"from such a position on", jet.Request{Seq: 21, Batch: 2}, []uint64{30, 40}, 2},
		{"the last", jet.Request{LastBySubject: "ledger.0002.t.exec.a"}, []uint64{50}, 0},
		{"the last of many", jet.Request{LastBySubject: "ledger.0002.*.webhook.*"}, []uint64{40}, 0},
		{"none", jet.Request{LastBySubject: "ledger.0002.t.exec.b"}, nil, 0},
		{"the next", jet.Request{Seq: 21, NextBySubject: "ledger.0002.t.exec.a"}, []uint64{50}, 0},
		{"all of many", jet.Request{Seq: 1, NextBySubject: "ledger.0001.*.webhook.*", Batch: 9}, []uint64{30, 40}, 0},
		{"the ends", jet.Request{MultiLast: []string{"ledger.0001.t.run.*.a", "ledger.0001.t.exec.a"}, Batch: 2}, []uint64{10, 50}, 0},
		{"no more than fits", jet.Request{Seq: 1, Batch: 9, MaxBytes: 5}, []uint64{10, 20}, 4},
	} {
		got, more, _ := x.get(t.Context(), tt.r)
		var seqs []uint64
		for _, m := range got {
			seqs = append(seqs, m.Seq)
		}
		if diff := cmp.Diff(tt.want, seqs); diff != "" || more != tt.more {
			t.Errorf("%s: %d more, want %d %s", tt.name, more, tt.more, diff)
		}
	}
	raw, err := events.EncodeKept(list)
	if err != nil {
		t.Fatal(err)
	}
	again, err := events.DecodeKept(raw, 70)
	for i := range again {
		again[i].Removed = 0
	}
	if diff := cmp.Diff(list, again); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for name, text := range map[string]string{
		"cut off":      strings.TrimSuffix(string(raw), "\n"),
		"out of order": string(raw) + string(raw),
		"no subject":   `{"seq":1,"subject":"x","header":{},"body":""}` + "\n",
		"more members": `{"seq":1,"subject":"ledger.0001.t.x","header":{},"body":"","x":1}` + "\n",
	} {
		if _, err := events.DecodeKept([]byte(text), 70); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
	if _, err := events.DecodeKept(raw, 59); err == nil {
		t.Error("a position beyond the last was read")
	}
}
