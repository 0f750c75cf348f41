package torture_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/web/client"
)

var consumerKills = flag.Int("consumer-kills", tier.Choose(2, 10), "how often to kill each consumer")

// consumerVariable is the variable that makes a process of the test binary a consumer.
const consumerVariable = "DAYBOOK_TORTURE_CONSUMER"

var consumers = map[string]func(){"http": consumeHTTP, "nats": consumeNATS}

// The variables with the addresses and paths for a consumer.
const (
	serverVariable = "DAYBOOK_TORTURE_SERVER"
	natsVariable   = "DAYBOOK_TORTURE_NATS"
	dataVariable   = "DAYBOOK_TORTURE_DATA"
	recordVariable = "DAYBOOK_TORTURE_RECORD"
)

// notebook is the file in which a consumer records a line for each event. A kill can leave
// a part of the last line, which the next process removes.
type notebook struct {
	f    *os.File
	last uint64
	seen map[uint64]bool
}

func openNotebook() *notebook {
	f, err := os.OpenFile(os.Getenv(recordVariable), os.O_RDWR|os.O_CREATE, 0o600)
	must(err)
	raw, err := io.ReadAll(f)
	must(err)
	whole := bytes.LastIndexByte(raw, '\n') + 1
	must(f.Truncate(int64(whole)))
	_, err = f.Seek(int64(whole), io.SeekStart)
	must(err)
	n := &notebook{f: f, seen: map[uint64]bool{}}
	for line := range strings.Lines(string(raw[:whole])) {
		seq, _, _ := strings.Cut(line, " ")
		n.last, err = strconv.ParseUint(seq, 10, 64)
		must(err)
		n.seen[n.last] = true
	}
	return n
}

func (n *notebook) note(seq uint64, id string, data []byte) {
	_, err := fmt.Fprintf(n.f, "%d %s %x\n", seq, id, sha256.Sum256(data))
	must(err)
	n.last, n.seen[seq] = seq, true
}

// must ends the process of the consumer with an error, which the test prints.
func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

// consumeHTTP follows /api/events and resumes after the last event in its notebook.
func consumeHTTP() {
	n := openNotebook()
	resp, err := http.Get(fmt.Sprintf("%s/api/events?follow=true&after=%d", os.Getenv(serverVariable), n.last))
	must(err)
	if resp.StatusCode != http.StatusOK {
		must(fmt.Errorf("the server answered %s", resp.Status))
	}
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadBytes('\n')
		must(err)
		var e recorded
		var at struct {
			Sequence string `json:"sequence"`
		}
		must(json.Unmarshal(line, &e))
		must(json.Unmarshal(line, &at))
		if strings.HasPrefix(e.Type, "daybook.stream.") {
			continue
		}
		seq, err := strconv.ParseUint(at.Sequence, 10, 64)
		must(err)
		n.note(seq, e.ID, e.Data)
	}
}

// consumeNATS reads through a durable consumer and resumes after the acknowledged events.
// It skips repeated events, which are in its notebook.
func consumeNATS() {
	n := openNotebook()
	nc, err := nats.Connect("nats://"+os.Getenv(natsVariable), nats.UserCredentials(filepath.Join(os.Getenv(dataVariable), "nats", "default.creds")))
	must(err)
	js, err := jetstream.New(nc)
	must(err)
	c, err := js.CreateOrUpdateConsumer(context.Background(), "LEDGER-0001", jetstream.ConsumerConfig{
		Durable: "torture", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second, MaxAckPending: 32,
	})
	must(err)
	messages, err := c.Messages(jetstream.PullMaxMessages(32))
	must(err)
	for {
		m, err := messages.Next()
		must(err)
		at, err := m.Metadata()
		must(err)
		if !n.seen[at.Sequence.Stream] {
			n.note(at.Sequence.Stream, m.Headers().Get("ce-id"), m.Data())
		}
		must(m.Ack())
	}
}

// consumer is a process that runs one of the consumers, with its restarts.
type consumer struct {
	t      *testing.T
	kind   string
	s      *server
	record string
	cmd    *exec.Cmd
	errs   *lockedBuffer
}

func (c *consumer) start() {
	c.t.Helper()
	c.errs = &lockedBuffer{}
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), consumerVariable+"="+c.kind, serverVariable+"="+c.s.url(), natsVariable+"="+c.s.nats, dataVariable+"="+c.s.dir, recordVariable+"="+c.record)
	c.cmd.Stderr = c.errs
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL. The process must not have ended before.
func (c *consumer) kill() {
	c.t.Helper()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	if !c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		c.t.Fatalf("the %s consumer ended before it was killed: %s", c.kind, c.errs.String())
	}
}

func (c *consumer) size() int64 {
	info, err := os.Stat(c.record)
	if err != nil {
		return 0
	}
	return info.Size()
}

