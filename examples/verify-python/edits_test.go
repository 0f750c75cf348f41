package verifypython_test

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"daybook/audit"
	"daybook/internal/dev/tier"
	"daybook/internal/dev/verdicts"
)

var (
	editCount = flag.Int("edits", tier.Choose(250, 600), "how often TestEditedExports edits an export")
	editSeed  = flag.Uint64("edit-seed", 20261121, "seed of the first edit of TestEditedExports; edit n has the seed plus n")
	editTable = flag.Bool("edit-table", false, "write the table of TestEditedExports into docs/reliability.md")
)

var editedExports = verdicts.Table{Test: "TestEditedExports", Command: "make torture-proofs"}

// The document has the table of a full run.
func TestTableOfEditedExports(t *testing.T) {
	t.Parallel()
	if rows, tried := editedExports.Tried(t); len(rows) < 30 || tried < 10_000 {
		t.Errorf("the table has %d edits of %d kinds, want at least 10,000 of 30; run make torture-proofs", tried, len(rows))
	}
}

// original is an export that is edited in copies.
type original struct {
	name  string
	files map[string][]byte
	// part is true if the export has proofs. seen is what a reader sees in it.
	part bool
	seen *reading
}

func readOriginal(t *testing.T, name, dir string) *original {
	t.Helper()
	x := &original{name: name, files: map[string][]byte{}}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err == nil {
			x.files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, x.part = x.files["proofs.ndjson"]
	if x.seen, err = readExport(x.files); err != nil {
		t.Fatalf("read the export of %s: %v", name, err)
	}
	return x
}

// A random edit of an export never ends in INTACT, unless a reader sees in it what the ledger has.
// Half of the edits also update the manifest, and some sign the result, with another key or the genuine
// one. Both verifiers have the genuine key and give the same verdict.
func TestEditedExports(t *testing.T) {
	verdicts.PathOfPython(t)
	all, session, vkey, signer := exports(t)
	left, _, leftKey := exportAfterRemoval(t)
	forger := verdicts.NewForger(t, signer.Name())
	type edited struct {
		*original
		vkey string
	}
	originals := []edited{
		{readOriginal(t, "a ledger", all), vkey},
		{readOriginal(t, "a session", session), vkey},
		{readOriginal(t, "what is left of a ledger", left), leftKey},
	}
	edits := *editCount
	if testing.Short() {
		edits = 100
	}
	t.Logf("%d edits, -edit-seed=%d", edits, *editSeed)
	var tally verdicts.Tally
	var lanes sync.WaitGroup
	next := make(chan int)
	for range max(2, runtime.GOMAXPROCS(0)) {
		python := map[string]*verdicts.Python{}
		for _, x := range originals {
			if python[x.vkey] == nil {
				python[x.vkey] = verdicts.StartPython(t, "--key", x.vkey)
			}
		}
		root := t.TempDir()
		lanes.Go(func() {
			for i := range next {
				seed := *editSeed + uint64(i)
				x := originals[i%len(originals)]
				dir := filepath.Join(root, fmt.Sprint(i%len(originals)))
				e := &editor{original: x.original, rng: rand.New(rand.NewPCG(seed, 1)), signer: signer, forger: forger}
				if err := e.edit(); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					continue
				}
				if err := writeExport(dir, x.files, e.files); err != nil {
					t.Errorf("seed %d: %v", seed, err)
					continue
				}
				what := fmt.Sprintf("-edits=1 -edit-seed=%d: %s: %s", seed, x.name, e.what)
				tally.Add(e.kind, judgeEdit(t, e, dir, x.vkey, python[x.vkey], what))
				if err := writeExport(dir, e.files, x.files); err != nil { // only what was changed
					t.Error(err)
				}
			}
		})
	}
	for i := range edits {
		next <- i
	}
	close(next)
	lanes.Wait()
	table := tally.Table("edit of an export", "INTACT", "NOT INTACT", "WRONG KEY", "FORKED")
	t.Logf("verdicts of %d edits:\n%s", edits, table)
	if *editTable && !t.Failed() {
		editedExports.Write(t, table)
	}
}

// judgeEdit returns the verdict on an edited export, or "failed" after it reported why the verdict is
// wrong.
func judgeEdit(t *testing.T, e *editor, dir, vkey string, python *verdicts.Python, what string) string {
	report, err := audit.VerifyExport(t.Context(), dir, audit.VerifyOptions{Keys: []string{vkey}})
	if err != nil {
		t.Errorf("%s: package audit: %v", what, err)
		return "failed"
	}
	got := verdicts.Words(report.Verdict)
	other, line, err := python.Verdict(dir)
	if err != nil || other != got {
		t.Errorf("%s: package audit says %s, verify.py %s (%v):\n%s\n%s", what, got, other, err, report, line)
		return "failed"
	}
	if got == "INTACT" {
		if err := e.seen.comparesWith(e.files, e.part); err != nil {
			t.Errorf("%s: the verdict is %s, but %v:\n%s", what, got, err, report)
			return "failed"
		}
		return got
	}
	if got != e.expected {
		t.Errorf("%s: the verdict is %s, want %s:\n%s", what, got, e.expected, report)
		return "failed"
	}
	return got
}

// writeExport makes a directory that holds the files of before hold those of after. A directory that
// does not exist is created with all files of after.
func writeExport(dir string, before, after map[string][]byte) error {
	if _, err := os.Stat(dir); err != nil {
		before = nil
	}
	for name := range before {
		if _, stays := after[name]; !stays {
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil {
				return err
			}
			_ = os.Remove(filepath.Dir(path)) // an export has no empty directory
		}
	}
	for name, raw := range after {
		if old, there := before[name]; there && string(old) == string(raw) {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// The document has the table of a run without a failure.
func TestTableOfEdits(t *testing.T) {
	t.Parallel()
	table := editedExports.Read(t)
	if !strings.HasPrefix(table, "| edit of an export | tried |") || strings.Contains(table, "failed") {
		t.Errorf("the table is\n%s\nrun make torture-proofs", table)
	}
}
