package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
)

// The history of an execution is complete, or its reader returns an error: the server
// skips messages that it cannot read.
func TestHistoryWithAFlippedBit(t *testing.T) {
	t.Parallel()
	const outputs = 9
	type damaged struct {
		bad   string
		ended bool
	}
	var all []damaged
	for _, bad := range []string{"requested", "started", "started again", "output 1", "output 5", "output 9", "output of another", ""} {
		all = append(all, damaged{bad, false}, damaged{bad, true})
	}
	for _, d := range append(all, damaged{"ended", true}) {
		bad := d.bad
		t.Run(fmt.Sprintf("%s/%t", strings.ReplaceAll(bad, " ", "_"), d.ended), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			server := storetest.StartServer(t, dir)
			s := storetest.Open(t, server, jetstream.Options{})
			ids := []string{newID(), newID()}
			text := func(id string, i int) string { return fmt.Sprintf("%s line %d %s", id, i, strings.Repeat("x", 40<<10)) }
			for _, id := range ids {
				mustAppend(t, s, requested(id), 0)
			}
			first := mustAppend(t, s, started(ids[0], 1), 0)
			for i := 1; i <= outputs; i++ {
				for _, id := range ids {
					mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionOutput{
						ExecutionID: id, Attempt: 1, FirstLine: int64(i), Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: text(id, i)}}}),
					}), -1)
				}
			}
			second := mustAppend(t, s, started(ids[0], 2), int64(first))
			controls := 3
			if d.ended {
				mustAppend(t, s, ended(ids[0]), int64(second))
				controls++
			}
			read := func(s *jetstream.Store) (n int, err error) {
				err = s.ExecutionEvents(t.Context(), tenant, ids[0], 0, func(events.Event) error { n++; return nil })
				return n, err
			}
			whole, err := read(s)
			if err != nil || whole != outputs+controls {
				t.Fatalf("%d events, %v", whole, err)
			}
			server.Close()
			switch kind, rest, _ := strings.Cut(bad, " "); {
			case bad == "requested":
				flip(t, dir, "LEDGER-0001", `{"execution_id":"`+ids[0]+`","pool"`)
			case bad == "started again":
				flip(t, dir, "LEDGER-0001", `{"execution_id":"`+ids[0]+`","attempt":2`)
			case bad == "ended":
				flip(t, dir, "LEDGER-0001", `{"execution_id":"`+ids[0]+`","attempt":1,"content`)
			case bad == "started":
				flip(t, dir, "LEDGER-0001", `{"execution_id":"`+ids[0]+`","attempt":1,"runner`)
			case rest == "of another":
				flip(t, dir, "LEDGER-0001", ids[1]+" line 3")
			case kind == "output":
				flip(t, dir, "LEDGER-0001", ids[0]+" line "+rest)
			}
			var damage []error
			s = storetest.Open(t, storetest.StartServer(t, dir), jetstream.Options{OnDamage: func(err error) { damage = append(damage, err) }})
			list, err := s.Execution(t.Context(), tenant, ids[0])
			control := bad != "" && !strings.HasPrefix(bad, "output")
			if damaged := errors.Is(err, events.ErrDamaged); damaged != control || damaged != (len(damage) > 0) || !damaged && len(list) != controls {
				t.Errorf("%d control events of %d, %v; reported %v", len(list), controls, err, damage)
			}
			damage = nil
			n, err := read(s)
			if bad != "" && strings.HasSuffix(bad, "another") {
				if n != whole && !errors.Is(err, events.ErrDamaged) { // the damage may be noticed
					t.Errorf("%d events of %d, %v", n, whole, err)
				}
				return
			}
			if damaged := errors.Is(err, events.ErrDamaged); damaged != (bad != "") || damaged != (len(damage) > 0) || !damaged && n != whole {
				t.Errorf("%d events of %d, %v; reported %v", n, whole, err, damage)
			}
		})
	}
}

// A volume that is removed during the reading of a history has fewer messages than
// before. That is no damage.
func TestHistoryOfAVolumeThatIsRemoved(t *testing.T) {
	t.Parallel()
	var damage []error
	s := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{OnDamage: func(err error) { damage = append(damage, err) }})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	line := strings.Repeat("x", 60<<10)
	for i := range 20 { // many pieces
		mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionOutput{
			ExecutionID: id, Attempt: 1, FirstLine: int64(i + 1), Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: line}}}),
		}), -1)
	}
	mustAppend(t, s, ended(id), 0)
	sealProven(t, s)
	n := 0
	err := s.ExecutionEvents(t.Context(), tenant, id, 0, func(e events.Event) error {
		if n++; e.Type == events.TypeExecutionOutput && n == 2 {
			mustRemove(t, s, removal(1))
		}
		return nil
	})
	if err != nil || len(damage) > 0 || n < 3 {
		t.Errorf("%d events, %v; reported %v", n, err, damage)
	}
}

// A message whose write failed is counted until the server opens its files again. The
// lower count after that is no damage.
func TestHistoryWhileFilesAreOpenedAgain(t *testing.T) {
	t.Parallel()
	var damage []error
	dir := t.TempDir()
	server := storetest.StartServer(t, dir)
	failing, fail := context.WithCancelCause(t.Context())
	var writable atomic.Pointer[context.Context]
	writable.Store(&failing)
	s := storetest.Open(t, server, jetstream.Options{
		Client:   jet.Options{Writable: func() context.Context { return *writable.Load() }},
		OnDamage: func(err error) { damage = append(damage, err) },
	})
	id := newID()
	mustAppend(t, s, requested(id), 0)
	const outputs = 20 // many pieces
	for i := range outputs {
		mustAppend(t, s, events.New(tenant, time.Now(), &events.ExecutionOutput{
			ExecutionID: id, Attempt: 1, FirstLine: int64(i + 1),
			Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: fmt.Sprintf("line %d %s", i+1, strings.Repeat("x", 60<<10))}}}),
		}), -1)
	}
	n := 0
	err := s.ExecutionEvents(t.Context(), tenant, id, 0, func(events.Event) error {
		if n++; n == 2 {
			fail(syscall.ENOSPC)
			flip(t, dir, "LEDGER-0001", "line 19 ") // counted before, but not after the files are opened again
			if err := server.Reopen(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := t.Context()
			writable.Store(&again)
			until(t, "the server answers", func() bool { return s.Health(t.Context()) == nil })
		}
		return nil
	})
	unwritable, failed := errors.AsType[*events.UnwritableError](err)
	passes := err == nil || failed && unwritable.Passes
	if !passes || len(damage) > 0 || n < 2 {
		t.Errorf("%d events, %v; reported %v", n, err, damage)
	}
}
