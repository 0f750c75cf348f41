package projections

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
)

// killVariable has the directory of a process that is killed, and the step after which it is.
const killVariable = "DAYBOOK_TEST_KILL_COPIES"

const erasable = "Dreiundvierzig"

// killLedger is the ledger of TestKilledCopies: it is never longer than it, and each server has
// applied a part of it. It is a Feed.
type killLedger []events.Event

// killErasedAt is the number of events before the erasure, killCopies are those before each copy.
const killErasedAt = 60

var killCopies = []uint64{20, 40, 50, 75, 90}

func newKillLedger() (l killLedger) {
	add := func(d events.Data) {
		l = append(l, events.Event{
			Seq: uint64(len(l) + 1), ID: fmt.Sprint("event-", len(l)), Type: events.TypeOf(d), Tenant: events.DefaultTenant,
			Time: time.Date(2026, 11, 30, 9, 0, len(l), 0, time.UTC), Data: d,
		})
	}
	session := events.SessionID(events.DefaultTenant, "private")
	for len(l) < 100 {
		if len(l) == killErasedAt {
			add(&events.SessionShredded{SessionID: session, Session: "private", KeyIDs: []string{"key"}})
			continue
		}
		d := &events.ExecutionRequested{
			ExecutionID: fmt.Sprintf("00000000-0000-7000-8000-%012d", len(l)), Pool: events.DefaultPool, FileName: "main.ts",
			Content: events.Plain(events.RequestedContent{Source: events.Body{Text: fmt.Sprintf("run(%d)", len(l))}}),
		}
		if len(l)%5 == 0 && len(l) < killErasedAt {
			d.Session, d.SessionID = "private", session
			d.Content = events.Content[events.RequestedContent]{Plain: &events.RequestedContent{Source: events.Body{Text: erasable}}, Sealed: &events.EncryptedContent{KeyID: "key"}}
		}
		add(d)
	}
	return l
}

func (l killLedger) Follow(ctx context.Context, after uint64, fn func([]events.Event, uint64) error) error {
	for after < uint64(len(l)) {
		batch := l[after:min(int(after)+10, len(l))]
		if err := fn(batch, uint64(len(l))); err != nil {
			return err
		}
		after += uint64(len(batch))
	}
	<-ctx.Done()
	return ctx.Err()
}

// killedKeys has the content key until its erasure.
type killedKeys struct{}

func (killedKeys) ContentKey(id string) ([]byte, bool) { return nil, id == "key" }

// killRecords is the file that has the recorded copies, one a line.
type killRecords string