// killRepeatedly kills the consumer a number of times, at a random time after it has
// recorded an event, and then starts it a last time.
func (c *consumer) killRepeatedly(kills int, random *rand.Rand) {
	for range kills {
		before := c.size()
		c.start()
		for late := time.Now().Add(60 * time.Second); c.size() == before; {
			if time.Now().After(late) {
				c.t.Errorf("the %s consumer records nothing: %s", c.kind, c.errs.String())
				c.kill()
				return
			}
			time.Sleep(time.Millisecond) // polling another process
		}
		time.Sleep(time.Duration(random.Int64N(int64(120 * time.Millisecond)))) // a random time is the purpose of the test
		c.kill()
	}
	c.start()
}

// TestKillConsumers kills consumers of a busy server at random times, and then checks that
// each has recorded every event of the ledger exactly once, and that the one over HTTP has
// recorded them in order. "make torture" runs the long version.
func TestKillConsumers(t *testing.T) {
	runInParallel(t)
	setSeed()
	t.Logf("%d kills of each, -seed=%d", *consumerKills, *seed)
	s := newServer(t)
	s.nats = freeAddr(t)
	s.start()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for n := range 2 {
		load.Go(func() { submitRuns(ctx, s, n) })
	}
	all := []*consumer{{t: t, kind: "http", s: s}, {t: t, kind: "nats", s: s}}
	var living sync.WaitGroup
	for i, c := range all {
		c.record = filepath.Join(t.TempDir(), c.kind)
		random := rand.New(rand.NewPCG(*seed, uint64(i)))
		living.Go(func() { c.killRepeatedly(*consumerKills, random) })
	}
	living.Wait()
	stop()
	load.Wait()
	if t.Failed() {
		return
	}
	(&promises{}).settle(t, s)
	whole, ofLedger := settledLedger(t, s)
	for _, c := range all {
		want := whole
		if c.kind == "nats" { // this one sees only the events of its tenant
			want = slices.DeleteFunc(slices.Clone(whole), func(line string) bool { return ofLedger[position(t, line)] })
		}
		for late := time.Now().Add(2 * time.Minute); ; {
			raw, err := os.ReadFile(c.record)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.SplitAfter(string(raw), "\n")
			got = got[:len(got)-1]
			if c.kind == "nats" { // events that were not acknowledged in time come later
				slices.SortFunc(got, func(a, b string) int { return int(position(t, a)) - int(position(t, b)) })
			}
			if len(got) >= len(want) {
				if !slices.Equal(got, want) {
					t.Errorf("the %s consumer recorded %d events, the ledger holds %d; the first difference is at %d", c.kind, len(got), len(want), differ(got, want))
				}
				break
			}
			if time.Now().After(late) {
				t.Fatalf("the %s consumer recorded %d events, the ledger holds %d: %s", c.kind, len(got), len(want), c.errs.String())
			}
			time.Sleep(10 * time.Millisecond) // polling another process
		}
		c.kill()
	}
	t.Logf("%d events, each recorded exactly once by both", len(whole))
}

// submitRuns submits one run after the other.
func submitRuns(ctx context.Context, s *server, n int) {
	for i := 0; ctx.Err() == nil; i++ {
		code := fmt.Sprintf("console.log('run', %d); for (let i = 0; i < %d; i++) console.log('<line> & ', i); %d", i, i%40, i)
		answer, err := s.api().Submit(ctx, client.Run{Code: code, Session: fmt.Sprint("s", n)})
		if isRefusal(err) {
			continue
		}
		if err != nil {
			return
		}
		id := answer.Body.ExecutionID
		if i%5 == 0 { // a cancel that comes too late, or just in time
			_, _ = s.api().Cancel(ctx, id)
		}
		_, _ = s.api().Await(ctx, id, 10*time.Second)
	}
}

// settledLedger reads the ledger once no more events are added. It returns the events in
// the form of a notebook, and the positions of the ledger's own events.
func settledLedger(t *testing.T, s *server) (lines []string, ofLedger map[uint64]bool) {
	t.Helper()
	for last := -1; ; {
		list := s.ledger()
		if len(list) != last {
			last = len(list)
			time.Sleep(1500 * time.Millisecond) // a checkpoint may follow within a second
			continue
		}
		ofLedger = map[uint64]bool{}
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%d %s %x\n", e.Seq, e.ID, sha256.Sum256(e.Data)))
			ofLedger[e.Seq] = e.Raw["tenant"] == events.LedgerTenant
		}
		return lines, ofLedger
	}
}

func position(t *testing.T, line string) uint64 {
	t.Helper()
	text, _, _ := strings.Cut(line, " ")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func differ(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i + 1
		}
	}
	return min(len(a), len(b)) + 1
}
