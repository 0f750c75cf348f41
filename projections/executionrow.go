package projections

import "strings"

// executionRow holds the columns of an execution that is not in the table yet: its request
// is in the same batch. It is added at the end of the batch, so that a run whose events come
// in one batch costs one statement instead of one for each event.
type executionRow [executionColumns]any

// The columns of executionRow.
const (
	colID = iota
	colTenant
	colExecutionID
	colStatus
	colRequestedSeq
	colLastSeq
	colRequestedAt
	colStartedAt
	colCompletedAt
	colQueued
	colAttempt
	colEngineID
	colSource
	colFileName
	colTags
	colRequestedHeap
	colInputHeap
	colOutputHeap
	colMigratedFrom
	colSession
	colSessionID
	colLogicalID
	colTurn
	colHeapMB
	colTimeoutSecs
	colWithoutHeap
	colActor
	colCancelledBy
	colResult
	colResultTruncated
	colError
	colReason
	colUsage
	colWarnings
	colPristine
	colNondeterministic
	colOutLine
	colOutByte
	colOutOpen
	colOutAttempt
	colOutTruncated
	colOutSHA256
	colWrittenLines
	colWrittenBytes

	executionColumns
)

// insertExecution adds an executionRow, which has the columns of the table in order.
var insertExecution = `INSERT INTO executions VALUES (` + strings.TrimSuffix(strings.Repeat("?,", executionColumns), ",") + `)`

// addExecution keeps a new row for the end of the batch and gives it the id that SQLite
// would choose.
func (a *applier) addExecution(st *executionState) error {
	if a.lastID == 0 {
		if err := a.queryRow(a.s.lastID).Scan(&a.lastID); err != nil {
			return err
		}
	}
	a.lastID++
	st.id = a.lastID
	a.newExecutions = append(a.newExecutions, st)
	return nil
}

// storeExecutions writes what is not in the table of executions yet. A statement that reads or
// changes the rows of several executions MUST be preceded by it.
func (a *applier) storeExecutions() error {
	for _, st := range a.newExecutions {
		st.row[colID], st.row[colStatus], st.row[colLastSeq] = st.id, string(st.status), int64(st.lastSeq)
		st.row[colOutLine], st.row[colOutByte], st.row[colOutOpen], st.row[colOutAttempt] = st.extent.Line, st.extent.Byte, st.extent.Open, int64(st.extent.Attempt)
		st.row[colWarnings] = warningsJSON(st.warnings)
		if err := a.exec(a.s.insertExecution, st.row[:]...); err != nil {
			return err
		}
		st.row, st.isUnstored = nil, false
	}
	a.newExecutions = nil
	return a.storeExtents()
}
