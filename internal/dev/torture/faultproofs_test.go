package torture_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/internal/dev/verdicts"
	"daybook/proof"
)

// startVerdicts are the columns of the table for the start, in order.
var startVerdicts = []verdict{reported, contained, refused, harmless, forbidden}

// unanswered stands for a verification that ended with an error.
const unanswered audit.Verdict = "no answer"

// proofVerdicts are the columns of the table for verifications, in order. Only a verdict with same
// requires that the ledger is the one without the fault.
var proofVerdicts = []struct {
	verdict audit.Verdict
	column  string
	same    bool
}{
	{audit.Intact, "intact", true},
	{audit.IntactUpTo, "intact up to n", true},
	{audit.NotIntact, "not intact", false},
	{audit.RolledBack, "rolled back", false},
	{audit.Forked, "forked", false},
	{audit.WrongKey, "wrong key", false},
	{unanswered, "no answer", false},
}

// startErrors are the errors of a start that is refused. Each names the file or the position, and
// what to do.
var startErrors = []*regexp.Regexp{
	regexp.MustCompile(`LEDGER-\d{4}, positions \d+ to \d+: recorded events are missing; .*no file was changed; restore the data directory from a backup that has its newest events, or start once with --accept-damage`),
	regexp.MustCompile(`read the state of stream LEDGER-\d{4}: .*stream is offline: .*; restore the directory of the stream from a backup; .*delete the directory obs/NAME`),
	regexp.MustCompile(`/audit/key holds no signing key: .*; restore it from a backup`),
	regexp.MustCompile(`the key in \S+/key signs for .*, but this ledger is .*; use the key of this ledger`),
	regexp.MustCompile(`/audit/ledger\.json is not a valid ledger identity; restore it from a backup`),
	regexp.MustCompile(`\S+\.signed does not hold the newest checkpoint that this ledger's key signed .*; restore it from a backup, or move it away`),
}

func isListed(err error) bool {
	for _, re := range startErrors {
		if re.MatchString(err.Error()) {
			return true
		}
	}
	return false
}

// verify verifies a data directory with the key of the store without a fault. Every verdict that
// proofVerdicts marks with same requires the same events under the same signed tree hash.
// changed states that the fault changed the events in the files.
func (y *truth) verify(ctx context.Context, dir, when string, changed bool, bad func(string, ...any) verdict) audit.Verdict {
	r, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir, Keys: []string{y.key}})
	if err != nil {
		if ctx.Err() != nil || !isListed(err) {
			bad("the verification %s failed with %v", when, err)
		}
		return unanswered
	}
	for _, v := range proofVerdicts {
		if v.verdict != r.Verdict {
			continue
		}
		if v.same && !y.isSame(r, changed) {
			bad("the verdict %s is %s:\n%s", when, r.Verdict, r)
		}
		return r.Verdict
	}
	bad("the verdict %s is %q, which proofVerdicts does not list", when, r.Verdict)
	return r.Verdict
}

// isSame reports whether a report is about the ledger without the fault, or about one that continues
// it: no event is missing, the signed tree hash is that over the leaves of the original events, and
// no event after them differs. Before a start, these are not signed, so that the files MUST be
// unchanged. After a start, compareProof has compared all of them with a larger tree.
func (y *truth) isSame(r *audit.Report, changed bool) bool {
	if r.Last < uint64(len(y.events)) || r.Events != r.Last || len(r.Lost)+len(r.Removed) > 0 {
		return false
	}
	if r.Signed > uint64(len(y.leaves)) {
		return true
	}
	tree := proof.NewTree(verdicts.NoTiles{})
	for _, leaf := range y.leaves[:r.Signed] {
		if err := tree.Add(leaf); err != nil {
			return false
		}
	}
	return proof.EncodeHash(tree.Root()) == r.Root && (r.Signed == uint64(len(y.leaves)) || !changed)
}

// leavesIn returns the leaf hashes of the records in a bundle: each is preceded by its length.
func leavesIn(bundle string) ([]proof.Hash, error) {
	var list []proof.Hash
	for rest := []byte(bundle); len(rest) > 0; {
		if len(rest) < 2 || len(rest)-2 < int(binary.BigEndian.Uint16(rest)) {
			return nil, errors.New("a bundle is cut off")
		}
		end := 2 + int(binary.BigEndian.Uint16(rest))
		list = append(list, sha256.Sum256(append([]byte{0}, rest[2:end]...)))
		rest = rest[end:]
	}
	return list, nil
}

// proofURLs returns the URLs of the records of all events, and of the tree hash over them.
func (y *truth) proofURLs() (records []string, root string) {
	n := len(y.events)
	for at := 0; at < n; at += proof.TileWidth {
		tile := proof.Tile{Entries: true, Index: uint64(at / proof.TileWidth), Width: min(proof.TileWidth, n-at)}
		records = append(records, "/api/ledger/"+tile.Path())
	}
	return records, fmt.Sprintf("/api/ledger/proof?from=%d", n)
}

