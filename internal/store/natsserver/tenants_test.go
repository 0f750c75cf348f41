package natsserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/queue"
	"daybook/internal/store/storetest"
)

// twoTenants is a ledger with events of two tenants, each with a subscriber.
type twoTenants struct {
	server   *natsserver.Server
	store    *jetstream.Store
	a, b     login
	ofA, ofB []uint64 // positions
}

func newTwoTenants(t *testing.T) *twoTenants {
	t.Helper()
	w := &twoTenants{server: listening(t, t.TempDir()), a: newLogin(t, "one", "alpha"), b: newLogin(t, "two", "beta")}
	w.store = storetest.Open(t, w.server, jetstream.Options{})
	admit(t, w.server, w.a, w.b)
	for range 3 {
		w.ofA = append(w.ofA, w.record(t, "alpha"))
		w.ofB = append(w.ofB, w.record(t, "beta"))
	}
	return w
}

// record appends an event that contains the secret of its tenant.
func (w *twoTenants) record(t *testing.T, tenant string) uint64 {
	t.Helper()
	now := time.Now()
	seq, err := w.store.Append(t.Context(), events.New(tenant, now, &events.ExecutionRequested{ExecutionID: events.NewID(now), Pool: events.DefaultPool, FileName: "secret-of-" + tenant}), 0)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

const stranger = 300 * time.Millisecond // how long a request waits that must not be answered

// No request of a subscriber to JetStream returns a byte of another tenant's events, to
// its inbox or to another subject that it can read.
func TestOtherTenantsAreUnreadable(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	b := w.b.connect(t, w.server)
	bjs, err := natsjs.New(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bjs.CreateConsumer(t.Context(), "LEDGER-0001", natsjs.ConsumerConfig{Durable: "books", AckPolicy: natsjs.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	a := w.a.connect(t, w.server)
	seen := make(chan *nats.Msg, 4096)
	for _, subject := range []string{">", "*", "events.>", "events.*.>", "events.beta.>", "replay.>", "replay.beta.x", "ledger.>", "ledger.0001.beta.>", "_INBOX.>", "$JS.>", "$O.>", "$KV.>", "$SYS.>", "_R_.>", "gate.>", "ctl.>"} {
		if _, err := a.ChanSubscribe(subject, seen); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	inside := "subscriber~beta~books"
	create := func(config string) string { return `{"stream_name":"LEDGER-0001","config":` + config + `}` }
	api := "$JS.API."
	asked := 0
	for _, q := range [][2]string{
		{"INFO", ""}, {"STREAM.NAMES", ""}, {"STREAM.LIST", ""},
		{"STREAM.INFO.LEDGER-0001", `{"subjects_filter":">"}`}, {"STREAM.INFO.OBJ_BLOBS", `{"subjects_filter":">"}`},
		{"STREAM.MSG.GET.LEDGER-0001", `{"last_by_subj":"ledger.0001.beta.>"}`}, {"STREAM.MSG.GET.LEDGER-0001", `{"last_by_subj":"ledger.0001.*.>"}`},
		{"STREAM.MSG.GET.LEDGER-0001", `{"seq":1,"next_by_subj":"ledger.0001.beta.>"}`}, {"STREAM.MSG.GET.LEDGER-0001", `{"seq":1,"next_by_subj":">"}`},
		{"STREAM.MSG.GET.OBJ_BLOBS", `{"seq":1}`}, {"DIRECT.GET.OBJ_BLOBS", `{"seq":1}`},
		{"DIRECT.GET.LEDGER-0001", `{"last_by_subj":"ledger.0001.beta.>"}`}, {"DIRECT.GET.LEDGER-0001", `{"multi_last":["ledger.0001.beta.>"],"batch":10}`},
		{"DIRECT.GET.LEDGER-0001", `{"seq":1,"batch":100}`}, {"DIRECT.GET.LEDGER-0001", `{"seq":1,"next_by_subj":"ledger.0001.*.run.>","batch":100}`}, {"DIRECT.GET.LEDGER-0001.ledger.0001.beta.>", ""}, {"DIRECT.GET.LEDGER-0001.>", ""},
		{"CONSUMER.CREATE.LEDGER-0001", create(`{}`)}, {"CONSUMER.DURABLE.CREATE.LEDGER-0001.x", create(`{"durable_name":"x"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x.ledger.0001.beta.>", create(`{"name":"x","filter_subject":"ledger.0001.beta.>"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x.ledger.0001.alpha.>", create(`{"name":"x","filter_subject":"ledger.0001.beta.>"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", create(`{"name":"x","filter_subject":"ledger.0001.*.>"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", create(`{"name":"x","filter_subject":">"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", create(`{"name":"x","filter_subjects":["ledger.0001.alpha.>","ledger.0001.beta.>"]}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", create(`{"name":"x","filter_subject":"ledger.0001.alpha.>","filter_subjects":["ledger.0001.beta.>"]}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", create(`{"name":"x","deliver_subject":"_INBOX.x","ack_policy":"none"}`)},
		{"CONSUMER.CREATE.LEDGER-0001." + inside, create(`{"name":"` + inside + `","durable_name":"` + inside + `"}`)},
		{"CONSUMER.CREATE.LEDGER-0001.x", strings.Replace(create(`{"name":"x"}`), "LEDGER-0001", "OBJ_BLOBS", 1)},
		{"CONSUMER.INFO.LEDGER-0001." + inside, ""}, {"CONSUMER.INFO.LEDGER-0001.books", ""}, {"CONSUMER.NAMES.LEDGER-0001", ""}, {"CONSUMER.LIST.LEDGER-0001", ""},
		{"CONSUMER.DELETE.LEDGER-0001." + inside, ""}, {"CONSUMER.DELETE.LEDGER-0001.books", ""},
		{"CONSUMER.MSG.NEXT.LEDGER-0001." + inside, "5"}, {"CONSUMER.MSG.NEXT.LEDGER-0001.books", "5"}, {"CONSUMER.MSG.NEXT.LEDGER-0001." + queue.WorkConsumer(events.DefaultPool, events.DefaultTenant), "5"},
		{"CONSUMER.PAUSE.LEDGER-0001." + inside, `{"pause_until":"2099-01-01T00:00:00Z"}`}, {"CONSUMER.RESET.LEDGER-0001." + inside, `{"seq":1}`}, {"CONSUMER.UNPIN.LEDGER-0001." + inside, `{}`},
		{"STREAM.CREATE.COPY", `{"name":"COPY","sources":[{"name":"LEDGER-0001"}]}`}, {"STREAM.CREATE.COPY", `{"name":"COPY","subjects":["events.>"]}`},
		{"STREAM.SNAPSHOT.LEDGER-0001", `{"deliver_subject":"_INBOX.x"}`}, {"STREAM.UPDATE.LEDGER-0001", `{"name":"LEDGER-0001","republish":{"src":">","dest":"events.alpha.>"}}`},
	} {
		for i, reply := range []string{a.NewInbox(), "events.alpha.reply", "replay.alpha.reply", "gate.next.LEDGER-0001." + inside, "$JS.ACK.LEDGER-0001." + inside + ".1.1.1.1.0"} {
			if i > 0 && strings.HasPrefix(q[0], "CONSUMER.CREATE") && strings.Contains(q[1], "pause") {
				continue
			}
			if err := a.PublishRequest(api+q[0], reply, []byte(q[1])); err != nil {
				t.Fatal(err)
			}
			asked++
		}
	}
	for _, seq := range w.ofB {
		for _, subject := range []string{"STREAM.MSG.GET.LEDGER-0001", "DIRECT.GET.LEDGER-0001"} {
			if err := a.PublishRequest(api+subject, a.NewInbox(), fmt.Appendf(nil, `{"seq":%d}`, seq)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A request that is allowed comes last: when it is answered, all others were.
	m, err := a.Request(api+"STREAM.MSG.GET.LEDGER-0001", fmt.Appendf(nil, `{"seq":%d}`, w.ofA[0]), 20*time.Second)
	if err != nil || !strings.Contains(string(m.Data), `"seq":`) {
		t.Fatalf("own event: %v, %v", m, err)
	}
	w.record(t, "beta")
	w.record(t, "alpha")
	answers, late := 0, time.Now().Add(20*time.Second)
	for quiet := false; !quiet; {
		select {
		case m := <-seen:
			answers++
			text := string(m.Data)
			refusal := strings.Contains(text, `"error"`) // which repeats the request
			if strings.Contains(text, "secret-of-beta") || strings.Contains(fmt.Sprint(m.Header), "beta") || strings.Contains(text, "beta") && !refusal {
				t.Errorf("%s received %v %s", m.Subject, m.Header, text)
			}
		case <-time.After(stranger):
			quiet = answers >= asked/5 || time.Now().After(late)
		}
	}
	if answers < asked/5 { // one reply of five is readable
		t.Errorf("%d answers to %d requests", answers, asked)
	}
	info, err := bjs.Consumer(t.Context(), "LEDGER-0001", "books")
	if err != nil {
		t.Fatal(err)
	}
	if i := info.CachedInfo(); i.Delivered.Consumer != 0 || i.NumPending != uint64(len(w.ofB))+1 || i.Config.PauseUntil != nil {
		t.Errorf("the consumer of the other tenant changed: %+v", i)
	}
	if streams := w.names(t); len(streams) != 2 {
		t.Errorf("the streams are %q", streams)
	}
}

// names returns the streams of the account of the ledger.
func (w *twoTenants) names(t *testing.T) (list []string) {
	t.Helper()
	nc, err := w.server.Conn("test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		list = append(list, name)
	}
	return list
}

// The consumer of a tenant delivers all its events and no others. An acknowledgement
// for a delivery of another tenant has no effect.
func TestConsumersStayWithTheirTenant(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	conn := func(l login) natsjs.Consumer {
		js, err := natsjs.New(l.connect(t, w.server))
		if err != nil {
			t.Fatal(err)
		}
		c, err := js.CreateConsumer(t.Context(), "LEDGER-0001", natsjs.ConsumerConfig{Durable: "same", AckPolicy: natsjs.AckExplicitPolicy, AckWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := conn(w.a), conn(w.b)
	read := func(c natsjs.Consumer, tenant string) (list []natsjs.Msg) {
		for _, fetch := range []func() (natsjs.MessageBatch, error){
			func() (natsjs.MessageBatch, error) { return c.Fetch(3, natsjs.FetchMaxWait(20*time.Second)) },
			func() (natsjs.MessageBatch, error) { return c.FetchNoWait(10) }, // there are no more
		} {
			batch, err := fetch()
			if err != nil {
				t.Fatal(err)
			}
			for m := range batch.Messages() {
				if !strings.Contains(string(m.Data()), "secret-of-"+tenant) {
					t.Errorf("the consumer of %s received %s %s", tenant, m.Subject(), m.Data())
				}
				list = append(list, m)
			}
		}
		if len(list) != 3 {
			t.Errorf("the consumer of %s received %d events", tenant, len(list))
		}
		return list
	}
	read(a, "alpha")
	ofB := read(b, "beta")
	evil := w.a.connect(t, w.server)
	for _, m := range ofB {
		for _, body := range []string{"+ACK", "-NAK", "+TERM"} {
			if err := evil.PublishRequest(m.Reply(), evil.NewInbox(), []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := evil.Request("$JS.API.INFO", nil, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	info, err := b.Info(t.Context())
	if err != nil || info.NumAckPending != 3 || info.AckFloor.Consumer != 0 || info.NumRedelivered != 0 {
		t.Errorf("acknowledgements of another tenant counted: %+v, %v", info, err)
	}
	if err := ofB[0].DoubleAck(t.Context()); err != nil {
		t.Error(err)
	}
	if info, err = b.Info(t.Context()); err != nil || info.NumAckPending != 2 {
		t.Errorf("its own did not: %+v, %v", info, err)
	}
}

// A tenant has a bounded number of consumers of bounded size. All of them are deleted
// if they are not used.
func TestConsumersAreBounded(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	js, err := natsjs.New(w.a.connect(t, w.server))
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string, c natsjs.ConsumerConfig) error {
		c.Name = name
		_, err := js.CreateConsumer(t.Context(), "LEDGER-0001", c)
		return err
	}
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]natsjs.ConsumerConfig{
		"metadata": {Metadata: map[string]string{"k": long}}, "description": {Description: long}, "filters": {FilterSubjects: many("ledger.0001.alpha.exec.%d", 17)},
	} {
		if err := create(name, c); err == nil || !strings.Contains(err.Error(), "limit") {
			t.Errorf("too large in %s: %v", name, err)
		}
	}
	if err := create(long, natsjs.ConsumerConfig{}); err == nil {
		t.Error("a long name was accepted")
	}
	made := 0
	for ; made < 100 && err == nil; made++ {
		durable := ""
		if made%2 == 0 {
			durable = fmt.Sprintf("c%d", made)
		}
		err = create(fmt.Sprintf("c%d", made), natsjs.ConsumerConfig{Durable: durable, MaxAckPending: 1 << 20, MaxWaiting: 1 << 20, InactiveThreshold: 10 * time.Second})
	}
	var refused *natsjs.APIError
	if made != 33 || !errors.As(err, &refused) || refused.ErrorCode != natsjs.ErrorCode(10026) {
		t.Errorf("after %d consumers: %v", made, err)
	}
	for i, memory := range []bool{false, true} {
		c, err := js.Consumer(t.Context(), "LEDGER-0001", fmt.Sprintf("c%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.CachedInfo().Config; got.MaxAckPending != 1000 || got.MaxWaiting != 128 || got.InactiveThreshold != 10*time.Second || got.MemoryStorage != memory || got.FilterSubject != "ledger.0001.alpha.>" {
			t.Errorf("consumer %d is %+v", i, got)
		}
	}
	if _, err := js.UpdateConsumer(t.Context(), "LEDGER-0001", natsjs.ConsumerConfig{Name: "c0", Durable: "c0", MaxAckPending: 5}); err != nil {
		t.Errorf("an existing consumer cannot be changed at the limit: %v", err)
	}
	other, err := natsjs.New(w.b.connect(t, w.server))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.CreateConsumer(t.Context(), "LEDGER-0001", natsjs.ConsumerConfig{}); err != nil {
		t.Errorf("the limit of one tenant stops another one: %v", err)
	}
}

func many(format string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

// A new key or the removal of a subscriber closes its connections, and no others.
func TestRotationEndsConnections(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	closed := make(chan string, 4)
	dial := func(name string, l login) *nats.Conn {
		t.Helper()
		nc, err := l.dial(w.server, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { closed <- name }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	dial("a", w.a)
	b := dial("b", w.b)
	renewed := newLogin(t, "one", "alpha")
	admit(t, w.server, renewed, w.b)
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-closed:
			if got != want {
				t.Errorf("the connection of %s was closed, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("the connection of %s stays open", want)
		}
	}
	expect("a")
	if nc, err := w.a.dial(w.server); err == nil {
		nc.Close()
		t.Error("the old key is accepted")
	}
	dial("renewed", renewed)
	admit(t, w.server, w.b)
	expect("renewed")
	if _, err := b.Request("$JS.API.INFO", nil, 20*time.Second); err != nil {
		t.Errorf("the other subscriber: %v", err)
	}
	admit(t, w.server, renewed, w.b) // it reconnects
	dial("again", renewed)
}

// The subscribers of a tenant have a bounded number of connections.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	var conns []*nats.Conn
	for {
		nc, err := w.a.dial(w.server)
		if err != nil {
			break
		}
		t.Cleanup(nc.Close)
		if conns = append(conns, nc); len(conns) > 100 {
			break
		}
	}
	if len(conns) != 16 {
		t.Errorf("%d connections are open", len(conns))
	}
	w.b.connect(t, w.server)
	conns[0].Close()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	for {
		nc, err := w.a.dial(w.server)
		if err == nil {
			nc.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("a closed connection still counts: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// The name that a client chooses is not taken for a message about the disk.
func TestClientNamesAreNoDiskErrors(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	nc, err := w.a.dial(w.server, nats.Name("critical write error, disabling JetStream, DISABLED"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, subject := range []string{"ledger.>", "DISABLED"} {
		if err := nc.Publish(subject, nil); err != nil { // a violation is logged with the name
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(w.server.Writable()); cause != nil {
		t.Errorf("the server takes the client's name for a failed write: %v", cause)
	}
}

// stalled is a connection that stops reading once the test sends on stop.
type stalled struct {
	net.Conn
	stop <-chan struct{}
}

func (c stalled) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.stop:
		<-c.stop // until the test closes it at its end
	default:
	}
	return n, err
}

type stalledDialer struct{ stop <-chan struct{} }

func (d stalledDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return stalled{c, d.stop}, err
}

// A subscriber that does not read loses its connection before many bytes wait for it.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	stop := make(chan struct{}, 1)
	t.Cleanup(func() { close(stop) })
	slow, err := w.a.dial(w.server, nats.NoReconnect(), nats.SetCustomDialer(stalledDialer{stop}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	if _, err := slow.Subscribe("events.alpha.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := slow.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 15 {
		w.a.connect(t, w.server)
	}
	if nc, err := w.a.dial(w.server); err == nil {
		nc.Close()
		t.Fatal("there is space for another connection")
	}
	stop <- struct{}{}
	large := strings.Repeat("x", 400<<10)
	for range 64 {
		now := time.Now()
		if _, err := w.store.Append(t.Context(), events.New("alpha", now, &events.ExecutionRequested{ExecutionID: events.NewID(now), Pool: events.DefaultPool, FileName: large}), 0); err != nil {
			t.Fatal(err)
		}
	}
	for late := time.Now().Add(8 * time.Second); ; { // nats-server itself closes it after 10 s
		nc, err := w.a.dial(w.server)
		if err == nil {
			nc.Close()
			return
		}
		if time.Now().After(late) {
			t.Fatal("the connection stays open")
		}
	}
}

// A key that is given to another tenant reads nothing of the former one, also through
// open connections.
func TestKeyOfAnotherTenant(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	closed := make(chan struct{})
	if _, err := w.a.dial(w.server, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) })); err != nil {
		t.Fatal(err)
	}
	moved := w.a
	moved.Tenant = "beta"
	admit(t, w.server, moved)
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("the earlier connection stays open")
	}
	nc := moved.connect(t, w.server)
	get := func(seq uint64) string {
		t.Helper()
		m, err := nc.Request("$JS.API.DIRECT.GET.LEDGER-0001", fmt.Appendf(nil, `{"seq":%d}`, seq), 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m.Header.Get("Nats-Sequence")
	}
	if got := get(w.ofA[0]); got != "" {
		t.Errorf("it reads event %s of the former tenant", got)
	}
	if got, want := get(w.ofB[0]), fmt.Sprint(w.ofB[0]); got != want {
		t.Errorf("it reads event %q of its tenant, want %s", got, want)
	}
}

// An answered get leaves no return path in the server.
func TestGetsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	w := newTwoTenants(t)
	nc := w.a.connect(t, w.server)
	for range 20 {
		m, err := nc.Request("$JS.API.DIRECT.GET.LEDGER-0001", fmt.Appendf(nil, `{"seq":%d}`, w.ofA[0]), 20*time.Second)
		if err != nil || m.Header.Get("Nats-Sequence") == "" {
			t.Fatalf("get event %d: %+v, %v", w.ofA[0], m, err)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); natsserver.PendingAnswers(w.server) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the server keeps %d return paths", natsserver.PendingAnswers(w.server))
		}
		time.Sleep(time.Millisecond)
	}
}
