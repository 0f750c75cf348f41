package embed

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"daybook/events"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
)

// newDamaged returns the directory of a ledger with two volumes, of which the stream of the first is
// missing.
func newDamaged(t *testing.T) Options {
	t.Helper()
	opts := Options{DataDir: t.TempDir(), NATS: NATSOptions{NoSync: true}, Runs: RunOptions{Elsewhere: true}}
	book, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.Submit(t.Context(), Script{Code: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := book.store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: systemActor}); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(book.streamsDir(), "jetstream", "$G", "streams", events.Volume(1).Stream())); err != nil {
		t.Fatal(err)
	}
	return opts
}

// An acceptance of damage that was interrupted after any of its steps is continued by the next
// start, without the flag.
func TestInterruptedAcceptanceContinues(t *testing.T) {
	t.Parallel()
	for steps, name := range []string{"the plan", "the intact records", "the event", "the streams moved away", "the new streams in place"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := newDamaged(t)
			d := newDaybook(opts)
			d.opts.Logger = slog.New(slog.DiscardHandler)
			if err := d.openMarks(); err != nil {
				t.Fatal(err)
			}
			if err := translog.AcceptDamage(auditDir(opts.DataDir), "", ""); err != nil {
				t.Fatal(err)
			}
			a, err := d.planRecovery(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			kept := filepath.Join(opts.DataDir, a.Kept)
			for _, step := range []func() error{
				func() error { return d.writePlan(*a) },
				func() error { return d.salvageAccepted(t.Context()) },
				func() error { _, err := d.recordLoss(t.Context(), *a, d.acceptedDir()); return err },
				func() error { return os.Rename(d.streamsDir(), kept) },
				func() error { return os.Rename(d.acceptedDir(), d.streamsDir()) },
			}[:steps+1] {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.closeMarks(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				book, err := Start(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := book.Ready(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := book.Submit(t.Context(), Script{Code: "1"}); err != nil {
					t.Error(err)
				}
				if lost := book.store.Lost(); len(lost) == 0 || lost[0].From != 1 {
					t.Errorf("lost are %v", lost)
				}
				if err := book.Close(); err != nil {
					t.Fatal(err)
				}
			}
			found, err := streamfiles.Check(t.Context(), d.streamsDir(), streamfiles.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range found {
				if len(s.Faults) > 0 {
					t.Errorf("%s: %v", s.Name, s.Faults)
				}
			}
		})
	}
}

// An acceptance that cannot be carried out is refused, and leaves the streams, no plan, and no permission to
// end the origin.
func TestImpossibleAcceptanceChangesNothing(t *testing.T) {
	t.Parallel()
	opts := newDamaged(t)
	d := newDaybook(opts)
	d.opts.Logger = slog.New(slog.DiscardHandler)
	d.opts.Storage.AcceptDamage = true
	if err := d.openMarks(); err != nil {
		t.Fatal(err)
	}
	a, err := d.planRecovery(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.Lost = nil // as if the plan did not know all missing positions
	if err := d.writePlan(*a); err != nil {
		t.Fatal(err)
	}
	if err := d.acceptDamage(t.Context()); !errors.Is(err, events.ErrDamaged) {
		t.Fatalf("the acceptance is not refused: %v", err)
	}
	if err := d.closeMarks(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{d.acceptanceFile(), d.acceptedDir(), filepath.Join(opts.DataDir, a.Kept), translog.SignedPath(auditDir(opts.DataDir), "", "") + ".accepted"} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
	opts.Storage.AcceptDamage = true
	book, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(book.Ready(t.Context()), book.Close()); err != nil {
		t.Error(err)
	}
}

// Texts about damage that a reader found name it once.
func TestReportedDamageIsNamedOnce(t *testing.T) {
	t.Parallel()
	d := newDaybook(Options{})
	d.reportDamage(fmt.Errorf("%w: event 4 was changed", events.ErrDamaged))
	if got, want := d.damage.Err().Error(), events.ErrDamaged.Error()+": event 4 was changed"; got != want {
		t.Errorf("the damage is %q, want %q", got, want)
	}
}