// readProof reads the records of all events and the tree hash over them.
func (y *truth) readProof(t *testing.T, book *embed.Daybook) {
	t.Helper()
	y.records = map[string]string{}
	urls, root := y.proofURLs()
	var err error
	if y.root, err = rootAt(t.Context(), book, root); err != nil {
		t.Fatal(err)
	}
	for _, url := range urls {
		status, body := ask(book, url)
		if status != http.StatusOK {
			t.Fatalf("%s is answered %d: %s", url, status, body)
		}
		y.records[url] = body
		leaves, err := leavesIn(body)
		if err != nil {
			t.Fatal(err)
		}
		y.leaves = append(y.leaves, leaves...)
	}
	tree := proof.NewTree(verdicts.NoTiles{})
	for _, leaf := range y.leaves {
		if err := tree.Add(leaf); err != nil {
			t.Fatal(err)
		}
	}
	if len(y.leaves) != len(y.events) || proof.EncodeHash(tree.Root()) != y.root {
		t.Fatalf("%d leaves of %d events have another tree hash than %s", len(y.leaves), len(y.events), y.root)
	}
}

// rootAt returns the tree hash of an earlier size, which the newest checkpoint proves. It waits for
// a checkpoint of that size.
func rootAt(ctx context.Context, book *embed.Daybook, url string) (string, error) {
	for late := time.Now().Add(30 * time.Second); ; {
		status, body := ask(book, url)
		var answer struct {
			Root string `json:"from_root_hash"`
		}
		if status == http.StatusOK && json.Unmarshal([]byte(body), &answer) == nil && answer.Root != "" {
			return answer.Root, nil
		}
		if time.Now().After(late) {
			return "", fmt.Errorf("%s is answered %d: %.300s", url, status, body)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// compareProof compares what a server proves with the store without a fault: the ledger is the same
// if the records of all its events are the same, from which the leaves are computed, and the tree
// hash over them. A server that reports damage may refuse to answer, but gives no other answer.
func (y *truth) compareProof(ctx context.Context, book *embed.Daybook, v verdict) error {
	urls, rootURL := y.proofURLs()
	if v == harmless || v == contained {
		root, err := rootAt(ctx, book, rootURL)
		if err != nil && book.Ready(ctx) != nil {
			return nil //nolint:nilerr // the damage was found since
		}
		if err != nil {
			return err
		}
		if root != y.root {
			return fmt.Errorf("the first %d events have the tree hash %s, want %s", len(y.events), root, y.root)
		}
	}
	for _, url := range urls {
		switch status, body := ask(book, url); {
		case status == http.StatusOK && body != y.records[url]:
			return fmt.Errorf("%s has other records", url)
		case status != http.StatusOK && (v == harmless || v == contained) && book.Ready(ctx) == nil:
			return fmt.Errorf("%s is answered %d: %.300s", url, status, body)
		}
	}
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	for file, content := range files {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

var tableOfFaults = verdicts.Table{Test: "TestFaults", Command: "make torture-faults"}

func faultTableHead() string {
	head := "| fault | tried | reported, read-only | reported, contained | start refused | nothing changed | failed |"
	for _, v := range proofVerdicts {
		head += " " + v.column + " |"
	}
	return head + "\n" + strings.Repeat("|---", strings.Count(head, "|")-1) + "|\n"
}

// The document has the table that TestFaults writes: a row of each kind, and no failure.
func TestFaultTable(t *testing.T) {
	t.Parallel()
	table := tableOfFaults.Read(t)
	lines := strings.Split(table, "\n")
	if want := faultTableHead(); len(lines) < len(faultKinds)+2 || lines[0]+"\n"+lines[1]+"\n" != want {
		t.Fatalf("the table begins with\n%s\nwant\n%s\nrun make torture-faults", strings.Join(lines[:min(len(lines), 2)], "\n"), want)
	}
	for i, kind := range faultKinds {
		cells := strings.Split(lines[i+2], "|")
		if len(cells) < 8 || strings.TrimSpace(cells[1]) != kind.name || strings.TrimSpace(cells[2]) == "0" || strings.TrimSpace(cells[7]) != "0" {
			t.Errorf("row %d is %q, want one of %q without a failure; run make torture-faults", i+1, lines[i+2], kind.name)
		}
	}
	if _, tried := tableOfFaults.Tried(t); tried < 2000 {
		t.Errorf("the table has %d faults, want at least 2,000; run make torture-faults", tried)
	}
	if !strings.Contains(table, "was accepted") {
		t.Error("the table does not state how often damage was accepted")
	}
}