func (r killRecords) record(_ context.Context, c Copy) error {
	afterStep()
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(string(r), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	err = errors.Join(err, f.Close())
	afterStep()
	return err
}

func (r killRecords) recorded(context.Context) (list []Copy, err error) {
	raw, err := os.ReadFile(string(r))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(raw) {
		var c Copy
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, err
}

func killOptions(dir string) Options {
	r := killRecords(filepath.Join(dir, "records"))
	return Options{Path: filepath.Join(dir, "projections.db"), CopyDir: filepath.Join(dir, "copies"), Keys: killedKeys{}, RecordedCopies: r.recorded, Progress: func(uint64, uint64) { afterStep() }}
}

// makeAndUseCopies is what the killed process does: it writes copies, begins rebuilds with them and
// compares them, and applies an erasure.
func makeAndUseCopies(ctx context.Context, dir string) error {
	opts, l := killOptions(dir), newKillLedger()
	for i, at := range killCopies {
		if i > 0 { // rebuild from the copy before
			if err := os.Remove(opts.Path); err != nil {
				return err
			}
		}
		if _, err := Prepare(ctx, opts, l, at-5); err != nil {
			return err
		}
		s, err := Open(ctx, opts)
		if err != nil {
			return err
		}
		err = whileRunning(ctx, s, l[:at], func(ctx context.Context) error {
			err := errors.Join(s.CheckCopies(ctx), s.Wait(ctx, at))
			afterStep()
			if err == nil {
				_, err = s.WriteCopy(ctx, 2, killRecords(filepath.Join(dir, "records")).record)
			}
			return err
		})
		if err = errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	_, err := RebuildFromStart(ctx, opts, l, 95)
	return err
}

// whileRunning calls do while s follows a ledger.
func whileRunning(ctx context.Context, s *Store, l killLedger, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l); stop() }()
	err := do(ctx)
	stop()
	if runErr := <-ended; !errors.Is(runErr, context.Canceled) {
		err = errors.Join(err, runErr)
	}
	return err
}

// A process is killed after each step of writing, using and deleting projection copies. The next
// process has no erased content, no file that no process uses, and rows of which a rebuild from the
// first event finds none different; and it copies the projections again.
func TestKilledCopies(t *testing.T) {
	t.Parallel()
	if dir, step, ok := strings.Cut(os.Getenv(killVariable), "|"); ok {
		n, err := strconv.ParseInt(step, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		var steps atomic.Int64
		afterStep = func() {
			if steps.Add(1) == n {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		if err := makeAndUseCopies(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		fmt.Println("steps", steps.Load())
		return
	}
	seen := map[string]bool{}
	every := tier.Choose(7, 1)
	killed, withContent := 0, 0
	for step := 1; ; step += every {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledCopies$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", killVariable, dir, step))
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Logf("killed %d times, with %d different sets of files: %s", killed, len(seen), bytes.TrimSpace(out))
			break
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: %v\n%s", step, err, out)
		}
		killed++
		names := filesIn(t, dir)
		seen[strings.Join(names, " ")] = true
		if slices.ContainsFunc(names, func(name string) bool { return has(t, filepath.Join(dir, name), erasable) }) {
			withContent++
		}
		checkAfterKill(t, dir, step)
	}
	if killed < 10 || withContent == 0 {
		t.Errorf("the process was killed %d times, %d times with content that is erased later", killed, withContent)
	}
}

func has(t *testing.T, path, text string) bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(raw, []byte(text))
}

// filesIn returns the names of the files below a directory.
func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// checkAfterKill checks what the next process does with the files that a killed one has left.
func checkAfterKill(t *testing.T, dir string, step int) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("step %d: %s", step, fmt.Sprintf(format, args...))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("step %d: %v; the files are %v", step, err, filesIn(t, dir))
		}
	}
	opts, l := killOptions(dir), newKillLedger()
	// If the erasure was committed, no copy of before is left.
	if copies, err := copyPositions(opts.CopyDir); err != nil || AppliedIn(t.Context(), opts.Path) > killErasedAt && slices.ContainsFunc(copies, func(at uint64) bool { return at <= killErasedAt }) {
		fail("there are the copies %v, error %v", copies, err)
	}
	_, err := Prepare(t.Context(), opts, l, 50)
	must(err)
	s, err := Open(t.Context(), opts)
	must(err)
	must(whileRunning(t.Context(), s, l[:50], func(ctx context.Context) error {
		must(s.CheckCopies(ctx))
		recorded, err := opts.RecordedCopies(ctx)
		must(err)
		copies, err := copyPositions(opts.CopyDir)
		must(err)
		for _, at := range copies {
			if !slices.ContainsFunc(recorded, func(c Copy) bool { return c.Position == at }) {
				fail("the copy of %d stays, and is not recorded", at)
			}
		}
		if last := append([]uint64{0}, copies...); s.NewestCopy() != last[len(last)-1] {
			fail("the newest copy is of %d, and there are %v", s.NewestCopy(), copies)
		}
		return nil
	}))
	if s.Applied() < 100 {
		must(s.Apply(t.Context(), l[s.Applied():]))
	}
	if copies, err := copyPositions(opts.CopyDir); err != nil || slices.ContainsFunc(copies, func(at uint64) bool { return at <= killErasedAt }) {
		fail("after the erasure there are the copies %v, error %v", copies, err)
	}
	c, err := s.WriteCopy(t.Context(), 2, killRecords(filepath.Join(dir, "records")).record)
	must(err)
	if s.NewestCopy() != c.Position {
		fail("the newest copy is of %d, not %d", s.NewestCopy(), c.Position)
	}
	must(s.Close())
	known := []string{"projections.db", "projections.db.sum", "records"}
	for _, name := range filesIn(t, dir) {
		if !slices.Contains(known, name) && !strings.HasSuffix(name, copySuffix) {
			fail("there is %s", name)
		}
	}
	must(os.Remove(opts.Path))
	from, err := Rebuild(t.Context(), opts, l, 100)
	if err != nil || from != 100 {
		fail("the rebuild began at %d, error %v", from, err)
	}
	compared, err := RebuildFromStart(t.Context(), opts, l, 100)
	must(err)
	for _, d := range compared {
		if d.Skipped != "" || d.Different > 0 {
			fail("compared %+v", d)
		}
	}
	for _, name := range filesIn(t, dir) {
		if has(t, filepath.Join(dir, name), erasable) {
			fail("%s has erased content", name)
		}
	}
}
