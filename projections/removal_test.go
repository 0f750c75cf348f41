package projections_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/ledger"
	"daybook/projections"
)

// intactExecution is an execution in an intact ledger, recorded one event at a time.
type intactExecution struct {
	n       int
	session string
	tags    bool
	context *events.ContextRef
	turn    *events.Turn
	todo    []func(at uint64) []events.Data
}

// intactHistory records a history with every kind of event, as the write side would.
type intactHistory struct {
	*rand.Rand
	t       *testing.T
	store   *jetstream.Store
	clock   time.Time
	n       int
	lives   []*intactExecution
	entries map[string]int64
	turns   map[int]int64
	after   map[int]string
	heaps   []int // heaps that are kept
	last    uint64
	context map[events.ContextRef]time.Time // last use
	running map[events.ContextRef]int
}

func (b *intactHistory) add(data ...events.Data) {
	b.t.Helper()
	for _, d := range data {
		b.clock = b.clock.Add(time.Second)
		who := tenant
		if _, ok := d.(*events.LedgerVolumeOpened); ok {
			who = "losses" // in addition to the tenant of the volume
		}
		seq, err := b.store.Append(b.t.Context(), events.New(who, b.clock, d), ledger.AnyPosition)
		if err != nil {
			b.t.Fatal(err)
		}
		b.last = seq
	}
}

// begin requests an execution and plans its course.
func (b *intactHistory) begin() {
	b.n++
	l := &intactExecution{n: b.n}
	var edit []func(*events.ExecutionRequested)
	if b.IntN(2) == 0 {
		l.session = fmt.Sprint("session ", b.IntN(3))
		edit = append(edit, inSession(l.session))
	}
	if l.tags = b.IntN(3) == 0; l.tags {
		edit = append(edit, withTags(tags{"run": fmt.Sprint(b.IntN(3))}))
	}
	if b.IntN(4) == 0 {
		ref := contextRef([]events.ContextKind{events.ContextLogical, events.ContextSession, events.ContextTransport}[b.IntN(3)], fmt.Sprint(b.IntN(2)))
		l.context = &ref
		b.running[ref]++
		edit = append(edit, inContext(ref))
	}
	if b.IntN(4) == 0 {
		s := b.IntN(2)
		b.turns[s]++
		b.add(turnQueued(s, int(b.turns[s]), l.n))
		l.turn = &events.Turn{SessionID: sessionID(s), Number: b.turns[s], After: b.after[s], QueuedSeq: b.last}
		b.after[s] = id(l.n)
		edit = append(edit, func(d *events.ExecutionRequested) { d.Turn = l.turn })
	}
	b.add(requested(l.n, edit...))
	if l.context != nil {
		b.context[*l.context] = b.clock
	}
	if b.IntN(5) == 0 {
		b.add(&events.AgentPrompted{SessionID: sessionID(40), PromptID: id(100_000 + l.n), ExecutionID: id(l.n), Actor: client, Content: events.Plain(events.PromptContent{Blocks: events.Body{Text: "[]"}})})
	}
	step := func(f func(at uint64) []events.Data) { l.todo = append(l.todo, f) }
	just := func(d ...events.Data) { step(func(uint64) []events.Data { return d }) }
	just(started(l.n, 1, fresh, ""))
	x := events.Extent{Line: 1, Attempt: 1}
	for range b.IntN(3) {
		d := output(l.n, 1, x, pieces("line\n")...)
		x.Add(d)
		just(d)
	}
	if b.IntN(4) == 0 {
		just(&events.HostCalled{ExecutionID: id(l.n), Attempt: 1, Number: 1, Server: "s", Tool: "t", ArgumentsSHA256: heap(1)})
		just(&events.HostReturned{ExecutionID: id(l.n), Attempt: 1, Number: 1, Outcome: "ok"})
	}
	for n := range b.IntN(3) {
		just(&events.ExecutionArtifactCreated{
			ExecutionID: id(l.n), Attempt: 1, Number: n + 1, SHA256: heap(n), Size: 10, Line: x.Line,
			Content: events.Plain(events.ArtifactContent{Name: fmt.Sprint("a", n), MIME: "text/plain", Blob: heap(n)}),
		})
	}
	status := events.StatusCompleted
	var how []func(*events.Ending)
	made := -1
	if b.IntN(3) == 0 {
		status = events.StatusFailed
	} else {
		made = b.IntN(12)
		how = append(how, leaving(heap(made), ""))
	}
	how = append(how, func(e *events.Ending) { e.Output = &events.OutputTotals{Lines: x.Line - 1, Bytes: x.Byte} })
	var end uint64
	step(func(uint64) []events.Data {
		if made >= 0 && !slices.Contains(b.heaps, made) {
			b.heaps = append(b.heaps, made)
		}
		return []events.Data{ended(l.n, status, how...)}
	})
	if l.tags && made >= 0 {
		step(func(at uint64) []events.Data {
			end = at
			d := tagged(heap(made), tags{"run": "x"}, events.EditSet, at)
			d.ExecutionID = id(l.n)
			return []events.Data{d}
		})
	}
	if l.session != "" {
		step(func(at uint64) []events.Data {
			if end == 0 {
				end = at
			}
			out := ""
			if made >= 0 {
				out = heap(made)
			}
			d := entry(l.n, l.session, b.entries[l.session], status, "", out)
			d.TerminalSeq = end
			b.entries[l.session]++
			return []events.Data{d}
		})
	}
	b.lives = append(b.lives, l)
}

