package migration

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/internal/spill"
	"daybook/ledger"
	"daybook/projections"
)

// reasonLineageUnknown is the reason of a heap that is not migrated because the ledger does not
// have the execution that left a heap of its lineage. Other reasons are those of package replay.
const reasonLineageUnknown = "lineage_unknown"

// notMigratedError says why a heap cannot be migrated.
type notMigratedError struct {
	execution       string // the execution that cannot be replayed; empty if it is not known
	reason, message string
}

// Error returns the message.
func (e *notMigratedError) Error() string { return e.message }

// lineage holds the executions to replay, oldest first.
type lineage struct {
	// from is the heap that the first one restores; empty for a fresh isolate.
	from string
	list *spill.Sorted
	// first and last are the ids of the first and the last execution.
	first, last string
}

// lineageMemory is the memory, in bytes, of the ids of a lineage. Longer lists move to a
// temporary file.
const lineageMemory = 64 << 10

// A record of a lineage is a number that decreases on the way back from the heap, and the id of
// an execution.
const lineageRecord = 8 + 16

// close removes the temporary file.
func (l *lineage) close() { l.list.Close() }

func (l *lineage) add(n uint64, execution string) error {
	if l.last == "" {
		l.last = execution
	}
	l.first = execution
	record := binary.BigEndian.AppendUint64(nil, math.MaxUint64-n)
	id, err := hex.DecodeString(strings.ReplaceAll(execution, "-", ""))
	if err != nil || len(id) != 16 {
		return fmt.Errorf("read the lineage of a heap: execution id %.40q: %w", execution, events.ErrDamaged)
	}
	return l.list.Add(append(record, id...))
}

// at returns the id of an execution by its index.
func (l *lineage) at(i int64) (string, error) {
	record, err := l.list.At(i)
	if err != nil {
		return "", fmt.Errorf("read the lineage of a heap: %w", err)
	}
	id := record[8:]
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}

// trace finds the executions to replay for a heap, and where they start. It returns a
// *notMigratedError if one of them is unknown or can never be replayed. The caller MUST close
// the lineage.
func (m *Migrator) trace(ctx context.Context, tenant, heap string, engine events.Engine) (_ *lineage, err error) {
	l := &lineage{list: spill.NewSorted(lineageRecord, lineageMemory)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	at, before := heap, uint64(math.MaxInt64)
	for n := uint64(0); ; {
		if at != heap {
			accepted, err := m.accepted(ctx, tenant, at, engine.ID)
			if err != nil {
				return nil, err
			}
			if accepted != "" {
				l.from = accepted
				break
			}
		}
		source, err := m.opts.Sources.HeapSource(ctx, tenant, at, before)
		if errors.Is(err, events.ErrNotFound) {
			return nil, &notMigratedError{reason: reasonLineageUnknown, message: fmt.Sprintf(
				"the ledger does not have the execution that left heap %s: its volume was removed, or the heap was stored by another ledger", at)}
		}
		if err != nil {
			return nil, err
		}
		before = source.Seq
		if source.MigratedFrom != "" {
			at = source.MigratedFrom
			continue
		}
		if err := m.check(ctx, tenant, at, source); err != nil {
			return nil, err
		}
		if err := l.add(n, source.ExecutionID); err != nil {
			return nil, err
		}
		n++
		if at = source.Parent; at == "" {
			break
		}
	}
	if err := l.list.Sort(); err != nil {
		return nil, fmt.Errorf("read the lineage of heap %s: %w", heap, err)
	}
	return l, nil
}

// accepted returns a heap that the engine can restore in place of an ancestor: the ancestor
// itself, or a recorded migration of it; empty if there is none.
func (m *Migrator) accepted(ctx context.Context, tenant, heap, engineID string) (string, error) {
	made, err := m.opts.Sources.HeapEngine(ctx, tenant, heap)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return "", err
	}
	candidate := heap
	if made != engineID {
		candidate, err = m.opts.Sources.MigratedHeap(ctx, tenant, heap, engineID)
		if errors.Is(err, events.ErrNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
	return candidate, m.checkStored(ctx, tenant, &candidate)
}

// Recorded returns a stored heap that an engine can restore in place of the input heap of an
// attempt; empty if there is none. It makes no migration.
func (m *Migrator) Recorded(ctx context.Context, tenant string, s *events.ExecutionStarted, engineID string) (heap string, err error) {
	for _, key := range []string{s.InputHeap, s.MigratedFrom} {
		if key == "" {
			continue
		}
		if heap, err = m.accepted(ctx, tenant, key, engineID); err != nil || heap != "" {
			return heap, err
		}
	}
	return "", nil
}

// checkStored sets the key of a heap that is not stored to an empty text.
func (m *Migrator) checkStored(ctx context.Context, tenant string, heap *string) error {
	_, err := m.opts.Heaps.HeapInfo(ctx, tenant, *heap)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, events.ErrNotFound), errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrDamaged), errors.Is(err, events.ErrShredded):
		*heap = ""
		return nil
	}
	return fmt.Errorf("read heap %s: %w", *heap, err)
}

// check returns an error for an execution that can never be replayed, and for one whose events
// do not state what the projections state.
func (m *Migrator) check(ctx context.Context, tenant, heap string, s projections.HeapSource) error {
	rec, err := m.recording(ctx, tenant, s.ExecutionID)
	if err != nil {
		return err
	}
	switch {
	case rec.Ending.Heap == nil || rec.Ending.Heap.SHA256 != heap, rec.Started != nil && rec.Started.InputHeap != s.Parent:
		return fmt.Errorf("read the lineage of heap %s: execution %s: its events differ from the projections: %w", heap, s.ExecutionID, events.ErrDamaged)
	}
	if reason, message := replay.CheckRecording(rec); reason != "" {
		return &notMigratedError{s.ExecutionID, reason, message}
	}
	return nil
}

// recording returns the recording of an execution of a lineage.
func (m *Migrator) recording(ctx context.Context, tenant, execution string) (*ledger.Recording, error) {
	rec, err := m.opts.Ledger.Recording(ctx, tenant, execution)
	if err == nil {
		return rec, nil
	}
	reason, message := replay.WhyNot(err)
	if ledger.CodeOf(err) == ledger.CodeNotFound {
		reason, message = reasonLineageUnknown, fmt.Sprintf("execution %s of the lineage is no longer in the ledger", execution)
	}
	if reason != "" {
		return nil, &notMigratedError{execution, reason, message}
	}
	return nil, err
}
