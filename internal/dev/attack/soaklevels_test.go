package attack_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The bounds of a soak, in comparison with the reference level.
const (
	soakMemory      = 64 << 20 // bytes: the Go runtime returns memory in steps
	soakDescriptors = 10       // workers of other tenants and files of the store
	soakGoroutines  = 10       // percent
	soakOther       = 32 << 20 // bytes: the log of SQLite keeps the size that it reached
)

// level is the resource usage of the server at one time.
type level struct {
	at                    time.Duration
	name                  string
	memory                int64 // bytes
	runtime               runtimeMemory
	descriptors           int
	goroutines            int
	temporary             int   // files
	ledger, derived, rest int64 // bytes on disk
}

// levelTable measures levels and stores them.
type levelTable struct {
	k      *soak
	began  time.Time
	levels []level
}

const levelHeader = "|    after | level        | memory MiB | objects, between, free MiB of Go | descriptors | goroutines | temporary files | ledger MiB | derived MiB | other MiB |"

func (l level) String() string {
	return fmt.Sprintf("| %8v | %-12s | %10d | %32s | %11d | %10d | %15d | %10d | %11d | %9d |", l.at.Round(time.Second), l.name, l.memory>>20, l.runtime, l.descriptors,
		l.goroutines, l.temporary, l.ledger>>20, l.derived>>20, l.rest>>20)
}

// measure adds a level. The connections of the test that have no request are closed
// first.
func (t *levelTable) measure(name string) level {
	l := t.read(name)
	t.levels = append(t.levels, l)
	t.k.t.Logf("\n%s\n%s", levelHeader, l)
	return l
}

func (t *levelTable) read(name string) level {
	http.DefaultClient.CloseIdleConnections()
	if t.began.IsZero() {
		t.began = time.Now()
	}
	l := level{name: name, at: time.Since(t.began), memory: t.k.s.memory(), descriptors: t.k.s.descriptors()}
	l.goroutines, l.runtime = t.k.runtime()
	l.ledger, l.derived, l.rest, l.temporary = t.k.fileSizes()
	return l
}

// settlePoll is the interval in which settle measures the server. It is long, because the
// server returns memory when it is idle, and each measurement causes some hundred KiB of
// garbage for the metrics.
const settlePoll = 3 * time.Second

// settledPolls is the number of consecutive measurements that must be within their limits:
// a single one could come right after a garbage collection.
const settledPolls = 4

// settle waits until the levels stay within their limits, and adds the last level. After a
// minute the first level above a limit ends the wait.
func (t *levelTable) settle(reference level) level {
	began := time.Now()
	var l level
	for within := 0; ; time.Sleep(settlePoll) { // polls another process
		l = t.read("quiet")
		t.k.t.Logf("%s", l)
		if within++; len(l.exceededLimits(reference)) > 0 {
			within = 0
		}
		if within == settledPolls || within == 0 && time.Since(began) > time.Minute {
			break
		}
	}
	t.levels = append(t.levels, l)
	t.k.t.Logf("the last level was measured %v after the last attack", time.Since(began).Round(time.Second))
	return l
}

func (t *levelTable) print() {
	lines := []string{levelHeader, "|" + strings.Repeat("---|", 10)}
	for _, l := range t.levels {
		lines = append(lines, l.String())
	}
	t.k.t.Logf("\n%s", strings.Join(lines, "\n"))
}

// exceededLimits returns a line for each limit that a level exceeds.
func (l level) exceededLimits(reference level) (list []string) {
	exceeds := func(is bool, format string, args ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	exceeds(l.memory > reference.memory+soakMemory, "memory is %d MiB, was %d", l.memory>>20, reference.memory>>20)
	exceeds(l.descriptors > reference.descriptors+soakDescriptors, "%d descriptors are open, were %d", l.descriptors, reference.descriptors)
	exceeds(l.goroutines*100 > reference.goroutines*(100+soakGoroutines), "%d goroutines run, were %d", l.goroutines, reference.goroutines)
	exceeds(l.temporary > reference.temporary, "there are %d temporary files, were %d", l.temporary, reference.temporary)
	exceeds(l.rest > reference.rest+soakOther, "files besides the ledger take %d MiB, took %d", l.rest>>20, reference.rest>>20)
	// Projections and proofs grow with the ledger, but less than the ledger.
	grown := l.ledger - reference.ledger
	exceeds(l.derived-reference.derived > grown+soakOther, "projections and proofs grew by %d MiB, the ledger by %d", (l.derived-reference.derived)>>20, grown>>20)
	return list
}

func (l level) compare(t *testing.T, reference level) {
	t.Helper()
	for _, what := range l.exceededLimits(reference) {
		t.Errorf("after a quiet minute %s", what)
	}
}

// runtimeMemory holds the memory of the Go runtime, in bytes: that of objects, the unused
// part of the spans that hold objects, and free spans that are not returned to the
// operating system.
type runtimeMemory struct{ objects, between, free int64 }

func (m runtimeMemory) String() string {
	return fmt.Sprintf("%d, %d, %d", m.objects>>20, m.between>>20, m.free>>20)
}

var runtimeMetric = regexp.MustCompile(`(?m)^go_(goroutines|memstats_heap_(?:alloc|inuse|idle|released)_bytes) (\S+)`)

// runtime returns the number of goroutines and the memory of the Go runtime from the
// metrics of the server. The number is -1 if the server refuses to answer.
func (k *soak) runtime() (goroutines int, m runtimeMemory) {
	resp, err := k.s.get(k.t.Context(), k.operator, "/metrics", "text/plain")
	if err != nil {
		k.failf("read the metrics: %v", err)
		return -1, m
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	values := map[string]int64{}
	for _, found := range runtimeMetric.FindAllStringSubmatch(string(raw), -1) {
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			k.failf("read the metrics: %v", err)
		}
		values[found[1]] = int64(n)
	}
	if len(values) != 5 {
		k.failf("read the metrics: %s, %v: %.300s", resp.Status, err, raw)
		return -1, m
	}
	alloc, inuse := values["memstats_heap_alloc_bytes"], values["memstats_heap_inuse_bytes"]
	m = runtimeMemory{alloc, inuse - alloc, values["memstats_heap_idle_bytes"] - values["memstats_heap_released_bytes"]}
	return int(values["goroutines"]), m
}

// isTemporary reports whether a file of the data directory has the name of a
// temporary one.
func isTemporary(name string) bool {
	return strings.Contains(name, ".new-") || strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".tmp")
}
