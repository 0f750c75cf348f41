package frozen_test

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"daybook/embed"
	"daybook/internal/dev/tier"
)

// quietOptions returns options under which a Daybook appends no event of its own, and answers
// the same on every machine.
func (d directory) quietOptions() embed.Options {
	return embed.Options{
		DataDir: d.data, Access: embed.AccessOptions{TokenFile: d.tokenFile}, Runs: embed.RunOptions{Elsewhere: true}, NATS: embed.NATSOptions{NoSync: true}, Storage: embed.StorageOptions{SealEvery: "never", SealBytes: -1, SealExecutions: -1, StreamVolumes: -1, ProjectionCopies: -1}, Proof: embed.ProofOptions{ScrubEvents: -1}, Resources: embed.ResourceOptions{DiskReserve: -1, MemoryMB: 256}, Version: "frozen", Contexts: embed.ContextOptions{Idle: 100 * 365 * 24 * time.Hour},
	}
}

// TestAnswers compares the answers of the frozen directory with the golden files. The
// first start builds the projections, which the archive does not hold. Projections that
// embed.Rebuild wrote must give the same answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	first := answersOf(t, dir)
	for _, group := range slices.Sorted(maps.Keys(first)) {
		golden(t, filepath.Join("answers", group+".jsonl"), first[group])
	}
	checkGroups(t, first)

	t.Run("Rebuild", func(t *testing.T) {
		if _, err := embed.Rebuild(within(t), dir.quietOptions()); err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, first, answersOf(t, dir))
	})
	if tier.Choose(false, true) {
		t.Run("Restart", func(t *testing.T) { sameAnswers(t, first, answersOf(t, dir)) })
		t.Run("Delete", func(t *testing.T) {
			removeProjections(t, dir)
			sameAnswers(t, first, answersOf(t, dir))
		})
	}
	t.Run("Archives", func(t *testing.T) {
		archiveVolume(t, dir)
		sameAnswers(t, withoutVolumes(first), withoutVolumes(answersOf(t, dir)))
	})
}

// withoutVolumes leaves out the lists of volumes.
func withoutVolumes(answers map[string][]byte) map[string][]byte {
	left := map[string][]byte{}
	for group, text := range answers {
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte(`"url":"/api/ledger/volumes"`)) {
				left[group] = append(left[group], line...)
			}
		}
	}
	return left
}

// archiveVolume starts a Daybook until it has made an archive of the oldest volume.
func archiveVolume(t *testing.T, dir directory) {
	t.Helper()
	opts := dir.quietOptions()
	opts.Storage.StreamVolumes = 1
	book := start(t, opts)
	defer closeBook(t, book)
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var list struct {
			Volumes []struct{ Archived bool }
		}
		dir.tokens.must(t, book, operator, http.MethodGet, "/api/ledger/volumes", "", &list)
		if list.Volumes[0].Archived {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("volumes %+v", list.Volumes)
		}
	}
}

func removeProjections(t *testing.T, dir directory) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir.data, "projections.db*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("projections %v, %v", list, err)
	}
	for _, path := range list {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// answersOf starts a Daybook on the directory, sends all questions and closes it.
func answersOf(t *testing.T, dir directory) map[string][]byte {
	t.Helper()
	q := &inquiry{T: t, dir: dir, groups: map[string]*bytes.Buffer{}, asked: map[string]map[string]bool{}}
	q.book = start(t, dir.quietOptions())
	list := ledgerOf(t, q.book)
	q.awaitWebhooks(list[len(list)-1].Seq)
	q.times = map[int64]bool{}
	for _, e := range list {
		q.times[e.Time.UnixMilli()] = true
	}
	q.ledger(list)
	q.lists()
	q.executions(list)
	q.heaps(list)
	q.sessions(list)
	q.events(list)
	q.integrity(list)
	q.service()
	closeBook(t, q.book)

	opts := dir.quietOptions()
	opts.Access.TokenFile = ""
	q.book = start(t, opts)
	q.allTenants(list)
	q.everyRoute()
	if again := ledgerOf(t, q.book); len(again) != len(list) {
		t.Errorf("the start or the questions appended events: %d, then %d", len(list), len(again))
	}
	closeBook(t, q.book)
	groups := map[string][]byte{}
	for name, b := range q.groups {
		groups[name] = b.Bytes()
	}
	return groups
}

// awaitWebhooks waits until the webhooks have reached the last event, because lists of
// webhooks contain their positions.
func (q *inquiry) awaitWebhooks(last uint64) {
	q.Helper()
	for ctx := within(q.T); ; {
		behind := 0
		for _, of := range tenants {
			var list struct {
				Webhooks []struct{ State, Position string }
			}
			q.dir.tokens.must(q.T, q.book, of, http.MethodGet, "/api/webhooks", "", &list)
			for _, h := range list.Webhooks {
				if h.State == "active" && h.Position != strconv.FormatUint(last, 10) {
					behind++
				}
			}
		}
		if behind == 0 {
			return
		}
		select {
		case <-ctx.Done():
			q.Fatalf("%d webhooks do not reach event %d", behind, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// notAsked holds the routes and parameters without a question, with the reason.
var notAsked = map[string]string{
	"/api/version":                    "names versions of this build",
	"/api/ledger/checkpoint/cosigned": "the frozen ledger has no witnesses",
	"/api/ledger/signers":             "the frozen ledger is older than statements about signers",
	"/api/heaps/{heap}/globals":       "the frozen server runs no scripts, and another engine made the heaps",
	// It changes nothing in an answer at the newest position.
	"Daybook-Min-Sequence": "waits; it is asked once",
}

// everyRoute checks that each GET route of the OpenAPI document was asked, with each
// of its parameters.
func (q *inquiry) everyRoute() {
	q.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	q.dir.tokens.must(q.T, q.book, operator, http.MethodGet, "/openapi.json", "", &doc)
	gets := 0
	for path, item := range doc.Paths {
		get, ok := item["get"]
		if !ok || notAsked[path] != "" {
			continue
		}
		gets++
		if q.asked[path] == nil {
			q.Errorf("GET %s is not asked: add a question to this test, or a reason to notAsked", path)
			continue
		}
		for _, p := range get.Parameters {
			if p.In != "path" && !q.asked[path][p.Name] && notAsked[p.Name] == "" {
				q.Errorf("GET %s is not asked with %s (%s): add a question to this test, or a reason to notAsked", path, p.Name, p.In)
			}
		}
	}
	if gets < 25 {
		q.Errorf("the document has %d GET routes", gets)
	}
	for path := range q.asked {
		if _, ok := doc.Paths[path]["get"]; !ok {
			q.Errorf("GET %s is asked and not in the document", path)
		}
	}
}
