package embed

import (
	"context"
	"errors"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/admission"
	"daybook/internal/exec/migration"
	"daybook/internal/web/access"
	"daybook/ledger"
	"daybook/runner"
)

// runMigrationTime is the time after which a run that waits for the migration of its heap
// gives its slot to other runs. The next delivery continues the migration.
const runMigrationTime = 2 * time.Minute

// MigrateHeap implements httpapi.HeapMigrations. Each leg of the migration takes a place of
// the gate of replays.
func (r *replays) MigrateHeap(ctx context.Context, tenant, heap string, actor events.Actor) (_ httpapi.MigratedHeap, err error) {
	ctx, done := r.untilClose(ctx)
	defer done(&err)
	if err = r.d.Unwritable(); err != nil { // the verdict could not be recorded
		return httpapi.MigratedHeap{}, err
	}
	if err = r.d.quotas.CheckHeaps(ctx, tenant); err != nil {
		if over, ok := errors.AsType[*access.LimitError](err); ok {
			err = admission.OverLimit(over)
		}
		return httpapi.MigratedHeap{}, err
	}
	found, err := r.migrator.Migrate(ctx, migration.Request{
		Tenant: tenant, Heap: heap, Actor: actor, Enter: func(ctx context.Context) (func(), error) { return r.gate.Enter(ctx, tenant) },
	})
	if err == nil {
		// A replay right after the answer finds the migration in the projections.
		err = r.d.projections.Wait(ctx, found.Seq)
	}
	if err != nil {
		return httpapi.MigratedHeap{}, asUnavailable(err)
	}
	answer := httpapi.MigratedHeap{
		Heap: found.Heap, Verdict: found.Verdict, NewHeap: found.NewHeap, EngineID: found.EngineID, NewEngineID: found.Engine.ID, From: found.From,
		Replayed: found.Executions, Recorded: found.IsRecorded, ExecutionID: found.ExecutionID, Reason: found.Reason, Message: found.Why(),
		WallMillis: found.WallTime.Milliseconds(), Sequence: found.Seq,
	}
	if diff := found.Difference; diff != nil {
		answer.Difference = &httpapi.ReplayDifference{Part: diff.Part, Line: diff.Line, Call: diff.Call, Artifact: diff.Artifact, Recorded: diff.Recorded, Replayed: diff.Replayed}
		answer.Message = ""
	}
	return answer, nil
}

// runMigrations migrates heaps for runs, which hold their slots meanwhile: no place of the
// gate of replays is taken.
type runMigrations struct{ d *Daybook }

// Migrate implements runner.Migrations.
func (m runMigrations) Migrate(ctx context.Context, r ledger.Request, heap string) (migrated string, err error) {
	found, err := m.d.replays.migrator.Migrate(ctx, migration.Request{
		Tenant: r.Tenant, Heap: heap, Actor: r.Actor, RunID: r.ExecutionID, After: r.Seq, Limit: runMigrationTime,
	})
	switch {
	case err != nil:
		return "", err
	case found.NewHeap == "":
		return "", &runner.NotMigratedError{Why: found.Why()}
	}
	return found.NewHeap, nil
}
