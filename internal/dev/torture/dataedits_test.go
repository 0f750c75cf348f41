package torture_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"daybook/internal/dev/tier"
	"daybook/internal/dev/verdicts"
)

var (
	dataEditCount = flag.Int("data-edits", tier.Choose(80, 200), "how often TestEditedDataDirectories edits a data directory")
	dataEditSeed  = flag.Uint64("data-edit-seed", 1, "seed of the first edit of TestEditedDataDirectories; edit n has the seed plus n")
	proofTables   = flag.Bool("proof-tables", false, "write the tables of TestEditedDataDirectories, TestAttacks and TestCrashStates into docs/reliability.md")
)

var tableOfDataEdits = verdicts.Table{Test: "TestEditedDataDirectories", Command: "make torture-proofs"}

// A random edit of a data directory, verified with the genuine key, never ends in INTACT unless a
// reader sees the same events and blobs. The same holds for INTACT UP TO and the events up to n.
func TestEditedDataDirectories(t *testing.T) {
	t.Parallel()
	y := ledgerToAttack(t, false)
	archived := y.archived(t)
	type editable struct {
		forgery
		of *sound
	}
	var kinds []editable
	for _, kind := range forgeries {
		kinds = append(kinds, editable{kind, y})
	}
	for _, kind := range archiveForgeries {
		kinds = append(kinds, editable{kind, archived})
	}
	for _, kind := range faultKinds {
		for _, of := range []*sound{y, archived} {
			if applies(kind, of.files) {
				kinds = append(kinds, editable{forgery{kind.name, kind.want, simple(kind.inject)}, of})
				break
			}
		}
	}
	t.Logf("%d edits of %d kinds, -data-edit-seed=%d; %d events, %d files", *dataEditCount, len(kinds), *dataEditSeed, len(y.stored), len(y.files))
	var tally verdicts.Tally
	var lanes sync.WaitGroup
	next := make(chan int)
	for range max(2, runtime.GOMAXPROCS(0)) {
		lanes.Go(func() {
			for i := range next {
				seed := *dataEditSeed + uint64(i)
				kind := kinds[seed%uint64(len(kinds))]
				if outcome := kind.of.judgeEdit(t, kind.forgery, seed); outcome != "" {
					tally.Add(kind.name, outcome)
				}
			}
		})
	}
	for i := range *dataEditCount {
		next <- i
	}
	close(next)
	lanes.Wait()
	table := tally.Table("edit of a data directory", isIntact, isIntactUpTo, isNotIntact, isRolledBack, isForked, isWrongKey, string(unanswered))
	t.Logf("verdicts:\n%s", table)
	if *proofTables && !t.Failed() {
		tableOfDataEdits.Write(t, table)
	}
}

// The document has the table of a full run: each kind of edit, and 10,000 edits without those that changed
// nothing.
func TestTableOfDataEdits(t *testing.T) {
	t.Parallel()
	rows, tried := tableOfDataEdits.Tried(t)
	for _, kind := range slices.Concat(forgeries, archiveForgeries) {
		if rows[kind.name] == 0 {
			t.Errorf("the table has no row for %q; run make torture-proofs", kind.name)
		}
	}
	if tried < 9_800 {
		t.Errorf("the table has %d edits, want about 10,000; run make torture-proofs", tried)
	}
}

// applies reports whether a store has the files that a kind of fault needs.
func applies(kind faultKind, files map[string][]byte) (ok bool) {
	defer func() { ok = recover() == nil }()
	kind.inject(rand.New(rand.NewPCG(1, 1)), maps.Clone(files))
	return true
}

// judgeEdit edits a copy of the ledger and returns the verdict, or "failed" if it is wrong. It returns
// "" for an edit that changes nothing.
func (y *sound) judgeEdit(t *testing.T, kind forgery, seed uint64) string {
	files := maps.Clone(y.files)
	what, err := kind.edit(rand.New(rand.NewPCG(seed, 0)), y, files)
	what = fmt.Sprintf("-data-edits=1 -data-edit-seed=%d: %s: %s", seed, kind.name, what)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return "failed"
	}
	if maps.EqualFunc(files, y.files, bytes.Equal) {
		return ""
	}
	dir, err := os.MkdirTemp("", "daybook-edit-")
	if err != nil {
		t.Error(err)
		return "failed"
	}
	defer os.RemoveAll(dir)
	if err := writeFiles(dir, files); err != nil {
		t.Error(err)
		return "failed"
	}
	got, report := y.words(t, dir)
	if kind.want != nil && !slices.Contains(kind.want, got) {
		t.Errorf("%s: the verdict is %s, want %s:\n%s", what, got, strings.Join(kind.want, " or "), report)
		return "failed"
	}
	upTo := y.newest.Size
	switch got {
	case isNotIntact, isRolledBack, isForked, isWrongKey, string(unanswered):
		return got
	case isIntact:
		if report.Last != y.newest.Size || report.Events != report.Last {
			t.Errorf("%s: the verdict is INTACT on %d events up to %d:\n%s", what, report.Events, report.Last, report)
			return "failed"
		}
	case isIntactUpTo:
		upTo = report.Signed
	default:
		t.Errorf("%s: the verdict is %s:\n%s", what, got, report)
		return "failed"
	}
	if err := y.compare(context.WithoutCancel(t.Context()), dir, upTo); err != nil {
		t.Errorf("%s: the verdict is %s, but %v:\n%s", what, got, err, report)
		return "failed"
	}
	return got
}
