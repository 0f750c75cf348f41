package torture_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"daybook/audit"
	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/dev/verdicts"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/proof"
)

var (
	crashStates = flag.Int("crash-states", tier.Choose(12, 30), "how many crash states TestCrashStates makes")
	crashSeed   = flag.Uint64("crash-seed", 0, "seed of the actions and moments of TestCrashStates; 0 picks one")
)

var tableOfCrashStates = verdicts.Table{Test: "TestCrashStates", Command: "make torture-proofs"}

// historyVariable is the directory of the ledger of a process that makes a history.
const historyVariable = "DAYBOOK_TORTURE_HISTORY"

func init() { consumers["history"] = makeHistory }

// historyActions are what a process does between two crash states, by name. Each begins and ends with
// a running server.
var historyActions = map[string]func(h *history){
	"events":                           func(h *history) { h.runs(1 + h.random.IntN(6)) },
	"a checkpoint on request":          func(h *history) { h.runs(1); h.post("/api/ledger/checkpoint", "") },
	"a volume is sealed":               func(h *history) { h.runs(1); h.post("/api/ledger/volumes/seal", "") },
	"a volume is exported and removed": (*history).removeVolume,
	"the server stops and starts":      func(h *history) { h.stop(); h.start(false) },
	"the key is rotated":               (*history).rotate,
	"lost events are accepted": func(h *history) {
		h.harm(func(messages []message) []message { return messages[:len(messages)-1-h.random.IntN(len(messages)/2)] })
	},
	"a changed event is accepted as lost": func(h *history) {
		h.harm(func(messages []message) []message {
			at := len(messages) - 1 - h.random.IntN(len(messages)/2)
			messages[at].body[len(messages[at].body)/2] ^= 1
			return messages
		})
	},
}

// history is a ledger that grows in a process of its own.
type history struct {
	dir    string
	random *rand.Rand
	book   *embed.Daybook
	queued []string // runs that may not have ended
	// harmed is true after a loss was accepted: the ends of runs may be lost, and the closing checkpoint of
	// a volume.
	harmed bool
}

