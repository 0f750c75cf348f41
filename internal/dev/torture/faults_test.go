package torture_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/spans"
)

var (
	faultCount = flag.Int("faults", tier.Choose(45, 90), "how many single faults TestFaults injects")
	faultSeed  = flag.Uint64("fault-seed", 1, "seed of the first fault of TestFaults")
	faultOnly  = flag.String("fault", "", "the only kind of fault that TestFaults injects; it then writes no table")
	faultTable = flag.Bool("fault-table", false, "write the table of TestFaults into docs/reliability.md")
)

// A store with one fault in its files either reports that it is damaged or gives the same
// answers as before. It never returns a wrong answer or assigns a position twice, and it
// does not change damaged files. A verification with the key of the intact store, before
// the start and after it, ends in the verdict "intact" only if the ledger is the same.
func TestFaults(t *testing.T) {
	original := t.TempDir()
	truth := buildStore(t, original)
	t.Logf("a store of %d events, %d questions, %d files", len(truth.events), len(truth.answers), len(truth.files))

	table := tally{}
	limit := make(chan struct{}, 3*max(2, runtime.GOMAXPROCS(0))) // a fault waits for most of its time
	var running sync.WaitGroup
	kinds := faultKinds
	if *faultOnly != "" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind faultKind) bool { return kind.name != *faultOnly })
		if len(kinds) == 0 {
			t.Fatalf("no kind of fault is named %q", *faultOnly)
		}
	}
	for n := range *faultCount {
		kind := kinds[n%len(kinds)]
		if *faultCount < len(kinds) { // every second kind
			kind = kinds[2*n%len(kinds)]
		}
		seed := *faultSeed + uint64(n)
		limit <- struct{}{}
		running.Go(func() {
			defer func() { <-limit }()
			// The damage of one fault in five is accepted, for each kind.
			table.add(kind.name, truth.try(t, kind, seed, (n+n/len(kinds))%5 == 0, &table))
		})
	}
	running.Wait()
	t.Logf("verdicts of %d faults:\n%s", *faultCount, &table)
	if *faultTable && *faultOnly == "" && !t.Failed() {
		tableOfFaults.Write(t, table.String())
	}
}

// outcome is the outcome of a fault: that of the start, and the verdicts of verifications
// before and after it.
type outcome struct {
	start         verdict
	before, after audit.Verdict
}

// verdict is the outcome of a start with a fault.
type verdict string

const (
	reported  verdict = "reported"
	contained verdict = "reported, and only what needs a damaged blob fails"
	harmless  verdict = "nothing changed"
	refused   verdict = "start refused"
	forbidden verdict = "FAILED"
)

// tally counts verdicts by kind.
type tally struct {
	mu       sync.Mutex
	counts   map[string]map[verdict]int
	before   map[string]map[audit.Verdict]int
	after    map[string]map[audit.Verdict]int
	accepted int
}

func (y *tally) countAccepted() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.accepted++
}

func (y *tally) add(kind string, o outcome) {
	y.mu.Lock()
	defer y.mu.Unlock()
	count(&y.counts, kind, o.start)
	count(&y.before, kind, o.before)
	count(&y.after, kind, o.after)
}

func count[V comparable](counts *map[string]map[V]int, kind string, v V) {
	if *counts == nil {
		*counts = map[string]map[V]int{}
	}
	if (*counts)[kind] == nil {
		(*counts)[kind] = map[V]int{}
	}
	(*counts)[kind][v]++
}