// continueRun records the next event of a run.
func (b *intactHistory) continueRun() {
	if len(b.lives) == 0 {
		return
	}
	i := b.IntN(len(b.lives))
	l := b.lives[i]
	data := l.todo[0](b.last)
	l.todo = l.todo[1:]
	b.add(data...)
	if events.EndingOf(data[0]) != nil && l.context != nil {
		b.context[*l.context] = b.clock
		b.running[*l.context]--
	}
	if len(l.todo) == 0 {
		b.lives = slices.Delete(b.lives, i, i+1)
	}
}

func (b *intactHistory) move() {
	ref := contextRef([]events.ContextKind{events.ContextLogical, events.ContextSession, events.ContextTransport}[b.IntN(3)], fmt.Sprint(b.IntN(2)))
	switch b.IntN(36) {
	case 35:
		if b.n > 0 { // also of an execution that a removal has dropped, or that has not ended
			b.add(&events.ExecutionReplayed{ExecutionID: id(1 + b.IntN(b.n)), Verdict: events.ReplayIdentical, Engine: events.Engine{ID: "engine"}, Actor: client, WallMillis: int64(b.n)})
		}
	case 34:
		if len(b.heaps) > 0 {
			// Also a heap that a run left too, as after a return to an earlier engine.
			old, made := b.heaps[b.IntN(len(b.heaps))], b.IntN(28)
			if !slices.Contains(b.heaps, made) {
				b.heaps = append(b.heaps, made)
			}
			b.add(&events.HeapMigrated{Heap: heap(old), Engine: events.Engine{ID: "engine"}, Verdict: events.MigrationDone, NewHeap: heap(made), Size: 1 << 20, LastExecutionID: id(b.n), Actor: client})
		}
	case 33:
		b.add(&events.SessionRefAssigned{Holder: heap(b.n), Ref: "s0", SessionID: sessionID(b.IntN(2))})
	case 32: // the tables hold nothing else of the opening of a volume
		if len(b.heaps) > 0 {
			n := b.heaps[b.IntN(len(b.heaps))]
			b.add(&events.LedgerVolumeOpened{Reason: events.VolumeDamaged, LostBlobs: []events.LostBlob{{Tenant: tenant, Kind: "heap", SHA256: heap(n)}}})
		}
	case 0:
		if len(b.heaps) > 0 {
			b.add(tagged(heap(b.heaps[b.IntN(len(b.heaps))]), tags{"k": fmt.Sprint(b.IntN(3)), "l": "1"}, events.EditSet, 0))
		}
	case 1, 2, 3, 4:
		if len(b.heaps) > 0 {
			i := b.IntN(len(b.heaps))
			b.add(tagged(heap(b.heaps[i]), tags{}, events.EditSet, 0), &events.HeapCollected{Heap: heap(b.heaps[i])})
			b.heaps = slices.Delete(b.heaps, i, i+1)
		}
	case 28, 29: // including heaps that no run has left yet
		b.add(tagged(heap(b.IntN(16)), tags{"k": fmt.Sprint(b.IntN(3))}, events.EditSet, 0))
	case 30:
		s := b.IntN(2)
		b.add(&events.SessionReset{SessionID: sessionID(s), Kind: events.SessionLogical, Actor: client, Next: &events.SessionNext{Turn: b.turns[s], ExecutionID: b.after[s], Reset: true}})
	case 31:
		name := fmt.Sprint("session ", b.IntN(3))
		if b.entries[name] > 0 {
			b.add(&events.SessionReset{SessionID: events.SessionID(tenant, name), Kind: events.SessionLog, Session: name, Entries: b.entries[name], Actor: client})
		}
	case 5:
		b.add(&events.ContextUpdated{ContextRef: ref, Content: events.Plain(events.ContextContent{UserPreferences: events.UserPreferences{Language: fmt.Sprint(b.n)}})})
		b.context[ref] = b.clock
	case 6:
		b.add(&events.ContextCleared{ContextRef: ref})
		b.context[ref] = b.clock
	case 7, 8:
		if used, ok := b.context[ref]; ok && b.running[ref] == 0 {
			b.add(&events.ContextExpired{ContextRef: ref, LastUse: events.Instant{Time: used}})
			if ref.Kind == events.ContextTransport {
				delete(b.context, ref)
			}
		}
	case 9:
		b.add(noted(ref, b.clock, events.NotedCall{Tool: "t", ArgumentsSHA256: heap(b.n), CalledAt: events.Instant{Time: b.clock}}))
		b.context[ref] = laterOf(b.context[ref], b.clock.Add(-time.Second))
	case 10:
		hook := id(200_000 + b.n)
		b.add(&events.WebhookRegistered{WebhookID: hook, Content: events.Plain(events.WebhookContent{URL: "https://h"}), Actor: client})
		if b.IntN(2) == 0 {
			b.add(&events.WebhookDeleted{WebhookID: hook, Actor: client})
		}
	case 11:
		b.add(&events.SessionShredded{SessionID: heap(77), Session: "erased", KeyIDs: []string{fmt.Sprint("key ", b.n)}, Actor: client})
	case 12, 13, 14, 15, 16, 17:
		if len(b.lives) < 6 {
			b.begin()
		}
	default:
		b.continueRun()
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tables reads every table. It replaces numbers that only count rows by the names of
// the rows.
func tables(t *testing.T, path string) map[string][]string {
	t.Helper()
	db := openRaw(t, path)
	names := map[string]string{}
	lookUp := func(prefix, query string) {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, name string
			if err := rows.Scan(&id, &name); err != nil {
				t.Fatal(err)
			}
			names[prefix+id] = name
		}
	}
	lookUp("x", "SELECT id, execution_id FROM executions")
	lookUp("a", "SELECT id, session_id FROM agent_sessions")
	number := regexp.MustCompile(`\b(id|execution|session)=(\d+) `)
	all := dump(t, path)
	for table, list := range all {
		prefix := map[string]string{"executions": "x", "output": "x", "calls": "x", "artifacts": "x", "replays": "x", "sealed_runs": "x", "agent_sessions": "a", "agent_prompts": "a"}[table]
		kept := list[:0]
		for _, row := range list {
			row = number.ReplaceAllStringFunc(row, func(s string) string {
				m := number.FindStringSubmatch(s)
				return m[1] + "=" + names[prefix+m[2]] + " "
			})
			if table == "tenant_usage" && strings.Count(row+" ", "=0 ") == 7 {
				continue
			}
			kept = append(kept, row)
		}
		slices.Sort(kept)
		all[table] = kept
	}
	return all
}

// TestRemovalLeavesWhatARebuildFinds records histories with every kind of event,
// removes volume after volume, and compares all tables with those of a rebuild.
func TestRemovalLeavesWhatARebuildFinds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Choose(5, 12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store := storetest.Start(t)
			opts, c := copyOptions(t)
			opts.Texts = store
			path := opts.Path
			s := open(t, opts)
			follow(t, s, store)
			b := &intactHistory{
				Rand: rand.New(rand.NewPCG(seed, 7)), t: t, store: store, clock: began, entries: map[string]int64{}, turns: map[int]int64{}, after: map[int]string{},
				context: map[events.ContextRef]time.Time{}, running: map[events.ContextRef]int{},
			}
			b.add(opened(0, "a"), opened(1, "b"), &events.AgentSessionCreated{SessionID: sessionID(40), Content: events.Plain(events.AgentWorkspace{Cwd: "/"}), Actor: client})
			dropped := 0
			for volume := events.Volume(1); volume <= 4; volume++ {
				for range 120 {
					b.move()
				}
				v, err := store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: client, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
					return &events.ClosingCheckpoint{Origin: "o", Size: last, RootHash: "r", Note: "n"}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				for len(b.lives) > 0 {
					b.continueRun()
				}
				for range b.IntN(60) {
					b.move()
				}
				for len(b.lives) > 0 {
					b.continueRun()
				}
				if err := s.Wait(t.Context(), b.last); err != nil {
					t.Fatal(err)
				}
				usage(t, s, tenant) // cached during the removal
				writeCopy(t, s, c)
				rests, err := s.Dependents(t.Context(), v.Last)
				if err != nil || len(rests.Running) > 0 {
					t.Fatalf("%v are running, error %v", rests.Running, err)
				}
				plan, err := retention.PlanVolume(t.Context(), store, v.Last, retention.VolumeFacts{Later: pairs(rests.LaterEvents), FirstProducers: pairs(rests.Producers), MigratedHeaps: heapKeys(rests.MigratedHeaps)})
				if err != nil {
					t.Fatal(err)
				}
				dropped += plan.Executions - plan.Kept
				seq, err := store.Remove(t.Context(), stream.RemoveOptions{Volume: volume, Keep: plan.Keep, RootHash: "r", Export: events.VolumeExport{SHA256: heap(1)}, Actor: client})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Wait(t.Context(), seq); err != nil {
					t.Fatal(err)
				}
				noAnomalies(t, s)
				got := tables(t, path)
				if names := copyNames(t, opts.CopyDir); len(names) > 0 {
					t.Fatalf("after the removal of volume %d there are the copies %v", volume, names)
				}
				writeCopy(t, s, c)
				rebuiltOpts := projections.Options{Path: filepath.Join(t.TempDir(), "rebuilt.db"), Texts: store}
				if _, err := projections.Rebuild(t.Context(), rebuiltOpts, store, seq); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tables(t, rebuiltOpts.Path), got); diff != "" {
					t.Fatalf("after the removal of volume %d (-rebuilt +removed):\n%s", volume, diff)
				}
				if diff := cmp.Diff(usage(t, open(t, rebuiltOpts), tenant), usage(t, s, tenant)); diff != "" {
					t.Fatalf("usage after the removal of volume %d (-rebuilt +removed):\n%s", volume, diff)
				}
				fromCopy := opts
				fromCopy.Path = filepath.Join(t.TempDir(), "copied.db")
				if err := os.CopyFS(fmt.Sprint(opts.CopyDir, volume), os.DirFS(opts.CopyDir)); err != nil { // the live projections may delete copies
					t.Fatal(err)
				}
				fromCopy.CopyDir = fmt.Sprint(opts.CopyDir, volume)
				for range 30 { // events of every kind after the copy
					b.move()
				}
				if from := rebuildLost(t, fromCopy, store, b.last); from != seq {
					t.Fatalf("the rebuild began at %d, want %d", from, seq)
				}
				compared, err := projections.RebuildFromStart(t.Context(), fromCopy, store, b.last)
				if err != nil || len(compared) == 0 {
					t.Fatalf("compared %+v, error %v", compared, err)
				}
				for _, d := range compared {
					if d.Different > 0 || d.Skipped != "" || d.Rows < 50 {
						t.Errorf("after the removal of volume %d: %+v", volume, d)
					}
				}
			}
			if dropped < 10 {
				t.Errorf("only %d executions were dropped", dropped)
			}
			_, err := s.Execution(t.Context(), tenant, events.NewID(began.Add(-time.Hour)))
			if !errors.Is(err, events.ErrRemoved) {
				t.Errorf("an execution of the removed time: %v", err)
			}
		})
	}
}