func historyOptions(root string) embed.Options {
	return embed.Options{
		DataDir: filepath.Join(root, "data"), Proof: embed.ProofOptions{KeyFile: filepath.Join(root, "keys", "key")},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// makeHistory does the actions whose names it reads, until its input ends.
func makeHistory() {
	root := os.Getenv(historyVariable)
	in := bufio.NewScanner(os.Stdin)
	h := &history{dir: root}
	must(os.MkdirAll(filepath.Join(root, "keys"), 0o700))
	h.start(false)
	h.runs(3)
	h.post("/api/ledger/checkpoint", "")
	fmt.Println("done")
	for in.Scan() {
		number, name, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		must(err)
		h.random = rand.New(rand.NewPCG(n, 1))
		historyActions[name](h)
		fmt.Println("done")
	}
	os.Exit(0)
}

func (h *history) start(accept bool) {
	opts := historyOptions(h.dir)
	opts.Storage.AcceptDamage = accept
	var err error
	h.book, err = embed.Start(context.Background(), opts)
	must(err)
}

func (h *history) stop() { must(h.book.Close()) }

func (h *history) runs(n int) {
	for range n {
		id, err := h.book.Submit(context.Background(), embed.Script{Code: strings.Repeat("1 + ", h.random0(300)) + "1"})
		must(err)
		h.queued = append(h.queued, id)
	}
}

// awaitRuns waits until the submitted runs have ended.
func (h *history) awaitRuns() {
	for _, id := range h.queued {
		_, err := h.book.Wait(context.Background(), id)
		must(err)
	}
	h.queued = nil
}

func (h *history) random0(n int) int {
	if h.random == nil {
		return n / 2
	}
	return h.random.IntN(n)
}

func (h *history) request(method, path, body string) (int, string) {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.book.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (h *history) post(path, body string) string {
	status, answer := h.request(http.MethodPost, path, body)
	if status/100 != 2 {
		must(fmt.Errorf("%s is answered %d: %s", path, status, answer))
	}
	return answer
}

// removeVolume removes the oldest volume, after it sealed one if there is none.
func (h *history) removeVolume() {
	h.runs(1)
	h.awaitRuns()
	h.post("/api/ledger/volumes/seal", "")
	_, raw := h.request(http.MethodGet, "/api/ledger/volumes", "")
	var list struct {
		Volumes []struct {
			Volume      int
			First, Last uint64
		}
	}
	must(json.Unmarshal([]byte(raw), &list))
	v := list.Volumes[0]
	dir, err := os.MkdirTemp("", "daybook-volume-")
	must(err)
	defer os.RemoveAll(dir)
	get := func(ctx context.Context, path string, header ...string) (*http.Response, error) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.book.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return nil, fmt.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
		return w.Result(), nil
	}
	out := filepath.Join(dir, "export")
	_, err = embed.Export(context.Background(), embed.ExportOptions{Server: get, Dir: out, From: v.First, To: v.Last, WithLosses: true})
	must(err)
	sha, err := embed.ExportHash(out)
	must(err)
	status, answer := h.request(http.MethodPost, fmt.Sprintf("/api/ledger/volumes/%d/remove", v.Volume), `{"export_sha256":"`+sha+`"}`)
	if status/100 != 2 && !h.harmed {
		must(fmt.Errorf("the removal is answered %d: %s", status, answer))
	}
}

// rotate rotates the key of the stopped server.
func (h *history) rotate() {
	h.runs(1)
	h.stop()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	opts := historyOptions(h.dir)
	must(withStreams(ctx, opts.DataDir, false, func(store *jetstream.Store) error {
		log, err := translog.Open(translog.Options{Dir: filepath.Join(opts.DataDir, "audit"), KeyFile: opts.Proof.KeyFile, Lost: store.Lost, Removed: store.Removed, Logger: opts.Logger})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- log.Run(ctx, store, store) }()
		last, err := store.LastSeq(ctx)
		if err == nil {
			_, err = log.Checkpoint(ctx, last)
		}
		for err == nil {
			if _, err = log.RotateKey(ctx, store, events.Actor{Principal: "daybook", Transport: "embed"}); err == nil || !strings.Contains(err.Error(), "not read yet") {
				break
			}
			err = nil
			time.Sleep(time.Millisecond) // polling
		}
		stop()
		<-ended
		return err
	}))
	h.start(false)
}

// harm changes the newest block of the stopped server, and starts it with AcceptDamage. Meanwhile there is
// a file with the name "harmed".
func (h *history) harm(edit func([]message) []message) {
	h.runs(6)
	h.stop()
	marker := filepath.Join(h.dir, "harmed")
	must(os.WriteFile(marker, nil, 0o600))
	data := historyOptions(h.dir).DataDir
	list, err := filepath.Glob(filepath.Join(data, "jetstream/jetstream/$G/streams/LEDGER-*/msgs/*.blk"))
	must(err)
	file := list[len(list)-1]
	raw, err := os.ReadFile(file)
	must(err)
	rel, err := filepath.Rel(data, file)
	must(err)
	must(os.WriteFile(file, encodeBlock(rel, edit(decodeBlock(raw))), 0o600))
	h.queued, h.harmed = nil, true
	h.start(true)
	h.runs(1)
	h.post("/api/ledger/checkpoint", "")
	must(os.Remove(marker))
}

// grower is the process of a history, as the test sees it.
type grower struct {
	root string
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	// took is how long each action takes.
	took map[string]time.Duration
	// kept is the newest checkpoint that was signed in the crash state before.
	kept proof.Checkpoint
	// keys are the first keys of the origins before the action. A crash without damage starts no other.
	keys []string
}

func startGrower(t *testing.T) *grower {
	t.Helper()
	g := &grower{root: t.TempDir(), took: map[string]time.Duration{}}
	g.cmd = exec.Command(os.Args[0])
	g.cmd.Env = append(os.Environ(), consumerVariable+"=history", historyVariable+"="+g.root)
	g.cmd.Stderr = t.Output()
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := g.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.in, g.out = in, bufio.NewReader(out)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.end)
	if line, err := g.out.ReadString('\n'); err != nil {
		t.Fatalf("the history did not start: %q, %v", line, err)
	}
	return g
}

func (g *grower) end() {
	if g.cmd.ProcessState == nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	}
}

// crash lets the history do an action, and returns its files as they are at a random moment of it, as if the
// process had been killed then. The history ends the action afterwards.
func (g *grower) crash(t *testing.T, name string, random *rand.Rand) (files map[string][]byte, err error) {
	vkeys, err := os.ReadFile(filepath.Join(historyOptions(g.root).DataDir, "audit", "vkey"))
	if err != nil {
		return nil, err
	}
	g.keys = firstKeys(vkeys)
	began := time.Now()
	if _, err := fmt.Fprintf(g.in, "%d %s\n", random.Uint64(), name); err != nil {
		return nil, err
	}
	whole := g.took[name]
	if whole == 0 {
		whole = 200 * time.Millisecond
	}
	time.Sleep(time.Duration(random.Int64N(int64(whole)))) // a random moment is the purpose of the test
	if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	for !stopped(g.cmd.Process.Pid) {
		time.Sleep(time.Millisecond) // polling another process
	}
	paused := time.Now()
	files = readFiles(t, g.root)
	if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return nil, err
	}
	lost := time.Since(paused)
	if line, err := g.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the history ended: %q, %w", line, err)
	}
	g.took[name] = time.Since(began) - lost
	return files, nil
}

// stopped reports whether all threads of a process are stopped.
func stopped(pid int) bool {
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(list) == 0 {
		return false
	}
	for _, path := range list {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		_, rest, _ := bytes.Cut(raw, []byte(") "))
		if err != nil || len(rest) == 0 || rest[0] != 'T' && rest[0] != 'Z' {
			return false
		}
	}
	return true
}

