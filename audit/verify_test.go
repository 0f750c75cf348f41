package audit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
)

// at is the time of all events in these tests.
var at = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// record appends an event unconditionally, as a faulty writer would.
func record(t *testing.T, store *jetstream.Store, d events.Data) uint64 {
	t.Helper()
	seq, err := store.Append(t.Context(), events.New(events.DefaultTenant, at, d), -1)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

const (
	one = "019ab3c4-6a3e-7c51-8f0e-000000000001"
	two = "019ab3c4-6a3e-7c51-8f0e-000000000002"
)

func requested(id string) *events.ExecutionRequested {
	return &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Session: "s", SessionID: events.SessionID(events.DefaultTenant, "s")}
}

func started(id string, attempt int, line, offset int64) *events.ExecutionStarted {
	return &events.ExecutionStarted{ExecutionID: id, Attempt: attempt, FirstLine: line, FirstByte: offset}
}

func output(id string, attempt int, line, offset int64, text string) *events.ExecutionOutput {
	return &events.ExecutionOutput{
		ExecutionID: id, Attempt: attempt, FirstLine: line, FirstByte: offset,
		Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: text}}}),
	}
}

// ended returns the end of an execution that wrote text in its last attempt, and lines and size bytes in all attempts.
func ended(id string, attempt int, lines, size int64, text string) events.Data {
	return events.NewEnding(events.StatusCompleted, events.Ending{
		ExecutionID: id, Attempt: attempt, Output: &events.OutputTotals{Lines: lines, Bytes: size, SHA256: events.Hash([]byte(text))},
	})
}

func entry(id string, index int64, terminal uint64) *events.SessionEntryRecorded {
	return &events.SessionEntryRecorded{
		SessionID: events.SessionID(events.DefaultTenant, "s"), Session: "s", Index: index, ExecutionID: id, Status: events.StatusCompleted, TerminalSeq: terminal,
	}
}

// signed signs a ledger, stops its log, and returns the audit directory and the verification key.
func signed(t *testing.T, store *jetstream.Store) (dir, vkey string) {
	t.Helper()
	dir = t.TempDir()
	log := start(t, store, translog.Options{Dir: dir})
	finish(t, log, store)
	return dir, log.VKey()
}

// verdict verifies a ledger and returns its findings.
func verdict(t *testing.T, store *jetstream.Store, opts audit.VerifyOptions) (*audit.Report, []string) {
	t.Helper()
	r, err := audit.Verify(t.Context(), store, store, opts)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range r.Findings {
		found = append(found, f.What)
	}
	switch r.Verdict {
	case audit.Intact, audit.IntactUpTo, audit.Unauthenticated:
		if len(found) > 0 {
			t.Errorf("%s with the findings %q", r.Verdict, found)
		}
	default:
		if len(found) == 0 {
			t.Errorf("%s without a finding", r.Verdict)
		}
	}
	if r.OK != (r.Verdict == audit.Intact) || r.Pinned != (len(opts.Keys) > 0) {
		t.Errorf("ok is %t, pinned is %t with %s", r.OK, r.Pinned, r.Verdict)
	}
	return r, found
}

// leaving returns the end of an execution that never started, with a heap.
func leaving(id, heap string) events.Data {
	return events.NewEnding(events.StatusFailed, events.Ending{ExecutionID: id, Heap: &events.HeapRecord{SHA256: events.Hash([]byte(heap)), Size: int64(len(heap))}})
}

// artifact returns an artifact whose content is encrypted, so that no blob is expected.
func artifact(id string, attempt, number int) events.Data {
	return &events.ExecutionArtifactCreated{ExecutionID: id, Attempt: attempt, Number: number, Content: events.Content[events.ArtifactContent]{Sealed: &events.EncryptedContent{}}}
}

func copied(position uint64, hash string) events.Data {
	return &events.LedgerProjectionsCopied{Volume: 1, Position: position, Schema: 1, SHA256: hash}
}

