package stream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// A sample is spread over the volumes, up to a position. Without a ledger it is empty
// and creates none.
func TestSample(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	conn, err := server.Conn("sample")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		if list, last, err := stream.Sample(t.Context(), conn, 9, 3); len(list) > 0 || last > 0 || err != nil {
			t.Fatalf("a server without a ledger has %v, %d, %v", list, last, err)
		}
	}
	s := storetest.Open(t, server, jetstream.Options{})
	for range 2 {
		for range 4 {
			mustAppend(t, s, requested(newID()), 0)
		}
		seal(t, s)
	}
	end := mustLast(t, s) // 12: four requests, a sealing and the next opening, twice
	all, err := s.ReadRaw(t.Context(), 0, int(end))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		upTo uint64
		n    int
		want []uint64
	}{
		{end, 3, []uint64{1, 6, 12}},
		{7, 3, []uint64{1, 4, 7}},
		{100, 1, []uint64{1}},
		{2, 16, []uint64{1, 2}},
		{0, 16, nil},
		{100, 100, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
	} {
		list, last, err := stream.Sample(t.Context(), conn, c.upTo, c.n)
		if err != nil || last != end {
			t.Errorf("%d up to %d: the end is %d, %v", c.n, c.upTo, last, err)
		}
		var got []uint64
		for _, m := range list {
			got = append(got, m.Seq)
			if m.Subject != all[m.Seq-1].Subject || string(m.Body) != string(all[m.Seq-1].Body) {
				t.Errorf("message %d differs", m.Seq)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d up to %d: %s", c.n, c.upTo, diff)
		}
	}
}