func (y *tally) String() string {
	var b strings.Builder
	b.WriteString(faultTableHead())
	tried := 0
	for _, kind := range faultKinds {
		c := y.counts[kind.name]
		all := 0
		for _, n := range c {
			all += n
		}
		tried += all
		fmt.Fprintf(&b, "| %s | %d |", kind.name, all)
		for _, v := range startVerdicts {
			fmt.Fprintf(&b, " %d |", c[v])
		}
		for _, v := range proofVerdicts {
			fmt.Fprintf(&b, " %d, %d |", y.before[kind.name][v.verdict], y.after[kind.name][v.verdict])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nThe damage of %d of the %d faults was accepted, and the ledger continued.\n", y.accepted, tried)
	return b.String()
}

// try injects one fault into a copy of the store and returns the outcome. If accept is set,
// it then accepts reported damage.
func (y *truth) try(t *testing.T, kind faultKind, seed uint64, accept bool, table *tally) (o outcome) {
	name := fmt.Sprintf("%s, seed %d", kind.name, seed)
	bad := func(format string, args ...any) verdict {
		t.Errorf("%s: "+format, append([]any{name}, args...)...)
		o.start = forbidden
		return forbidden
	}
	dir, err := os.MkdirTemp("", "daybook-fault-")
	if err != nil {
		bad("%v", err)
		return o
	}
	defer os.RemoveAll(dir)
	files := maps.Clone(y.files)
	name += ": " + kind.inject(rand.New(rand.NewPCG(seed, 0)), files)
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	// A verification may change indexes and configurations, so it gets a copy of its own.
	copied := filepath.Join(dir, "verified")
	if err := writeFiles(copied, files); err != nil {
		bad("%v", err)
		return o
	}
	o.before = y.verify(ctx, copied, "before the start", y.changesEvents(files), bad)
	if !slices.ContainsFunc(kind.want, func(want string) bool { return strings.EqualFold(want, strings.ReplaceAll(string(o.before), "_", " ")) }) {
		bad("the verdict before the start is %s, want %s", o.before, strings.Join(kind.want, " or "))
	}
	if err := os.RemoveAll(copied); err != nil {
		bad("%v", err)
		return o
	}
	dir = filepath.Join(dir, "started")
	if err := writeFiles(dir, files); err != nil {
		bad("%v", err)
		return o
	}
	v, acceptable := y.start(ctx, dir, files, bad)
	if v == forbidden {
		return o
	}
	o.after = y.verify(ctx, dir, "after the start", false, bad)
	if !acceptable || !accept {
		o.start = cmp.Or(o.start, v)
		return o
	}
	if err := y.accept(ctx, dir); err != nil {
		bad("accept the damage: %v", err)
		return o
	}
	table.countAccepted()
	o.start = cmp.Or(o.start, v)
	return o
}

// changesEvents reports whether files differ from the original in the blocks of the ledger.
func (y *truth) changesEvents(files map[string][]byte) bool {
	for file, content := range y.files {
		if ok, err := path.Match(ledgerFiles+"msgs/*.blk", file); ok && err == nil && !bytes.Equal(content, files[file]) {
			return true
		}
	}
	return false
}

// start starts the store and compares its answers. It also reports whether the damage can be
// accepted: a start that is refused recommends it, or names another way.
func (y *truth) start(ctx context.Context, dir string, files map[string][]byte, bad func(string, ...any) verdict) (v verdict, acceptable bool) {
	book, err := embed.Start(ctx, faultOptions(dir, true))
	if err != nil {
		if ctx.Err() != nil || !isListed(err) {
			return bad("the start failed with %v", err), false
		}
		return y.checkUnchanged(dir, files, refused, bad), strings.Contains(err.Error(), "--accept-damage")
	}
	defer book.Close()
	v = y.compareAnswers(ctx, book, bad)
	if v == forbidden {
		return v, false
	}
	if err := book.Close(); err != nil {
		return bad("close: %v", err), false
	}
	if v == harmless {
		return v, false // the server may append to the files
	}
	return y.checkUnchanged(dir, files, v, bad), true
}

// compareAnswers compares the answers of a started server with those of the store without the fault.
func (y *truth) compareAnswers(ctx context.Context, book *embed.Daybook, bad func(string, ...any) verdict) verdict {
	v := harmless
	if list, _ := book.Damage(); len(list) > 0 {
		v = contained
	}
	damaged := book.Ready(ctx) != nil // after the list: damage that is found in between is not contained
	if damaged {
		v = reported
	}
	got, err := readEvents(book)
	switch {
	case !slices.Equal(got[:min(len(got), len(y.events))], y.events[:min(len(got), len(y.events))]):
		i := 0
		for ; got[i] == y.events[i]; i++ { // one of them differs
		}
		return bad("event %d is %.300s, want %.300s; reading ends with %v, and damage is reported: %t", i+1, got[i], y.events[i], err, damaged)
	case err == nil && len(got) < len(y.events) && !damaged:
		return bad("%d of %d events can be read, and no damage is reported", len(got), len(y.events))
	case err != nil && !errors.Is(err, events.ErrDamaged):
		return bad("reading the ledger: %v", err)
	case err != nil:
		v = reported
	}
	for url, want := range y.answers {
		switch status, body := ask(book, url); {
		case status == http.StatusOK && body == want:
		case status == http.StatusOK:
			return bad("%s is answered %.300s, want %.300s", url, body, want)
		case status < http.StatusInternalServerError:
			return bad("%s is answered %d: %.300s", url, status, body)
		case v == contained && (strings.Contains(body, "is damaged in the blob store") || body == brokenOff):
		case !damaged && book.Ready(ctx) == nil:
			return bad("%s is answered %d, and the server is ready: %.300s", url, status, body)
		default:
			v = reported
		}
	}
	if damaged = book.Ready(ctx) != nil; damaged {
		v = reported
	}
	switch id, err := book.Submit(ctx, embed.Script{Code: "1"}); {
	case err == nil && damaged:
		return bad("a damaged ledger accepts a run")
	case err != nil && book.Ready(ctx) != nil: // the damage was found since
		v = reported
	case err != nil:
		return bad("a run is refused: %v", err)
	case err == nil && !damaged && len(got) < len(y.events):
		return bad("a run is accepted, but only %d of %d events can be read", len(got), len(y.events))
	case err == nil:
		history, err := book.History(ctx, id)
		if err != nil || len(history) != 1 || history[0].Seq <= uint64(len(y.events)) {
			return bad("the run is recorded as %v, %v, after %d events", history, err, len(y.events))
		}
	}
	if err := y.compareProof(ctx, book, v); err != nil {
		return bad("%v", err)
	}
	return v
}

// accept starts the store with AcceptDamage and requires that the remaining events are
// unchanged, that the missing ones are recorded as lost, that their positions are not
// assigned again, and that the ledger is intact with the key of the store without the fault. If
// the acceptance started another origin, that key alone does not prove the ledger, and it does
// together with the new key.
func (y *truth) accept(ctx context.Context, dir string) (err error) {
	opts := faultOptions(dir, true)
	opts.Storage.AcceptDamage = true
	last, key := uint64(len(y.events)), ""
	for range 2 { // the second time without the flag
		book, err := embed.Start(ctx, opts)
		if err != nil {
			return err
		}
		id, err := book.Submit(ctx, embed.Script{Code: "1"})
		if err = errors.Join(book.Ready(ctx), err); err != nil {
			return errors.Join(err, book.Close())
		}
		history, err := book.History(ctx, id)
		if err != nil || len(history) != 1 || history[0].Seq <= last {
			return errors.Join(fmt.Errorf("a run is recorded as %v after event %d: %w", history, last, err), book.Close())
		}
		last, key = history[0].Seq, book.AuditKey()
		got, err := readEvents(book)
		if err = errors.Join(err, book.Close()); err != nil {
			return err
		}
		if err := y.checkSurvivors(got); err != nil {
			return err
		}
		opts.Storage.AcceptDamage = false
	}
	r, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir, Keys: []string{y.key, key}})
	if err != nil {
		return err
	}
	if r.Verdict != audit.Intact || r.Last < last {
		return fmt.Errorf("the ledger does not verify:\n%s", r)
	}
	if key == y.key {
		return nil
	}
	old, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir, Keys: []string{y.key}})
	if err != nil {
		return err
	}
	if old.Verdict == audit.Intact || len(old.Origins) != 1 || old.Origins[0].Trusted || len(r.Origins) != 1 || !r.Origins[0].Trusted {
		return fmt.Errorf("the origin ended, but with its key the report is\n%s\nand with the new key too\n%s", old, r)
	}
	return nil
}