// Verification reports no finding for an intact ledger, and one for each broken rule.
func TestRules(t *testing.T) {
	t.Parallel()
	sound := []events.Data{requested(one), started(one, 1, 1, 0), output(one, 1, 1, 0, "a"), ended(one, 1, 1, 2, "a\n"), entry(one, 0, 4)}
	replaced := func(i int, d ...events.Data) []events.Data { return slices.Replace(slices.Clone(sound), i, i+1, d...) }
	for _, tt := range []struct {
		name  string
		list  []events.Data
		wants []string // a part of each finding
	}{
		{"sound", sound, nil},
		{"a second attempt", replaced(3, started(one, 2, 2, 2), output(one, 2, 2, 2, "b"), ended(one, 2, 2, 4, "b\n"), &events.HeapTagged{Heap: events.Hash(nil)})[:7], nil},
		{"late output", append(slices.Clone(sound), output(one, 1, 2, 2, "late")), nil},
		{"output repeated", replaced(2, output(one, 1, 1, 0, "a"), output(one, 1, 1, 0, "a"))[:4], nil},
		{"handed back", []events.Data{requested(one), started(one, 1, 1, 0), &events.ExecutionHandedBack{ExecutionID: one, Attempt: 1}, started(one, 1, 1, 0)}, nil},
		{"cancelled before it started", []events.Data{requested(one), events.NewEnding(events.StatusCancelled, events.Ending{ExecutionID: one})}, nil},
		{"requested twice", append(slices.Clone(sound), requested(one)), []string{"requested a second time"}},
		{"never requested", []events.Data{started(two, 1, 1, 0)}, []string{"never requested"}},
		{"replayed", append(slices.Clone(sound), &events.ExecutionReplayed{ExecutionID: one, EndedAt: 4}), nil},
		{"a migrated heap is collected", append(slices.Clone(sound), &events.HeapMigrated{Heap: events.Hash(nil), Verdict: events.MigrationDone, NewHeap: events.Hash([]byte("new"))}, &events.HeapCollected{Heap: events.Hash([]byte("new"))}), nil},
		{"replayed and never requested", append(slices.Clone(sound), &events.ExecutionReplayed{ExecutionID: two, EndedAt: 4}), []string{"never requested"}},
		{"artifacts", replaced(2, artifact(one, 1, 1), artifact(one, 1, 2), output(one, 1, 1, 0, "a"))[:6], nil},
		{"artifacts of two attempts", []events.Data{requested(one), started(one, 1, 1, 0), artifact(one, 1, 1), started(one, 2, 1, 0), artifact(one, 2, 1)}, nil},
		{"an artifact left out", replaced(2, artifact(one, 1, 2), output(one, 1, 1, 0, "a"))[:5], []string{"but 1 is next"}},
		{"an artifact of another attempt", replaced(2, artifact(one, 2, 1), output(one, 1, 1, 0, "a"))[:5], []string{"which is at attempt 1"}},
		{"an artifact after the end", append(slices.Clone(sound), artifact(one, 1, 1)), []string{"after its end"}},
		{"an artifact never requested", []events.Data{artifact(two, 1, 1)}, []string{"never requested"}},
		{"two ends", append(slices.Clone(sound), ended(one, 1, 1, 2, "a\n")), []string{"ends a second time"}},
		{"started after its end", append(slices.Clone(sound), started(one, 2, 2, 2)), []string{"started after its end"}},
		{"handed back after its end", append(slices.Clone(sound), &events.ExecutionHandedBack{ExecutionID: one, Attempt: 1}), []string{"handed back after its end"}},
		{"an attempt left out", []events.Data{requested(one), started(one, 2, 1, 0)}, []string{"1 is next"}},
		{"ended without a start", []events.Data{requested(one), ended(one, 0, 0, 0, "")}, []string{"never started"}},
		{"ended ahead of its attempts", []events.Data{requested(one), started(one, 1, 1, 0), ended(one, 2, 0, 0, "")}, []string{"attempt 2"}},
		{"output missing", replaced(2)[:3], []string{"its end counts 1 and 2"}},
		{"output changed", replaced(2, output(one, 1, 1, 0, "b")), []string{"its end says"}},
		{"a gap in the output", replaced(2, output(one, 1, 2, 5, "a"))[:3], []string{"continues at line 2"}},
		{"output of a later attempt", replaced(2, output(one, 2, 1, 0, "a"))[:3], []string{"output of attempt 2"}},
		{"an entry left out", replaced(4, entry(one, 1, 4)), []string{"but 0 is next"}},
		{"an entry of another end", replaced(4, entry(one, 0, 3)), []string{"not recorded"}},
		{"an entry of no execution", []events.Data{entry(two, 0, 1)}, []string{"not recorded"}},
		{"a missing blob", []events.Data{&events.ExecutionRequested{
			ExecutionID: one, Pool: events.DefaultPool,
			Content: events.Plain(events.RequestedContent{Source: events.Body{Blob: &events.BlobRef{SHA256: events.Hash([]byte("gone"))}}}),
		}}, []string{"cannot be read"}},
		{"values in a missing blob", []events.Data{&events.ExecutionRequested{
			ExecutionID: one, Pool: events.DefaultPool,
			Content: events.Plain(events.RequestedContent{Globals: &events.Body{Blob: &events.BlobRef{SHA256: events.Hash([]byte("gone"))}}}),
		}}, []string{"cannot be read"}},
		{"a missing heap", []events.Data{requested(one), leaving(one, "gone")}, []string{"cannot be read"}},
		{"a collected heap", []events.Data{requested(one), leaving(one, "gone"), &events.HeapCollected{Heap: events.Hash([]byte("gone"))}}, nil},
		{"a heap that was collected and saved again", []events.Data{
			requested(one), leaving(one, "gone"), &events.HeapCollected{Heap: events.Hash([]byte("gone"))}, requested(two), leaving(two, "gone"),
		}, []string{"cannot be read"}},
		{"a heap that was collected twice", []events.Data{
			requested(one), leaving(one, "gone"), &events.HeapCollected{Heap: events.Hash([]byte("gone"))}, &events.HeapCollected{Heap: events.Hash([]byte("gone"))},
		}, []string{"collected before"}},
		{"projections copied", append(slices.Clone(sound), copied(5, events.Hash(nil)), copied(6, events.Hash(nil))), nil},
		{"projections copied ahead", append(slices.Clone(sound), copied(6, events.Hash(nil))), []string{"not before the event"}},
		{"nothing copied", append(slices.Clone(sound), copied(0, events.Hash(nil))), []string{"not before the event"}},
		{"projections copied without a hash", append(slices.Clone(sound), copied(5, "../"+events.Hash(nil)[3:])), []string{"which is none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			for _, d := range tt.list {
				record(t, store, d)
			}
			dir, _ := signed(t, store)
			_, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(dir)})
			if len(found) != len(tt.wants) {
				t.Fatalf("found %q, want %q", found, tt.wants)
			}
			for i, want := range tt.wants {
				if !strings.Contains(found[i], want) {
					t.Errorf("found %q, want %q", found[i], want)
				}
			}
		})
	}
}

