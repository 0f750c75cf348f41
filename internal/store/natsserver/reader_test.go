package natsserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listening starts a server that readers can connect to.
func listening(t *testing.T, dir string) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(t.Context(), natsserver.Options{
		StoreDir: dir, Listen: "127.0.0.1:0", NoSync: true, Logger: storetest.Logger(t),
		ReadableStreams: stream.Streams(), ProtectedStreams: []string{stream.ArchiveStream}, TenantSubjects: stream.TenantSubjects,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// login is a subscriber and its key.
type login struct {
	natsserver.Subscriber
	keys nkeys.KeyPair
}

func newLogin(t *testing.T, id, tenant string) login {
	t.Helper()
	keys, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := keys.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return login{natsserver.Subscriber{ID: id, Tenant: tenant, PublicKey: public}, keys}
}

// admit sets these subscribers and no others.
func admit(t *testing.T, s *natsserver.Server, logins ...login) {
	t.Helper()
	list := make([]natsserver.Subscriber, len(logins))
	for i, l := range logins {
		list[i] = l.Subscriber
	}
	if err := s.SetSubscribers(list); err != nil {
		t.Fatal(err)
	}
}

// dial connects as a subscriber does.
func (l login) dial(s *natsserver.Server, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("nats://"+s.Addr(), append([]nats.Option{
		nats.Nkey(l.PublicKey, l.keys.Sign),
		nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.Timeout(time.Minute), // a machine under load may need more than the default of 2 s
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // refused operations show by their missing effect
	}, opts...)...)
}

// connect is dial for a login that must succeed.
func (l login) connect(t *testing.T, s *natsserver.Server) *nats.Conn {
	t.Helper()
	nc, err := l.dial(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// reader connects as the only subscriber.
func reader(t *testing.T, s *natsserver.Server) *nats.Conn {
	t.Helper()
	l := newLogin(t, "reader", events.DefaultTenant)
	admit(t, s, l)
	return l.connect(t, s)
}

func requested() events.Event {
	now := time.Now()
	return events.New(events.DefaultTenant, now, &events.ExecutionRequested{ExecutionID: events.NewID(now), Pool: events.DefaultPool})
}

func record(t *testing.T, s *jetstream.Store, n int) {
	t.Helper()
	for range n {
		if _, err := s.Append(t.Context(), requested(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// A reader with an ordinary ordered consumer receives every event from the first on,
// and live ones.
func TestReaderHasConsumersOfItsOwn(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 20)
	js, err := natsjs.New(reader(t, server))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), stream.Streams()[0], natsjs.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for want := uint64(1); want <= 25; want++ {
		if want == 21 {
			record(t, store, 5)
		}
		m, err := messages.Next(natsjs.NextMaxWait(20 * time.Second))
		if err != nil {
			t.Fatalf("event %d: %v", want, err)
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Stream != want {
			t.Fatalf("event %d: got %+v, %v", want, meta, err)
		}
	}
	stream, err := js.Stream(t.Context(), stream.Streams()[0])
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetMsg(t.Context(), 7); err != nil || m.Sequence != 7 {
		t.Errorf("get by position: %+v, %v", m, err)
	}
}

// A durable consumer of a reader keeps its position by acknowledgements.
func TestReaderMayAcknowledge(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 2)
	js, err := natsjs.New(reader(t, server))
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), stream.Streams()[0], natsjs.ConsumerConfig{Durable: "auditor", AckPolicy: natsjs.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(natsjs.FetchMaxWait(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil || info.AckFloor.Stream != 1 {
		t.Errorf("after one acknowledgement: %+v, %v", info, err)
	}
}

// A reader sees and deletes its own consumers, and not those of the run queue.
func TestReaderRemovesConsumers(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 1)
	stream := stream.Streams()[0]
	owner, err := server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	inside, err := natsjs.New(owner)
	if err != nil {
		t.Fatal(err)
	}
	work := queue.WorkConsumer(events.DefaultPool, events.DefaultTenant)
	if _, err := inside.Consumer(t.Context(), stream, work); err != nil { // the request created it
		t.Fatal(err)
	}
	js, err := natsjs.New(reader(t, server), natsjs.WithDefaultTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), stream, natsjs.ConsumerConfig{Durable: "auditor"}); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	names := func() (list []string) {
		all := s.ConsumerNames(t.Context())
		for name := range all.Name() {
			list = append(list, name)
		}
		if all.Err() != nil {
			t.Error(all.Err())
		}
		slices.Sort(list)
		return list
	}
	if got := names(); !slices.Equal(got, []string{"auditor"}) {
		t.Errorf("the consumers are %q", got)
	}
	if err := s.DeleteConsumer(t.Context(), work); err == nil {
		t.Error("a reader deleted a consumer of the run queue")
	}
	if err := s.DeleteConsumer(t.Context(), "nobody"); !errors.Is(err, natsjs.ErrConsumerNotFound) {
		t.Errorf("delete a consumer that does not exist: %v", err)
	}
	if err := s.DeleteConsumer(t.Context(), "auditor"); err != nil {
		t.Errorf("remove one of its own: %v", err)
	}
	if got := names(); len(got) > 0 {
		t.Errorf("the consumers are %q", got)
	}
	if _, err := inside.Consumer(t.Context(), stream, work); err != nil {
		t.Errorf("the consumer of the run queue: %v", err)
	}
}

// No request of a reader changes the ledger, the blobs, the run queue or the cancel
// subjects. Most of these tries use a permission of the reader, with an answer or a
// delivery addressed to a subject for which it has none.
func TestReaderCannotWrite(t *testing.T) {
	t.Parallel()
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	record(t, store, 3)
	heap, err := store.PutHeap(t.Context(), events.DefaultTenant, []byte("state"), "e")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	ctl, err := owner.SubscribeSync("ctl.>")
	if err != nil {
		t.Fatal(err)
	}
	acks, err := owner.SubscribeSync("$JS.ACK.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Flush(); err != nil {
		t.Fatal(err)
	}
	nc := reader(t, server)
	targets := []string{
		"ledger.0001.default.exec.evil", "ctl.default.exec.x.cancel", "$O.BLOBS.C.evil", "$O.BLOBS.M.evil",
		"$JS.API.STREAM.DELETE.OBJ_BLOBS", "$JS.ACK.LEDGER-0001.runners-default.1.1.1.1.0",
	}
	questions := map[string]string{
		"$JS.API.STREAM.INFO.LEDGER-0001":                    ``,
		"$JS.API.INFO":                                       ``,
		"$JS.API.DIRECT.GET.LEDGER-0001":                     `{"seq":1,"no_hdr":true}`,
		"$JS.API.STREAM.MSG.GET.LEDGER-0001":                 `{"seq":1}`,
		"$JS.API.CONSUMER.CREATE.LEDGER-0001.a":              `{"stream_name":"LEDGER-0001","config":{"ack_policy":"none"}}`,
		"$JS.API.CONSUMER.MSG.NEXT.LEDGER-0001.a":            `1`,
		"$JS.API.CONSUMER.MSG.NEXT.LEDGER-0001.runners-test": `1`,
		"$JS.API.CONSUMER.NAMES.LEDGER-0001":                 ``,
		"$JS.API.CONSUMER.LIST.LEDGER-0001":                  ``,
		"$JS.API.CONSUMER.DELETE.LEDGER-0001.a":              ``,
		"$JS.API.STREAM.DELETE.LEDGER-0001":                  ``,
		"$JS.API.STREAM.PURGE.LEDGER-0001":                   ``,
		"$JS.API.STREAM.UPDATE.LEDGER-0001":                  `{"name":"LEDGER-0001","max_age":1}`,
		"$JS.API.STREAM.MSG.DELETE.LEDGER-0001":              `{"seq":1}`,
		"$JS.API.CONSUMER.PAUSE.LEDGER-0001.runners-default": `{}`,
		"$JS.API.CONSUMER.RESET.LEDGER-0001.runners-default": `{}`,
	}
	for _, target := range targets {
		for subject, body := range questions {
			if err := nc.PublishRequest(subject, target, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Publish(target, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, target := range targets {
		name := fmt.Sprintf("c%d", i)
		refused(t, nc, name, map[string]any{"deliver_subject": target, "headers_only": true, "ack_policy": "none"})
	}
	refused(t, nc, "other", map[string]any{"name": "runners-default", "ack_policy": "explicit"})
	refused(t, nc, "other", map[string]any{"durable_name": "runners-default", "ack_policy": "explicit"})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, sub := range map[string]*nats.Subscription{"cancel": ctl, "acknowledgement": acks} {
		if m, err := sub.NextMsg(100 * time.Millisecond); err == nil {
			t.Errorf("a reader reached the %s subject %s: %q", name, m.Subject, m.Data)
		}
	}
	if last, err := store.LastSeq(t.Context()); err != nil || last != 3 {
		t.Errorf("the ledger ends at %d, %v; want 3", last, err)
	}
	if list, err := store.Read(t.Context(), 0, 10); err != nil || len(list) != 3 {
		t.Errorf("the ledger reads as %d events, %v", len(list), err)
	}
	if blob, _, err := store.Heap(t.Context(), events.DefaultTenant, heap); err != nil || string(blob) != "state" {
		t.Errorf("the heap is %q, %v", blob, err)
	}
	if err := store.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

// refused requests a consumer that must not be created.
func refused(t *testing.T, nc *nats.Conn, name string, config map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"stream_name": "LEDGER-0001", "config": config})
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.Request("$JS.API.CONSUMER.CREATE.LEDGER-0001."+name, body, 20*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"code":403`) {
		t.Errorf("consumer %s with %v: %v, %v; want it refused", name, config, m, err)
	}
}

// A ledger can be opened with and without a listener.
func TestListenerComesAndGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, start := range []func() *natsserver.Server{
		func() *natsserver.Server { return storetest.StartServer(t, dir) },
		func() *natsserver.Server { return listening(t, dir) },
		func() *natsserver.Server { return storetest.StartServer(t, dir) },
	} {
		server := start()
		store := storetest.Open(t, server, jetstream.Options{})
		if last, err := store.LastSeq(t.Context()); err != nil || last != uint64(i) {
			t.Fatalf("start %d: the ledger ends at %d, %v", i, last, err)
		}
		record(t, store, 1)
		if err := server.Sync(); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	busy := listening(t, t.TempDir())
	for name, addr := range map[string]string{"busy": busy.Addr(), "no port": "127.0.0.1", "bad port": "127.0.0.1:x"} {
		s, err := natsserver.Start(t.Context(), natsserver.Options{StoreDir: t.TempDir(), Listen: addr, NoSync: true, Logger: storetest.Logger(t)})
		if err == nil {
			s.Close()
			t.Errorf("%s: started on %s", name, addr)
		}
	}
	s, err := natsserver.Start(t.Context(), natsserver.Options{StoreDir: t.TempDir(), Listen: busy.Addr(), Fallback: true, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Addr() == "" || s.Addr() == busy.Addr() {
		t.Errorf("fell back to %q", s.Addr())
	}
}