func pairs(list [][2]string) (runs []retention.ExecutionKey) {
	for _, p := range list {
		runs = append(runs, retention.ExecutionKey{Tenant: p[0], ExecutionID: p[1]})
	}
	return runs
}

func heapKeys(list [][2]string) (heaps []retention.HeapKey) {
	for _, p := range list {
		heaps = append(heaps, retention.HeapKey{Tenant: p[0], Heap: p[1]})
	}
	return heaps
}

// The tags of a heap that exists because a migration made it again stay, although the run that
// left it first is dropped. Of the refused migrations to an engine only the newest stays.
func TestRemovalKeepsTagsOfMigratedHeap(t *testing.T) {
	t.Parallel()
	for _, isLater := range []bool{false, true} { // the migration is in a later volume
		store := storetest.Start(t)
		opts := projections.Options{Path: filepath.Join(t.TempDir(), "live.db"), Texts: store}
		s := open(t, opts)
		follow(t, s, store)
		b := &intactHistory{t: t, store: store, clock: began}
		other := events.Engine{ID: "engine"}
		made := &events.HeapMigrated{Heap: heap(2), Engine: other, Verdict: events.MigrationDone, NewHeap: heap(1), Size: 1 << 20, LastExecutionID: id(9), Actor: client}
		b.add(requested(1), started(1, 1, fresh, ""), ended(1, events.StatusCompleted, leaving(heap(1), "")))
		if isLater { // its bytes are lost, its tags are not
			b.add(tagged(heap(1), tags{"kind": "good"}, events.EditSet, 0), &events.BlobsLost{Volume: 1, Blobs: []events.LostContent{{Kind: "heap", SHA256: heap(1)}}, Actor: client})
		} else {
			b.add(&events.HeapCollected{Heap: heap(1)}, made, tagged(heap(1), tags{"kind": "good"}, events.EditSet, 0))
		}
		for range 3 {
			b.add(&events.HeapMigrated{Heap: heap(3), Engine: other, Verdict: events.MigrationDifferent, Actor: client})
		}
		newest := b.last
		v, err := store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: client, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
			return &events.ClosingCheckpoint{Origin: "o", Size: last, RootHash: "r", Note: "n"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		b.add(made)
		if err := s.Wait(t.Context(), b.last); err != nil {
			t.Fatal(err)
		}
		rests, err := s.Dependents(t.Context(), v.Last)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := retention.PlanVolume(t.Context(), store, v.Last, retention.VolumeFacts{Later: pairs(rests.LaterEvents), FirstProducers: pairs(rests.Producers), MigratedHeaps: heapKeys(rests.MigratedHeaps)})
		if err != nil || plan.Kept != 0 || !slices.Contains(plan.Keep, newest) || slices.Contains(plan.Keep, newest-1) {
			t.Errorf("the plan %+v, %v", plan, err)
		}
		seq, err := store.Remove(t.Context(), stream.RemoveOptions{Volume: 1, Keep: plan.Keep, RootHash: "r", Export: events.VolumeExport{SHA256: heap(1)}, Actor: client})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		if h, err := s.Heap(t.Context(), tenant, heap(1)); err != nil || h.Tags["kind"] != "good" {
			t.Errorf("the heap has the tags %v, %v", h.Tags, err)
		}
		rebuiltOpts := projections.Options{Path: filepath.Join(t.TempDir(), "rebuilt.db"), Texts: store}
		if _, err := projections.Rebuild(t.Context(), rebuiltOpts, store, seq); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tables(t, rebuiltOpts.Path), tables(t, opts.Path)); diff != "" {
			t.Errorf("-rebuilt +removed:\n%s", diff)
		}
	}
}