// Verification compares the audit directory with the stream, and trusts only the given keys.
func TestVerifyComparesTheAuditDirectory(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 600)
	dir, vkey := signed(t, store)
	_, foreign := signed(t, newFilled(t))
	for _, tt := range []struct {
		name string
		harm func(t *testing.T, dir string)
		keys []string
		want string // empty for intact
	}{
		{"nothing", func(*testing.T, string) {}, nil, ""},
		{"its key given", func(*testing.T, string) {}, []string{vkey}, ""},
		{"another key given", func(*testing.T, string) {}, []string{foreign}, "no checkpoint is signed with the keys given; the newest key beside the data is " + vkey},
		{"another key given and a changed tile", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "tile", "0", "001"), 100) }, []string{foreign}, filepath.Join("tile", "0", "001")},
		{"a changed tile", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "tile", "0", "001"), 100) }, nil, filepath.Join("tile", "0", "001")},
		{"a missing tile", func(t *testing.T, dir string) { remove(t, dir, filepath.Join("tile", "0", "000")) }, nil, filepath.Join("tile", "0", "000")},
		{"a changed checkpoint in the file", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "checkpoints")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(raw), "\n60", "\n61", 1)
			if changed == string(raw) {
				t.Fatalf("no checkpoint of 60x events in\n%s", raw)
			}
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}, nil, ""}, // its signature is broken, so it says nothing
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			harmed := t.TempDir()
			if err := os.CopyFS(harmed, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			tt.harm(t, harmed)
			r, found := verdict(t, store, audit.VerifyOptions{Dir: translog.Dir(harmed), Keys: tt.keys})
			if tt.want == "" {
				want := audit.Intact
				if tt.keys == nil {
					want = audit.Unauthenticated
				}
				if r.Verdict != want || r.Signed < 600 || r.Tiles != 2 || r.Events < 601 || r.Pinned != (tt.keys != nil) || r.Key != vkey {
					t.Errorf("%+v", r)
				}
				return
			}
			if len(found) == 0 || !strings.Contains(found[0], tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
			verdict, word := audit.NotIntact, "NOT INTACT"
			if tt.name == "another key given" {
				verdict, word = audit.WrongKey, "WRONG KEY"
			}
			if r.Verdict != verdict || !strings.HasPrefix(r.String(), word+"  ") || !strings.Contains(r.String(), tt.want) {
				t.Errorf("the report says\n%s", r)
			}
		})
	}
}

func newFilled(t *testing.T) *jetstream.Store {
	store := newStore(t)
	fill(t, store, 3)
	return store
}

// Verification reports events that are not the signed ones, although the stream is intact.
func TestVerifyFindsAnotherHistory(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 40)
	dir, _ := signed(t, store)
	for name, tt := range map[string]struct {
		events int
		want   string
	}{"other events": {60, "computed from the events it is"}, "fewer events": {20, "but the ledger ends at 20"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := newStore(t)
			fill(t, other, tt.events)
			_, found := verdict(t, other, audit.VerifyOptions{Dir: translog.Dir(dir)})
			if len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}

// An empty ledger is intact. Of a ledger without a checkpoint nothing is.
func TestVerifyWithoutCheckpoints(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, vkey := signed(t, newFilled(t))
	if r, found := verdict(t, store, audit.VerifyOptions{Keys: []string{vkey}}); r.Verdict != audit.Intact {
		t.Errorf("%s, found %q in an empty ledger", r.Verdict, found)
	}
	fill(t, store, 2)
	r, _ := verdict(t, store, audit.VerifyOptions{Keys: []string{vkey}})
	if r.Verdict != audit.IntactUpTo || r.Unsigned != 2 || r.UnsignedSince == nil || !strings.HasPrefix(r.String(), "INTACT UP TO 0  ") {
		t.Errorf("without a checkpoint:\n%s", r)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 0x10
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}
