package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"daybook/events"
	appends "daybook/internal/store/fill"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// A follower receives what its own process appends as the stream holds it, in order and
// without gaps, also if other processes append in between and the acknowledgements arrive in
// another order.
func TestFollowOwnAppends(t *testing.T) {
	t.Parallel()
	const appenders, each = 8, 50
	tests := []struct {
		name      string
		exclusive bool
		stores    int
	}{{"one process", true, 1}, {"two processes", false, 2}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := storetest.StartServer(t, t.TempDir())
			var stores []*jetstream.Store
			for range tt.stores {
				stores = append(stores, storetest.Open(t, server, jetstream.Options{Exclusive: tt.exclusive}))
			}
			s := stores[0]
			start, err := s.LastSeq(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var writers sync.WaitGroup
			defer writers.Wait() // the acknowledgement of an event may follow its delivery
			for i := range appenders {
				id := newID()
				writers.Go(func() {
					for range each {
						if _, err := stores[i%tt.stores].Append(t.Context(), started(id, 1), -1); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			var got []events.Stored
			err = s.FollowRaw(t.Context(), start, func(batch []events.Stored, _ uint64) error {
				if got = append(got, batch...); len(got) >= appenders*each {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				t.Fatal(err)
			}
			for i, m := range got {
				want, err := s.ReadRaw(t.Context(), m.Seq-1, 1)
				if err != nil {
					t.Fatal(err)
				}
				if diff := difference(m, want[0]); m.Seq != start+uint64(i)+1 || diff != "" {
					t.Fatalf("event %d is at position %d; difference to the stored one: %s", i+1, m.Seq, diff)
				}
			}
		})
	}
}

// difference compares two messages without the headers of the transport.
func difference(a, b events.Stored) string {
	attributes := func(m events.Stored) string {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(m.Header)) {
			if !strings.HasPrefix(name, "Nats-") {
				list = append(list, fmt.Sprint(name, m.Header[name]))
			}
		}
		return strings.Join(list, ", ")
	}
	switch {
	case a.Seq != b.Seq || a.Subject != b.Subject || !bytes.Equal(a.Body, b.Body):
		return fmt.Sprintf("%d %s %s; %d %s %s", a.Seq, a.Subject, a.Body, b.Seq, b.Subject, b.Body)
	case attributes(a) != attributes(b):
		return attributes(a) + "; " + attributes(b)
	}
	return ""
}

// Events that are not taken cost bounded memory, and none once the follower is far behind. An event before
// a gap is not skipped.
func TestAppendedIsBounded(t *testing.T) {
	t.Parallel()
	var k stream.Appended
	for seq := uint64(2); seq <= 4_096; seq++ {
		k.Add(events.Stored{Seq: seq, Body: make([]byte, 2000)})
		if n, size := k.Held(); n > 4096 || size > 5<<20 {
			t.Fatalf("%d events with %d bytes are kept", n, size)
		}
	}
	if list, later := k.Take(0); len(list) > 0 || !later {
		t.Errorf("%d events follow position 0, later ones: %v", len(list), later)
	}
	var read uint64 = 4_000
	for list, _ := k.Take(read); len(list) > 0; list, _ = k.Take(read) {
		if list[0].Seq != read+1 {
			t.Fatalf("position %d follows %d", list[0].Seq, read)
		}
		read += uint64(len(list))
	}
	k.Add(events.Stored{Seq: read})
	if n, size := k.Held(); read != 4_096 || n != 0 || size != 0 {
		t.Errorf("read up to %d; %d events with %d bytes are kept", read, n, size)
	}
	for seq := read + 1; seq <= read+10_000; seq++ {
		k.Add(events.Stored{Seq: seq, Body: make([]byte, 10)})
	}
	if n, size := k.Held(); n != 0 || size != 0 {
		t.Errorf("%d events with %d bytes are kept for a follower that is far behind", n, size)
	}
	if list, _ := k.Take(read); len(list) != 0 {
		t.Errorf("%d events follow position %d", len(list), read)
	}
	// Once it has read the stream, it receives events again.
	read += 10_000
	k.Take(read)
	k.Add(events.Stored{Seq: read + 1})
	if list, _ := k.Take(read); len(list) != 1 {
		t.Errorf("%d events follow position %d", len(list), read)
	}
}

// A follower of the only process also receives events that the server stored without an
// acknowledgement that the process received, as after the caller of an append has left: alone, and
// before events that were acknowledged.
func TestFollowUnacknowledgedAppends(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{Exclusive: true})
	conn, err := server.Conn("fill")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start, err := s.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := start
	unacknowledged := func() {
		last, err := appends.Events(t.Context(), conn, 1, end, slices.Values([]events.Event{started(newID(), 1)}))
		if end = last; err != nil {
			t.Error(err)
		}
	}
	acknowledged := func() {
		seq, err := s.Append(t.Context(), started(newID(), 1), -1)
		if end = seq; err != nil {
			t.Error(err)
		}
	}
	// Each step is taken once the follower has received all events before it.
	steps := []func(){
		unacknowledged,
		func() { unacknowledged(); acknowledged() },
		func() { acknowledged(); unacknowledged(); unacknowledged(); acknowledged(); acknowledged() },
		unacknowledged,
	}
	steps[0]()
	steps = steps[1:]
	read := start
	err = s.FollowRaw(t.Context(), start, func(batch []events.Stored, _ uint64) error {
		for _, m := range batch {
			if read++; m.Seq != read {
				t.Errorf("position %d follows %d", m.Seq, read-1)
			}
		}
		switch {
		case read < end:
			return nil
		case len(steps) == 0:
			return errEnough
		}
		steps[0]()
		steps = steps[1:]
		return nil
	})
	if !errors.Is(err, errEnough) || read != end {
		t.Errorf("the follower ends at %d of %d: %v", read, end, err)
	}
}
