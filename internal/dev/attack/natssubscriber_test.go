package attack_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// A subscriber of one tenant cannot read events of another tenant through any API.
// Hundreds of large consumers are refused and cost no memory, a flood of requests does not
// slow the runs of another tenant, and no output contains a private key.
func TestHostileSubscriber(t *testing.T) {
	attack(t, "TestOtherTenantsAreUnreadable and others in internal/store/natsserver, TestSubscriberCredentials in embed")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	s := startServer(t, "--nats-addr="+addr)
	quiet, mallory := s.token("quiet", "read,run"), s.token("mallory", "read,run")
	var printed strings.Builder
	credential := func(args ...string) string {
		out := s.command(append([]string{"nats", "credentials"}, append(args, "--data-dir", s.dir)...)...)
		printed.WriteString(out)
		return strings.TrimSpace(out)
	}
	file := credential("create", "--tenant", "mallory")
	credential("create", "--tenant", "quiet")
	credential("list")
	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.run(quiet, `console.log("secret-of-quiet"); "secret-of-quiet"`, map[string]any{"session": "secret-of-quiet"})
	s.run(mallory, `console.log("mine")`, nil)

	nc := dialNATS(t, addr, file)
	seen := make(chan *nats.Msg, 1<<16)
	for _, subject := range []string{">", "events.>", "events.quiet.>", "replay.quiet.>", "ledger.>", "_INBOX.>", "$JS.>", "$O.>", "$SYS.>", "events.mallory.>"} {
		if _, err := nc.ChanSubscribe(subject, seen); err != nil {
			t.Fatal(err)
		}
	}
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "LEDGER-0001")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	if len(info.State.Subjects) > 0 {
		t.Errorf("the subjects of all tenants are listed: %v", info.State.Subjects)
	}
	own := 0
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		for _, api := range []string{"STREAM.MSG.GET", "DIRECT.GET"} {
			m, err := nc.Request("$JS.API."+api+".LEDGER-0001", fmt.Appendf(nil, `{"seq":%d}`, seq), 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(m.Data)+fmt.Sprint(m.Header), "quiet") {
				t.Errorf("%s of event %d answers %v %s", api, seq, m.Header, m.Data)
			}
		}
	}
	for subject, body := range map[string]string{
		"DIRECT.GET.LEDGER-0001.ledger.0001.quiet.>":         ``,
		"CONSUMER.CREATE.LEDGER-0001.a.ledger.0001.quiet.>":  `{"stream_name":"LEDGER-0001","config":{"name":"a","filter_subject":"ledger.0001.quiet.>"}}`,
		"CONSUMER.CREATE.LEDGER-0001.b":                      `{"stream_name":"LEDGER-0001","config":{"name":"b","filter_subjects":["ledger.0001.mallory.>","ledger.0001.quiet.>"]}}`,
		"CONSUMER.CREATE.LEDGER-0001":                        `{"stream_name":"LEDGER-0001","config":{"deliver_subject":"_INBOX.evil"}}`,
		"CONSUMER.DURABLE.CREATE.LEDGER-0001.c":              `{"stream_name":"LEDGER-0001","config":{"durable_name":"c","deliver_subject":"events.mallory.x"}}`,
		"STREAM.CREATE.COPY":                                 `{"name":"COPY","sources":[{"name":"LEDGER-0001"}]}`,
		"STREAM.MSG.GET.OBJ_BLOBS":                           `{"seq":1}`,
		"CONSUMER.MSG.NEXT.LEDGER-0001.subscriber~quiet~all": `10`,
	} {
		if err := nc.PublishRequest("$JS.API."+subject, nc.NewInbox(), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := js.OrderedConsumer(t.Context(), "LEDGER-0001", natsjs.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := all.Fetch(1000, natsjs.FetchMaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		own++
		if !strings.HasPrefix(m.Subject(), "ledger.0001.mallory.") {
			t.Errorf("a consumer without a filter receives %s", m.Subject())
		}
	}
	if own == 0 {
		t.Error("the subscriber receives no events of its own tenant from the stream")
	}
	s.run(quiet, `console.log("secret-of-quiet")`, nil)
	s.run(mallory, `console.log("live")`, nil)
	live := false
	for drained := false; !drained; {
		select {
		case m := <-seen:
			refusal := strings.Contains(string(m.Data), `"error"`) // an error repeats the request
			if text := m.Subject + string(m.Data) + fmt.Sprint(m.Header); strings.Contains(text, "quiet") && !refusal {
				t.Errorf("received %s", text)
			}
			live = live || strings.HasPrefix(m.Subject, "events.mallory.")
		case <-time.After(500 * time.Millisecond):
			drained = true
		}
	}
	if !live {
		t.Error("the subscriber receives no live events of its own tenant")
	}

	alone := s.baseline(quiet)
	idle := s.memory()
	peak := s.peak()
	made, large := 0, strings.Repeat("m", 100_000)
	for i := range choose(100, 800) {
		for _, metadata := range []map[string]string{{"m": large}, {"m": "small"}} {
			request, err := json.Marshal(map[string]any{"stream_name": "LEDGER-0001", "config": map[string]any{"durable_name": fmt.Sprintf("c%d", i), "ack_policy": "explicit", "metadata": metadata}})
			if err != nil {
				t.Fatal(err)
			}
			m, err := nc.Request(fmt.Sprintf("$JS.API.CONSUMER.CREATE.LEDGER-0001.c%d", i), request, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(m.Data), `"error"`) {
				made++
			}
		}
	}
	if grown := peak() - idle; made != 31 || grown > 50<<20 {
		t.Errorf("%d consumers were created besides the ordered one, want 31; the server grew by %d MiB", made, grown>>20)
	}

	// Eight connections send requests as fast as they can.
	peak = s.peak()
	stop := make(chan struct{})
	var flood sync.WaitGroup
	for range 8 {
		nc := dialNATS(t, addr, file)
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				requestMuch(nc)
			}
		})
	}
	beside := s.probe(quiet, probes())
	time.Sleep(choose(time.Second, 20*time.Second)) // the flood continues
	close(stop)
	flood.Wait()
	grown := peak() - idle
	t.Logf("%d consumers were created; the server grew by %d MiB", made, grown>>20)
	s.compare("a flood of NATS requests", alone, beside)
	if grown > maxGrowth {
		t.Errorf("the server grew by %d MiB", grown>>20)
	}

	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	credential("rotate", "mallory")
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("a rotation leaves the connection open")
	}
	seed := regexp.MustCompile(`\bSU[A-Z2-7]{50,}`)
	secret := seed.FindString(string(key))
	if size := len(s.log.String()); size > 64<<10 {
		t.Errorf("the server logged %d KiB", size>>10)
	}
	if secret == "" || strings.Contains(s.log.String()+printed.String(), secret) || seed.MatchString(s.log.String()+printed.String()) {
		t.Errorf("a private key is printed:\n%s\n%s", s.log.String(), printed.String())
	}
}

