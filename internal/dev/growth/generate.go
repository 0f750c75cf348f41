package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"daybook/events"
	"daybook/internal/store/fill"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
)

// pool is the pool of the invented executions. No runner takes requests of it, so the server does
// not check each of them, as it would not for requests that were acknowledged long ago.
const pool = "growth"

// sessionCount is the number of sessions; every fiftieth execution belongs to one.
const sessionCount = 1000

// generator invents executions. Every hundredth leaves a heap with tags, every fiftieth belongs to
// a session.
type generator struct {
	executions int
	// last is the last position of the ledger.
	last    uint64
	entries [sessionCount]int64
	ids     []string // a sample of the executions
	heaps   []string // a sample of the heaps
}

func newGenerator() *generator { return &generator{} }

// sampleEvery is the distance of executions in the sample.
const sampleEvery = 97

// grow writes executions until the ledger has size. It seals a full volume before it writes the next,
// so that the active volume is full if size is a multiple of the volumes' size.
func grow(ctx context.Context, s settings, g *generator, size int) error {
	for g.executions < size {
		if g.executions > 0 && g.executions%s.volume == 0 {
			if err := seal(ctx, s); err != nil {
				return err
			}
		}
		n := min(s.volume-g.executions%s.volume, size-g.executions)
		fmt.Fprintf(os.Stderr, "writing %d executions after %d …\n", n, g.executions)
		if err := g.write(ctx, s.data(), n); err != nil {
			return err
		}
	}
	return nil
}

func (s settings) data() string { return filepath.Join(s.dir, "data") }

// write appends n executions to the active volume of the ledger. It does not sync, because the
// time of writing is not measured.
func (g *generator) write(ctx context.Context, dir string, n int) (err error) {
	server, err := natsserver.Start(ctx, natsserver.Options{StoreDir: filepath.Join(dir, "jetstream"), NoSync: true})
	if err != nil {
		return err
	}
	defer server.Close()
	conn, err := server.Conn("fill")
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := jetstream.Open(ctx, conn, conn, jetstream.Options{OpenAdminConn: server.AdminConn})
	if err != nil {
		return err
	}
	volumes, err := store.Volumes(ctx)
	if err != nil {
		return err
	}
	active := volumes[len(volumes)-1]
	g.last = active.Last
	var failed error
	_, err = fill.Events(ctx, conn, active.Number, active.Last, func(yield func(events.Event) bool) {
		for range n {
			blob := func(content string) string {
				hash, err := store.PutHeap(ctx, events.DefaultTenant, []byte(content), "growth")
				failed = errors.Join(failed, err)
				return hash
			}
			for e := range g.execution(time.Now(), blob) {
				if !yield(e) {
					return
				}
			}
			if failed != nil {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// execution returns the events of one execution. putHeap stores a heap and returns its hash.
func (g *generator) execution(at time.Time, putHeap func(content string) string) iter.Seq[events.Event] {
	return func(yield func(events.Event) bool) {
		g.executions++
		n := g.executions
		id := events.NewID(at)
		if n%sampleEvery == 0 {
			g.ids = append(g.ids, id)
		}
		source := fmt.Sprintf("console.log('execution %d'); %d", n, n)
		line := events.Line{Text: fmt.Sprintf("execution %d", n), TimeMillis: at.UnixMilli()}
		limits := events.Limits{HeapMemoryMaxMB: 64, ExecutionTimeoutSecs: 30, OutputMaxBytes: 16 << 20}
		engine := events.Engine{ID: events.Hash([]byte("growth"))}
		stateful, session := n%100 == 0, -1
		requested := &events.ExecutionRequested{ExecutionID: id, Pool: pool, Stateful: stateful, SourceSHA256: events.Hash([]byte(source)), FileName: "script.js",
			Content: events.Plain(events.RequestedContent{Source: events.Body{Text: source}}), Limits: limits, RequestSHA256: events.Hash([]byte(id))}
		if n%50 == 0 {
			session = n / 50 % sessionCount
			requested.Session = sessionName(session)
			requested.SessionID = events.SessionID(events.DefaultTenant, requested.Session)
		}
		result := events.Body{Text: strconv.Itoa(n)}
		end := events.Ending{ExecutionID: id, Attempt: 1, Runner: "growth", TranspiledSHA256: events.Hash([]byte(source)), Usage: &events.Usage{CPUMillis: 1, WallMillis: 2, PeakHeapBytes: 1 << 20},
			Content: events.Plain(events.EndingContent{Result: &result}), Output: &events.OutputTotals{Lines: 1, Bytes: line.Bytes(), SHA256: events.Hash([]byte(line.Text + "\n"))}}
		if stateful {
			content := fmt.Sprintf("the heap of execution %d", n)
			end.Heap = &events.HeapRecord{SHA256: putHeap(content), Size: int64(len(content)), EngineID: engine.ID}
			if n%1000 == 0 {
				g.heaps = append(g.heaps, end.Heap.SHA256)
			}
		}
		send := func(data events.Data) bool {
			g.last++
			return yield(events.New(events.DefaultTenant, at, data))
		}
		if !send(requested) ||
			!send(&events.ExecutionStarted{ExecutionID: id, Attempt: 1, Runner: "growth", Engine: engine, Seed: id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:], FirstLine: 1, StartTime: events.Instant{Time: at}, Limits: limits}) ||
			!send(&events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{line}})}) ||
			!send(&events.ExecutionCompleted{Ending: end}) {
			return
		}
		terminal := g.last
		if stateful && !send(&events.HeapTagged{Heap: end.Heap.SHA256, Edit: events.EditSet, Content: events.Plain(events.TagContent{Tags: map[string]string{"stage": strconv.Itoa(n / 100 % 1000)}})}) {
			return
		}
		if session >= 0 {
			index := g.entries[session]
			g.entries[session]++
			heap := ""
			if end.Heap != nil {
				heap = end.Heap.SHA256
			}
			send(&events.SessionEntryRecorded{SessionID: requested.SessionID, Session: requested.Session, Index: index, ExecutionID: id, Status: events.StatusCompleted,
				OutputHeap: heap, CompletedAt: events.Instant{Time: at}, TerminalSeq: terminal})
		}
	}
}

func sessionName(n int) string { return fmt.Sprintf("session-%d", n) }
