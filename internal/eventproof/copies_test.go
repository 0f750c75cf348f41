package eventproof_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/proof"
)

// startServer starts a NATS server without the restrictions of the embedded one.
func startServer(t *testing.T) (connect func() *nats.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return func() *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

// read returns the first n messages of a stream.
func read(t *testing.T, s natsjs.Stream, n uint64) (list []events.Stored) {
	t.Helper()
	for info, err := s.Info(within(t)); info.State.LastSeq < n; info, err = s.Info(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for seq := range n {
		m, err := s.GetMsg(within(t), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, events.Stored{Seq: m.Sequence, Subject: m.Subject, Header: m.Header, Body: m.Data})
	}
	return list
}

// A copy of an event at the same position and subject has the leaf of the event, although
// what copies it removes and adds headers of the transport. An event of record version 1 has
// another leaf in each of these copies.
func TestLeavesOfCopies(t *testing.T) {
	t.Parallel()
	connect := startServer(t)
	nc := connect()
	store, err := jetstream.Open(within(t), connect(), connect(), jetstream.Options{Client: jet.Options{Logger: storetest.Logger(t)}})
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("events.>", published); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}

	// An execution, in which the second event expects the position of the first; and output, which has no message id.
	id := events.NewID(time.Now())
	var n uint64
	for after, d := range []events.Data{
		&events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}})},
		&events.ExecutionCancelRequested{ExecutionID: id},
		&events.ExecutionOutput{ExecutionID: id, Attempt: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: "x"}}})},
	} {
		e := events.New(events.DefaultTenant, time.Now(), d)
		e.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		expect := int64(0)
		if after == 2 {
			expect = -1
		}
		if n, err = store.Append(within(t), e, expect); err != nil {
			t.Fatal(err)
		}
	}
	ledger, err := js.Stream(within(t), "LEDGER-0001")
	if err != nil {
		t.Fatal(err)
	}
	stored := read(t, ledger, n)

	create := func(c natsjs.StreamConfig) natsjs.Stream {
		t.Helper()
		s, err := js.CreateStream(within(t), c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	copies := map[string][]events.Stored{
		"a mirror": read(t, create(natsjs.StreamConfig{Name: "MIRROR", Mirror: &natsjs.StreamSource{Name: "LEDGER-0001"}}), n),
		"a source": read(t, create(natsjs.StreamConfig{Name: "SOURCE", Sources: []*natsjs.StreamSource{{Name: "LEDGER-0001"}}}), n),
	}

	// Clients copy the messages to another server, without the headers of NATS.
	there, err := natsjs.New(startServer(t)())
	if err != nil {
		t.Fatal(err)
	}
	migrated, err := there.CreateStream(within(t), natsjs.StreamConfig{Name: "LEDGER-0001", Subjects: []string{"ledger.0001.>"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range stored {
		header := nats.Header(maps.Clone(m.Header))
		maps.DeleteFunc(header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") })
		if _, err := there.PublishMsg(within(t), &nats.Msg{Subject: m.Subject, Header: header, Data: m.Body}); err != nil {
			t.Fatal(err)
		}
	}
	copies["a migration by a client"] = read(t, migrated, n)

	// A subscriber has the position and the stored subject in headers.
	for range n {
		select {
		case m := <-published:
			copies["a subscriber"] = append(copies["a subscriber"], events.Stored{
				Seq: uint64(len(copies["a subscriber"])) + 1, Subject: m.Header.Get("Nats-Subject"), Header: m.Header, Body: m.Data,
			})
		case <-within(t).Done():
			t.Fatal("an event is not published")
		}
	}

	leaf := func(m events.Stored, version int) proof.Hash {
		t.Helper()
		if m.Header = maps.Clone(m.Header); version == 1 {
			delete(m.Header, "ce-recordversion")
		}
		h, err := proof.LeafHash(eventproof.RecordOf(m))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for name, list := range copies {
		for i, m := range list {
			if leaf(m, 2) != leaf(stored[i], 2) {
				t.Errorf("event %d in %s has another leaf\nheaders %v\nstored  %v", m.Seq, name, m.Header, stored[i].Header)
			}
			// Output has no headers of the transport, and a subscriber receives all headers.
			if same := i == 2 || name == "a subscriber"; (leaf(m, 1) == leaf(stored[i], 1)) != same {
				t.Errorf("event %d in %s has the leaf of version 1 that it has in the ledger: %t, want %t", m.Seq, name, !same, same)
			}
		}
	}
}