// checkSurvivors compares the events after accepted damage with the original ones.
func (y *truth) checkSurvivors(got []string) error {
	var lost events.Lost
	there := map[uint64]bool{}
	for _, raw := range got {
		var e struct {
			Seq  uint64
			Data json.RawMessage
		}
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			return err
		}
		if e.Seq <= uint64(len(y.events)) {
			if there[e.Seq] = true; strip(raw) != strip(y.events[e.Seq-1]) {
				return fmt.Errorf("event %d differs from the original", e.Seq)
			}
			continue
		}
		var d events.LedgerVolumeOpened
		if json.Unmarshal(e.Data, &d) == nil && d.Reason == events.VolumeDamaged {
			lost = d.Losses(e.Seq)
		}
	}
	for i := range y.events {
		if _, named := spans.At(lost, uint64(i)+1); named == there[uint64(i)+1] {
			return fmt.Errorf("event %d exists: %t, and is recorded as lost: %t", i+1, !named, named)
		}
	}
	return nil
}

// strip returns an event without the fields that a reader sets about the positions before it.
func strip(raw string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return raw
	}
	for _, name := range []string{"RemovedBefore", "LostBefore"} {
		delete(members, name)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return raw
	}
	return string(text)
}

// wasQuarantined reports whether a quarantine directory holds a file with this content.
func wasQuarantined(dir, file string, content []byte) bool {
	copies, _ := filepath.Glob(filepath.Join(dir, "damaged-*"))
	for _, aside := range copies {
		if raw, err := os.ReadFile(filepath.Join(aside, file)); err == nil && bytes.Equal(raw, content) {
			return true
		}
	}
	return false
}

// checkUnchanged returns v, or fails if block files of the streams have changed. If v is
// contained, a file may have grown, or may have been moved to a quarantine directory.
func (y *truth) checkUnchanged(dir string, files map[string][]byte, v verdict, bad func(string, ...any) verdict) verdict {
	for file, content := range files {
		if !strings.HasSuffix(file, ".blk") || strings.HasPrefix(file, "readonly") {
			continue
		}
		now, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil && bytes.Equal(now, content) || v == contained && (bytes.HasPrefix(now, content) || wasQuarantined(dir, file, content)) {
			continue
		}
		return bad("the damaged file %s was changed, %v", file, err)
	}
	return v
}
