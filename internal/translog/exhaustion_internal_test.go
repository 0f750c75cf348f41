package translog

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"daybook/events"
)

// faultyLedger returns an error from one of its methods while it fails.
type faultyLedger struct {
	*memoryLedger
	mu     sync.Mutex
	err    error
	method string
	hits   int
	hit    chan struct{} // closed after some errors
}

func (f *faultyLedger) fail(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || f.method != method {
		return nil
	}
	if f.hits++; f.hits == 3 {
		close(f.hit)
	}
	return f.err
}

func (f *faultyLedger) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = nil
}

func (f *faultyLedger) LastSeq(ctx context.Context) (uint64, error) {
	if err := f.fail("LastSeq"); err != nil {
		return 0, err
	}
	return f.memoryLedger.LastSeq(ctx)
}

func (f *faultyLedger) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if err := f.fail("Append"); err != nil {
		return 0, err
	}
	return f.memoryLedger.Append(ctx, e, after)
}

func (f *faultyLedger) FollowRaw(ctx context.Context, after uint64, fn func([]events.Stored, uint64) error) error {
	if err := f.fail("FollowRaw"); err != nil {
		return err
	}
	return f.memoryLedger.FollowRaw(ctx, after, fn)
}

// Run continues after errors of the feed and of the ledger, also those that a store returns instead
// of the shortage behind them, and FinalCheckpoint signs all events as soon as they end.
func TestRunOutlastsErrors(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"LastSeq", "Append", "FollowRaw"} {
		for _, cause := range []error{&os.PathError{Op: "open", Path: "1.blk", Err: syscall.EMFILE}, errors.New("nats: timeout")} {
			t.Run(method+" "+cause.Error(), func(t *testing.T) {
				t.Parallel()
				ledger := &faultyLedger{memoryLedger: newMemoryLedger(), method: method, err: cause, hit: make(chan struct{})}
				ledger.fill(t, 3000)
				l, err := Open(Options{Dir: t.TempDir(), NoSync: true, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				l.exhaustedPause = time.Millisecond
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- l.Run(ctx, ledger, ledger) }()
				final := make(chan error, 1)
				go func() { final <- l.FinalCheckpoint(t.Context(), ledger) }()
				select {
				case <-ledger.hit:
				case err := <-ended:
					t.Fatalf("Run ended with %v", err)
				}
				ledger.heal()
				select {
				case err := <-final:
					if c, _ := l.Latest(); err != nil || c.Size < 3000 {
						t.Errorf("FinalCheckpoint: %v; %d events are signed", err, c.Size)
					}
				case err := <-ended:
					t.Fatalf("Run ended with %v", err)
				}
				stop()
				<-ended
			})
		}
	}
}

// The environment of the child of TestRunWithoutDescriptors.
const childEnv = "DAYBOOK_TEST_DESCRIPTORS"

// While a process may open no more files, now and then and at any place, Run does not end. A clean
// stop then leaves no event unsigned, and the files are those of the tree.
func TestRunWithoutDescriptors(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		withoutDescriptors(t)
		return
	}
	t.Parallel()
	// Without a time limit of its own, the child would outlive a test that is killed.
	cmd := exec.Command(os.Args[0], "-test.run=^TestRunWithoutDescriptors$", "-test.v", "-test.timeout=5m")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), childEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("signed all events")) {
		t.Errorf("the child: %v\n%s", err, out)
	}
}

func withoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	ledger := newMemoryLedger()
	ledger.fill(t, 700)
	l, err := Open(Options{Dir: dir, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.exhaustedPause = time.Millisecond
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	allow := func(yes bool) {
		now := limit
		if !yes {
			now.Cur = 3
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
			t.Error(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, ledger, ledger) }()
	reached := func(what string, condition func() bool) {
		t.Helper()
		for late := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%s takes too long", what)
			}
			select {
			case err := <-ended:
				t.Fatalf("%s: Run ended with %v", what, err)
			default:
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 0))
	for range 40 {
		allow(false)
		ledger.fill(t, 1+r.IntN(600))
		if r.IntN(2) == 0 {
			l.signal()
		}
		for range r.IntN(3) {
			_ = l.makeDurable() // it fails at any place
		}
		allow(true)
		if r.IntN(3) > 0 { // otherwise the next shortage begins before the tree has caught up
			last, _ := ledger.LastSeq(ctx)
			reached("hashing", func() bool { return l.Size() >= last })
		}
	}
	// A clean stop during a shortage that ends while FinalCheckpoint waits.
	allow(false)
	ledger.fill(t, 3000)
	final := make(chan error, 1)
	go func() { final <- l.FinalCheckpoint(ctx, ledger) }()
	time.AfterFunc(300*time.Millisecond, func() { allow(true) })
	if err := <-final; err != nil {
		t.Fatalf("FinalCheckpoint: %v", err)
	}
	last, _ := ledger.LastSeq(ctx)
	if c, _ := l.Latest(); c.Size < last {
		t.Fatalf("%d of %d events are signed", c.Size, last)
	}
	allow(false)
	lifted := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() { allow(true); close(lifted) })
	stop()
	err = <-ended
	<-lifted
	if !errors.Is(err, context.Canceled) || errors.Is(err, syscall.EMFILE) {
		t.Fatalf("Run: %v", err)
	}
	d, err := readDurable(dir)
	if err != nil || d.size != l.tree.Size() || d.root != l.tree.Root() {
		t.Fatalf("the saved tree has %d events, %v; the log has %d", d.size, err, l.tree.Size())
	}
	if again, err := (&tileFiles{dir: dir}).load(d.size); err != nil || again.Root() != d.root {
		t.Fatalf("load the tree: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, fileCheckpoints)); err != nil {
		t.Fatal(err)
	}
	t.Log("signed all events")
}