func connectNATS(addr, file string) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, nats.UserCredentials(file), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// requestMuch sends requests without reading answers.
func requestMuch(nc *nats.Conn) {
	for range 100 {
		_ = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.LEDGER-0001.c1", "_INBOX.none", []byte(`{"batch":1000,"expires":3600000000000}`))
		_ = nc.PublishRequest("$JS.API.STREAM.LIST", "_INBOX.none", nil)
	}
	_ = nc.Flush()
}

func dialNATS(t *testing.T, addr, file string) *nats.Conn {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; { // the server accepts a new credential after a short time
		nc, err := connectNATS(addr, file)
		if err == nil {
			t.Cleanup(nc.Close)
			return nc
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// A server that requires tokens does not listen on NATS unless a flag requests it.
func TestNATSIsOffWithTokens(t *testing.T) {
	attack(t, "options of serve in internal/cli")
	runInParallel(t)
	s := newServer(t)
	cmd := exec.Command(s.bin, "serve", "--data-dir", s.dir, "--http-addr", s.addr, "--auth", "tokens="+s.tokenFile())
	cmd.Env = s.env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() }()
	ready := false
	for in := bufio.NewScanner(out); !ready && in.Scan(); {
		if strings.Contains(in.Text(), "nats://") {
			t.Errorf("the server listens: %s", in.Text())
		}
		ready = strings.HasPrefix(in.Text(), "Ready")
	}
	if !ready {
		t.Error("the server did not start")
	}
}
