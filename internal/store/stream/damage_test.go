package stream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// blocks returns the files with the messages of a stream.
func blocks(t *testing.T, dir, stream string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no message blocks of %s found: %v", stream, err)
	}
	return list
}

// flip changes one bit of the first occurrence of text in the blocks of a stream.
func flip(t *testing.T, dir, stream, text string) {
	t.Helper()
	for _, path := range blocks(t, dir, stream) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(b), text)
		if at < 0 {
			continue
		}
		b[at] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is not in the blocks of %s", text, stream)
}

// A flipped bit in the files of the ledger hides an event. The server does not report
// it to readers; each reader of this package does.
func TestAFlippedBitIsNoticed(t *testing.T) {
	t.Parallel()
	testFlippedBit(t, 50, 20)
}

// A bulk read notices a hole.
func TestAFlippedBitIsNoticedFarBehind(t *testing.T) {
	t.Parallel()
	testFlippedBit(t, 12_000, 9_000)
}

func testFlippedBit(t *testing.T, n, bad int) {
	t.Helper()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	var hidden string
	for i := 1; i <= n; i++ {
		e := requested(newID())
		if i == bad {
			hidden = e.About()
		}
		mustAppend(t, s, e, 0)
	}
	server.Close()
	flip(t, dir, firstStream, `{"execution_id":"`+hidden)

	s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{})
	if err := s.Health(t.Context()); err != nil {
		t.Logf("already known at the start: %v", err)
	}
	var err error
	var list []events.Event
	for after := uint64(0); err == nil && after < uint64(n); {
		if list, err = s.Read(t.Context(), after, n); len(list) > 0 {
			after = list[len(list)-1].Seq
		} else if err == nil {
			break
		}
	}
	if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), fmt.Sprintf("%d is followed by %d", bad-1, bad+1)) {
		t.Errorf("Read: %d events, %v; want damage after %d", len(list), err, bad-1)
	}
	var seen uint64
	err = s.Follow(t.Context(), 0, func(batch []events.Event, _ uint64) error {
		seen = batch[len(batch)-1].Seq
		return nil
	})
	if !errors.Is(err, events.ErrDamaged) || seen != uint64(bad-1) {
		t.Errorf("Follow: up to %d, %v; want all events before %d, then damage", seen, err, bad)
	}
	if err := s.Health(t.Context()); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Health: %v, want the damage", err)
	}
}

// The server cuts off a damaged end and would reuse its positions.
func TestALostEndIsNoticed(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	for range 5 {
		mustAppend(t, s, requested(newID()), 0)
	}
	err := s.Follow(t.Context(), 6, func([]events.Event, uint64) error { return nil })
	if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "ends at position 5") || !strings.Contains(err.Error(), "6") {
		t.Errorf("Follow from beyond the end: %v, want damage naming both", err)
	}
}

func TestOpenRefusesALedgerWithMissingEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	s := storetest.Open(t, server, jetstream.Options{})
	for range 50 {
		mustAppend(t, s, requested(newID()), 0)
	}
	server.Close()
	first := blocks(t, dir, firstStream)[0]
	info, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(first, info.Size()-100); err != nil {
		t.Fatal(err)
	}
	server = storetest.StartServer(t, dir)
	nc, _ := raw(t, server)
	if _, err := jetstream.Open(t.Context(), nc, nc, jetstream.Options{Client: jet.Options{Logger: storetest.Logger(t)}}); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Open: %v, want damage", err)
	}
}

// A message on a subject of the ledger that is no event stops readers, with its
// position.
func TestForeignMessagesAreDamage(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	s := storetest.Open(t, server, jetstream.Options{})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	_, js := raw(t, server)
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "ledger.0001.default.exec." + id, Data: []byte("no event")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), 0, 10); !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "event 2") {
		t.Errorf("Read: %v", err)
	}
	if _, err := s.Execution(t.Context(), tenant, id); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Execution: %v", err)
	}
}

// Follow continues after broken connections. No event is lost or repeated.
func TestFollowOverBrokenConnections(t *testing.T) {
	t.Parallel()
	s, network, _ := unreliable(t, jetstream.Options{Client: jet.Options{TryWait: time.Second}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const rounds, each = 5, 30
	seen := make(chan uint64, rounds*each)
	done := make(chan error, 1)
	go func() {
		done <- s.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
			for _, e := range batch {
				seen <- e.Seq
			}
			return nil
		})
	}()
	next := uint64(1)
	for range rounds {
		for range each {
			mustAppend(t, s, requested(newID()), 0)
		}
		for range each {
			if got := <-seen; got != next {
				t.Fatalf("got %d, want %d", got, next)
			}
			next++
		}
		network.breakAll()
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
}

func TestFollowReturnsTheFunctionsError(t *testing.T) {
	t.Parallel()
	s := storetest.Start(t)
	for range 3000 {
		mustAppend(t, s, output(newID(), 1), -1)
	}
	calls := 0
	err := s.Follow(t.Context(), 0, func(batch []events.Event, last uint64) error {
		if calls++; last != 3000 {
			t.Errorf("last known is %d, want 3000", last)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}
