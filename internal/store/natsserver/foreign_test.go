package natsserver_test

import (
	"bufio"
	"errors"
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natscreds"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// Clients of other projects, which CI installs; see .ci/subscribers.
var (
	natsCLI = flag.String("nats-cli", "", "the nats command")
	node    = flag.String("node", "", "the node command")
	nodeDir = flag.String("node-dir", "", "folder of follow.mjs and its packages")
)

// seen is an event as a client prints it.
type seen struct {
	seq uint64
	id  string
}

// foreignClient is a client in a process of its own.
type foreignClient struct {
	name string
	cmd  *exec.Cmd
	read func(*bufio.Reader) (seen, error)
	got  chan seen
}

var (
	cliStart = regexp.MustCompile(`^\[#\d+\] Received`)
	cliSeq   = regexp.MustCompile(`^(?:Nats-Sequence: |\[#\d+\] Received JetStream message: stream: \S+ seq )(\d+)`)
	cliID    = regexp.MustCompile(`^ce-id: (\S+)`)
)

// readCLI reads one event from the output of "nats sub".
func readCLI(r *bufio.Reader) (s seen, err error) {
	for s.seq == 0 || s.id == "" {
		line, err := r.ReadString('\n')
		if err != nil {
			return s, err
		}
		if cliStart.MatchString(line) {
			s = seen{}
		}
		if m := cliSeq.FindStringSubmatch(line); m != nil {
			s.seq, _ = strconv.ParseUint(m[1], 10, 64)
		}
		if m := cliID.FindStringSubmatch(line); m != nil {
			s.id = m[1]
		}
	}
	return s, nil
}

var nodeLine = regexp.MustCompile(`^(\d+) (\S+)\n`)

// readNode reads one event from the output of follow.mjs.
func readNode(r *bufio.Reader) (s seen, err error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return s, err
		}
		if m := nodeLine.FindStringSubmatch(line); m != nil {
			s.seq, _ = strconv.ParseUint(m[1], 10, 64)
			s.id = m[2]
			return s, nil
		}
	}
}

// start runs the client until the test ends.
func (f *foreignClient) start(t *testing.T) {
	t.Helper()
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.cmd.Stderr = t.Output()
	f.got = make(chan seen, 10_000)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(f.got)
		for in := bufio.NewReader(out); ; {
			s, err := f.read(in)
			if err != nil {
				_, _ = io.Copy(io.Discard, in)
				return
			}
			f.got <- s
		}
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-gone
		_ = f.cmd.Wait() // it was killed
	})
}

// next waits for an event.
func (f *foreignClient) next(t *testing.T) seen {
	t.Helper()
	select {
	case s, ok := <-f.got:
		if !ok {
			t.Fatalf("%s ended", f.name)
		}
		return s
	case <-time.After(60 * time.Second):
		t.Fatalf("%s shows nothing more", f.name)
	}
	return seen{}
}

// Clients of other projects, live and from the first event, receive each stored event
// exactly once, in order, and no refused event.
func TestForeignClients(t *testing.T) {
	if *natsCLI == "" || *node == "" || *nodeDir == "" {
		t.Skip("needs the clients that .ci/subscribers installs")
	}
	server := listening(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{})
	dir := t.TempDir()
	credential, err := natscreds.Create(dir, "subscriber", events.DefaultTenant, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SetSubscribers([]natsserver.Subscriber{{ID: credential.ID, Tenant: credential.Tenant, PublicKey: credential.PublicKey}}); err != nil {
		t.Fatal(err)
	}
	file, url := credential.File(dir), "nats://"+server.Addr()
	record(t, store, 20) // only clients from the first event receive these
	cli := func(args ...string) *exec.Cmd {
		return exec.Command(*natsCLI, append([]string{"--server", url, "--creds", file}, args...)...)
	}
	script := func(mode string) *exec.Cmd {
		return exec.Command(*node, filepath.Join(*nodeDir, "follow.mjs"), mode, url, file, "1000000")
	}
	live := []*foreignClient{
		{name: "nats, live", cmd: cli("sub", "events.default.>", "--headers-only"), read: readCLI},
		{name: "node, live", cmd: script("live"), read: readNode},
	}
	whole := []*foreignClient{
		{name: "nats, from the start", cmd: cli("sub", "--stream", stream.Streams()[0], "--all", "--headers-only"), read: readCLI},
		{name: "node, from the start", cmd: script("start"), read: readNode},
	}
	first := map[*foreignClient]seen{}
	for _, f := range append(live, whole...) {
		f.start(t)
	}
	// A live client is subscribed when it prints an event.
	for _, f := range live {
		for late := time.After(60 * time.Second); first[f].seq == 0; {
			record(t, store, 1)
			select {
			case s, ok := <-f.got:
				if !ok {
					t.Fatalf("%s ended", f.name)
				}
				first[f] = s
			case <-time.After(20 * time.Millisecond):
			case <-late:
				t.Fatalf("%s shows nothing", f.name)
			}
		}
	}
	refused := race(t, store, 300)
	list, err := store.Read(t.Context(), 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(live, whole...) {
		got := first[f]
		if got.seq == 0 {
			got = f.next(t)
			if got.seq != 1 {
				t.Errorf("%s begins at %d", f.name, got.seq)
			}
		}
		for want := got.seq; ; want++ {
			if got.seq != want || got.id != list[want-1].ID {
				t.Fatalf("%s shows %d %s, want %d %s", f.name, got.seq, got.id, want, list[want-1].ID)
			}
			if refused[got.id] {
				t.Fatalf("%s shows %s, which was refused", f.name, got.id)
			}
			if want == uint64(len(list)) {
				break
			}
			got = f.next(t)
		}
		select {
		case s := <-f.got:
			t.Errorf("%s shows more events than were stored: %+v", f.name, s)
		default:
		}
	}
	t.Logf("%d events, %d refused", len(list), len(refused))
}

// race records ends of executions, each against two others that are too late.
func race(t *testing.T, store *jetstream.Store, n int) (refused map[string]bool) {
	t.Helper()
	refused = map[string]bool{}
	for range n {
		request := requested()
		if _, err := store.Append(t.Context(), request, 0); err != nil {
			t.Fatal(err)
		}
		ending := events.Ending{ExecutionID: request.About()}
		for i, d := range []events.Data{&events.ExecutionCancelled{Ending: ending}, &events.ExecutionCompleted{Ending: ending}, &events.ExecutionTimedOut{Ending: ending}} {
			e := events.New(events.DefaultTenant, time.Now(), d)
			_, err := store.Append(t.Context(), e, 0)
			if won := err == nil; won != (i == 0) || !won && !errors.Is(err, events.ErrConflict) {
				t.Fatalf("end %d: %v", i, err)
			}
			if i > 0 {
				refused[e.ID] = true
			}
		}
	}
	return refused
}