// firstKeys returns the first key of each origin in a file of keys: the operator publishes these.
func firstKeys(raw []byte) []string {
	var keys []string
	seen := map[string]bool{}
	for key := range strings.FieldsSeq(string(raw)) {
		if name, err := proof.VKeyName(key); err == nil && !seen[name] {
			seen[name] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// A server that is killed at any moment leaves a ledger that is INTACT, or INTACT UP TO the newest event that it
// signed. A start continues it, signs all, and then it is INTACT. Each verification has the first key of
// each origin before the action in which the server was killed, and a checkpoint that was signed before it.
// The one after the start also has the newest checkpoint that the killed server signed. Only a loss that was
// accepted may start another origin.
func TestCrashStates(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("%d crash states, -crash-seed=%d", *crashStates, seed)
	var tally verdicts.Tally
	lanes := tier.Choose(2, 3)
	names := slices.Sorted(maps.Keys(historyActions))
	var running sync.WaitGroup
	for lane := range lanes {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(lane)))
			var g *grower
			for n := lane; n < *crashStates && !t.Failed(); n += lanes {
				if g == nil || n/lanes%40 == 0 { // a new ledger: the files of a long history take long to copy
					if g != nil {
						g.end()
					}
					g = startGrower(t)
				}
				name := names[n%len(names)]
				files, err := g.crash(t, name, random)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				tally.Add(name, g.judge(t, name, files))
			}
		})
	}
	running.Wait()
	table := tally.Table("killed during", isIntact, isIntactUpTo)
	t.Logf("verdicts:\n%s", table)
	if *proofTables && !t.Failed() {
		tableOfCrashStates.Write(t, table)
	}
}

// The document has the table of a full run.
func TestTableOfCrashStates(t *testing.T) {
	t.Parallel()
	rows, tried := tableOfCrashStates.Tried(t)
	for name := range historyActions {
		if rows[name] == 0 {
			t.Errorf("the table has no row for %q; run make torture-proofs", name)
		}
	}
	if tried < 1000 {
		t.Errorf("the table has %d crash states, want at least 1,000; run make torture-proofs", tried)
	}
}

// judge verifies a crash state, starts the real server on it, and verifies it again. It returns the first
// verdict.
func (g *grower) judge(t *testing.T, name string, files map[string][]byte) string {
	root, err := os.MkdirTemp("", "daybook-crash-")
	if err != nil {
		t.Error(err)
		return "failed"
	}
	failed := func(format string, args ...any) string {
		t.Errorf("%s: %s (the files are in %s)", name, fmt.Sprintf(format, args...), root)
		return "failed"
	}
	delete(files, "data/ballast")
	_, harmed := files["harmed"]
	harms := strings.Contains(name, "accepted")
	if harms { // a checkpoint whose size is among the lost positions cannot be compared
		g.kept = proof.Checkpoint{}
	}
	if err := writeFiles(root, files); err != nil {
		return failed("%v", err)
	}
	opts := historyOptions(root)
	verify := func() (*audit.Report, error) {
		ask := embed.VerifyOptions{DataDir: opts.DataDir, Keys: g.keys}
		if harms { // the operator publishes the key of a successor
			raw, err := os.ReadFile(filepath.Join(opts.DataDir, "audit", "vkey"))
			if err != nil {
				return nil, err
			}
			ask.Keys = firstKeys(raw)
		}
		if g.kept.Note != nil {
			ask.Checkpoints = [][]byte{g.kept.Note}
		}
		return embed.Verify(context.WithoutCancel(t.Context()), ask)
	}
	outcome := "accepted later"
	if !harmed {
		r, err := verify()
		if err != nil {
			return failed("verify before the start: %v", err)
		}
		outcome = verdicts.Words(r.Verdict)
		if outcome != isIntact && outcome != isIntactUpTo {
			return failed("before the start the verdict is\n%s", r)
		}
	}
	opts.Storage.AcceptDamage = harmed
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.NATS.NoSync = true
	book, err := embed.Start(t.Context(), opts)
	if err != nil {
		return failed("the start: %v", err)
	}
	if _, err := book.Submit(t.Context(), embed.Script{Code: "'after the crash'"}); err != nil {
		list, _ := book.Damage()
		book.Close()
		return failed("the server refuses a run: %v; damage %v", err, list)
	}
	if err := book.Close(); err != nil {
		return failed("the end: %v", err)
	}
	if !harms {
		if g.kept, err = proof.ParseCheckpoint(files["keys/key.signed"]); err != nil {
			return failed("the newest checkpoint that the killed server signed: %v", err)
		}
	}
	r, err := verify()
	if err != nil {
		return failed("verify after the start: %v", err)
	}
	if r.Verdict != audit.Intact {
		return failed("after the start the verdict is\n%s", r)
	}
	raw, err := os.ReadFile(filepath.Join(opts.DataDir, "audit", "vkey"))
	if now := firstKeys(raw); err != nil || !slices.Equal(now, g.keys) && (!harms || !harmed && !slices.Equal(now, firstKeys(files["data/audit/vkey"]))) {
		return failed("the start made other origins: %q, before %q, %v", now, g.keys, err)
	}
	os.RemoveAll(root)
	return outcome
}
