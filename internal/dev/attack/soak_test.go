package attack_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	soakTime  = flag.Duration("soak", 0, "how long TestSoak runs; 0 skips it")
	soakKills = flag.Duration("soak-kill-every", 10*time.Minute, "time between two kills of the server in TestSoak")
	soakSeed  = flag.Uint64("soak-seed", 0, "seed of the random order in TestSoak; 0 picks one")
)

// afterKill is the time after the restarted server is ready in which a connection error
// still counts as an effect of the kill.
const afterKill = 3 * time.Second

// soak is a server with its tenants and its downtimes.
type soak struct {
	t        *testing.T
	s        *server
	operator string
	pause    sync.RWMutex // held for reading during each step of an honest tenant

	mu       sync.Mutex // guards the fields below
	downs    []downtime
	failures int
	refused  map[string]int // refusals with a Retry-After, by status and method
}

// downtime is a period without a server. Its end is zero while it lasts.
type downtime struct{ from, to time.Time }

// Three honest tenants and a hostile one share a server that is killed periodically. Each
// acknowledged run is recorded exactly once with its result and output, every error has a
// cause, and at the end memory, descriptors, goroutines, temporary files and disk space
// are back at their first level. "make torture-soak" runs an hour.
func TestSoak(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("-soak is 0: the other tests of this package cover each attack, internal/dev/torture covers kills")
	}
	if *soakSeed == 0 {
		*soakSeed = uint64(time.Now().UnixNano())
	}
	t.Logf("-soak=%v -soak-kill-every=%v -soak-seed=%d", *soakTime, *soakKills, *soakSeed)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nats := l.Addr().String()
	l.Close()
	s := newServer(t, "--nats-addr="+nats)
	s.temp = t.TempDir()
	k := &soak{t: t, s: s, operator: s.token("default", "read,admin"), refused: map[string]int{}}
	enemy := &hostile{k: k, token: s.token("hostile", "read,run"), nats: nats, random: rand.New(rand.NewPCG(*soakSeed, 0))}
	var books []*book
	for i := range 3 {
		name := fmt.Sprintf("honest%d", i)
		books = append(books, newBook(k, name, s.token(name, "read,run"), rand.New(rand.NewPCG(*soakSeed, uint64(i+1)))))
	}
	s.start()
	enemy.credentials = s.command("nats", "credentials", "create", "--tenant", "hostile", "--data-dir", s.dir)
	s.probe(enemy.token, 5) // its worker is part of the reference level
	idle, most := s.memory(), int64(0)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	followCtx, stopFollowing := context.WithCancel(t.Context())
	defer stopFollowing()
	var honest, following sync.WaitGroup
	for _, b := range books {
		honest.Go(func() { b.work(ctx) })
		following.Go(func() { b.follow(followCtx) })
	}
	table := levelTable{k: k}
	time.Sleep(min(time.Minute, *soakTime/5)) // the reference level has the load of the honest tenants
	k.pause.Lock()
	reference := table.measure("reference")
	k.pause.Unlock()

	hostileCtx, stopHostile := context.WithCancel(ctx)
	var attacking sync.WaitGroup
	attacking.Go(func() { enemy.attack(hostileCtx) })
	kill := time.NewTicker(*soakKills)
	defer kill.Stop()
	levels := time.NewTicker(min(5*time.Minute, *soakTime/4))
	defer levels.Stop()
	alive := time.NewTicker(100 * time.Millisecond)
	defer alive.Stop()
	kills := 0
	end := time.Now().Add(*soakTime)
	for ended := time.After(*soakTime); ended != nil; {
		select {
		case <-ended:
			ended = nil
		case <-levels.C:
			peak := s.peak()
			table.measure("under attack")
			most = max(most, peak())
		case <-alive.C:
			if s.exited() {
				t.Fatalf("the server ended without a signal of the test:\n%.8000s", s.log.String())
			}
			now := s.memory()
			if step := int64(32 << 20); now/step > most/step && now-idle > maxGrowth*3/4 {
				_, m := k.runtime()
				t.Logf("%s memory: %d MiB more than idle; objects, between, free MiB of Go: %v", time.Now().UTC().Format(time.TimeOnly), (now-idle)>>20, m)
			}
			most = max(most, now)
		case <-kill.C:
			if time.Until(end) < *soakKills/2 {
				continue // too late: the last process must be attacked for a long time before the last level
			}
			most = max(most, k.kill())
			kills++
			for _, b := range books {
				b.kills.Add(1)
			}
		}
	}
	peak := s.peak()
	stopHostile()
	attacking.Wait()
	enemy.cancelAll(t.Context())
	enemy.endSessions(t.Context())
	k.pause.Lock() // waits for the current step of each tenant
	last := table.settle(reference)
	most = max(most, peak())
	stop()
	k.pause.Unlock()
	honest.Wait()
	table.print()
	for _, b := range books {
		b.check(t.Context(), true)
		b.checkEvents()
	}
	stopFollowing()
	following.Wait()
	for _, b := range books {
		t.Logf("%s: %d runs acknowledged, %d submissions without an answer, %d runs checked after kills, %d events followed",
			b.tenant, len(b.entries), b.unknown, b.checked, b.events)
	}
	t.Logf("the server used up to %d MiB more than idle", (most-idle)>>20)
	if most-idle > maxGrowth {
		t.Errorf("the server used %d MiB more than idle, the limit is %d", (most-idle)>>20, int64(maxGrowth)>>20)
	}
	t.Logf("%d kills, %d attacks: %v; refusals with Retry-After: %v", kills, enemy.attacks, enemy.counts, k.refused)
	last.compare(t, reference)
	s.end(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the server ended with the status %d", code)
	}
	k.checkLog()
	s.verifyLedger(0)
	if k.failures > 0 {
		t.Errorf("%d failures; -soak-seed=%d", k.failures, *soakSeed)
	}
}

