// Package migration makes heaps of other engines again, so that the engine of this server can
// restore them: it replays the executions that led to a heap, compares each with its record,
// and stores the heap that the last one left.
//
// The executions are replayed from the nearest ancestor that the engine accepts, which is a
// fresh isolate, a heap of this engine, or a heap that was migrated before. Memory does not
// depend on their number. At most one migration of a heap to the engine is made at a time.
//
// The package decides which tenants take turns nowhere: a caller passes the place that replays
// take. It runs no JavaScript and compares nothing itself (internal/exec/replay), and records
// events through ledger.
//
// The files, in reading order:
//
//   - migration.go: Migrator: looks up what is recorded, replays, and records the verdict
//   - lineage.go: finds the executions to replay, and refuses lineages that cannot be replayed
//   - flight.go: lets parallel requests for the same heap wait for one
package migration