// kill ends the server with SIGKILL and starts it again. It returns the largest memory of
// the new process until it was ready.
func (k *soak) kill() int64 {
	k.mu.Lock()
	k.downs = append(k.downs, downtime{from: time.Now()})
	k.mu.Unlock()
	k.s.end(syscall.SIGKILL)
	k.checkLog()
	began := time.Now()
	k.s.launch()
	peak := k.s.peak()
	k.s.ready()
	most := peak()
	k.mu.Lock()
	k.downs[len(k.downs)-1].to = time.Now()
	k.mu.Unlock()
	k.t.Logf("killed; ready again after %v with up to %d MiB", time.Since(began).Round(time.Millisecond), most>>20)
	return most
}

// checkLog reports a failure for each panic that the server has caught since its start.
func (k *soak) checkLog() {
	for line := range strings.Lines(k.s.log.String()) {
		if strings.Contains(line, "panic: ") || strings.Contains(line, "panic in ") {
			k.failf("the log of the server: %.2000s", line)
		}
	}
}

// killsSince returns the number of downtimes since a time.
func (k *soak) killsSince(since time.Time) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.downs {
		if d.to.IsZero() || since.Before(d.to) {
			n++
		}
	}
	return n
}

// isExplained reports whether the server was down between a request and now, or shortly
// before.
func (k *soak) isExplained(asked time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.downs {
		if d.to.IsZero() || asked.Before(d.to.Add(afterKill)) {
			if d.from.Before(time.Now()) {
				return true
			}
		}
	}
	return false
}

// failf records a failure. The first 50 are printed.
func (k *soak) failf(format string, args ...any) {
	k.mu.Lock()
	k.failures++
	n := k.failures
	k.mu.Unlock()
	if n <= 50 {
		k.t.Errorf("%s %s", time.Now().UTC().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
}

// refusal records a refusal with a Retry-After and waits for that time, for at most 5 s.
// It reports whether the answer was such a refusal.
func (k *soak) refusal(ctx context.Context, resp *http.Response) bool {
	after := resp.Header.Get("Retry-After")
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable || after == "" {
		return false
	}
	k.mu.Lock()
	k.refused[fmt.Sprint(resp.StatusCode, " ", resp.Request.Method)]++
	k.mu.Unlock()
	d, err := time.ParseDuration(after + "s")
	if err != nil {
		d = time.Second
	}
	sleep(ctx, min(d, 5*time.Second))
	return true
}

// sleep waits for a time or the end of the context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fileSizes returns the bytes of the ledger and its blobs, of the projections and proofs,
// and of all other files of the server, and the number of temporary files.
func (k *soak) fileSizes() (ledger, derived, other int64, temporary int) {
	err := filepath.WalkDir(k.s.dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		size := info.Size()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size = st.Blocks * 512
		}
		rel, _ := filepath.Rel(k.s.dir, path)
		switch name := filepath.Base(path); {
		case isTemporary(name):
			temporary++
			other += size
		case filepath.Base(filepath.Dir(path)) == "msgs":
			ledger += size
		case name == "projections.db" || filepath.Dir(rel) == "audit" || filepath.Dir(filepath.Dir(rel)) == "audit":
			derived += size
		default:
			other += size
		}
		return nil
	})
	if err != nil {
		k.failf("list the data directory: %v", err)
	}
	list, err := os.ReadDir(k.s.temp)
	if err != nil {
		k.failf("list the temporary files: %v", err)
	}
	return ledger, derived, other, temporary + len(list)
}
