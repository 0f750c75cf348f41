// Package projections is the read side of Daybook: SQLite tables derived from the events
// of the ledger, and the queries that read them.
//
// The package promises that its file holds nothing that cannot be rebuilt from the ledger,
// and that a rebuild gives the same rows as applying the events one by one. The position
// of the last applied event is committed with the rows, so each event takes effect exactly
// once. The write side never reads the file.
//
// Other packages decide how long a client waits for the end of a run (httpapi/wait.go), when
// a conversation context expires (internal/contextstore), and how much a tenant may use
// (internal/web/access).
//
// The files, in reading order:
//
//   - schema.go: the schema version, and all tables
//   - store.go: opens and closes the file; limits concurrent queries; lets readers wait for a
//     position (Wait); returns SQLite's free memory
//   - run.go: applies batches of events, each in one transaction; chooses the rule for each
//     type of event; detects gaps in positions
//   - statements.go: prepares the statements of the applier
//   - statement.go: runs a prepared statement on the driver's connection
//   - executionrow.go: adds the rows of executions that a batch requests, at its end
//   - apply.go: applies events of executions and session entries, tag edits, and collected
//     and lost heaps
//   - apply_output.go: applies output; decides which chunks count
//   - chunk.go: encodes a chunk of output as it is stored
//   - calls.go: applies and reads host calls
//   - artifacts.go: applies and reads artifacts
//   - apply_migrations.go: applies migrations of heaps
//   - replays.go: stores the newest verdict about each execution
//   - apply_tags.go: updates the current tags and their index
//   - apply_sessions.go: counts the runs of sessions and notes their last use, for the lists
//   - apply_logical.go: applies events of logical sessions; moves the session head
//   - apply_agents.go: applies events of ACP sessions
//   - apply_contexts.go: applies events of conversation contexts and runs in them
//   - context_fold.go: limits the content of a context; summarizes its older calls
//   - context_calls.go: adds host calls to a context, and limits those of a run
//   - apply_shred.go: erases the content of a shredded session
//   - apply_removal.go: drops the rows of removed volumes; decides whether an event of an
//     unknown execution is an anomaly
//   - usage.go: counts what each tenant uses
//   - watch.go: wakes the readers of an execution after a commit
//   - pendingentries.go: lets a reader of a session log wait for entries of ended runs
//   - stall.go: decides whether a failed write is tried again, as on a full disk
//   - checkpoint.go: decides when pages of the write-ahead log move to the file; removes erased
//     content from the log, and truncates it when disk space runs out
//   - rebuild.go: decides at the start whether to rebuild the file, and does it
//   - copy.go: writes projection copies while events are applied; deletes those with erased content
//   - copyfiles.go: names, finds and restores projection copies
//   - compare.go: rebuilds from the first event, and compares the old file and the copies with it
//   - checksum.go: writes and compares the checksum of a closed file
//   - anomalies.go: records and counts the events whose effect is left out
//   - lostkeys.go: refuses a rebuild that would omit content whose keys are missing
//   - model.go: parameters and results of the queries, limits of an output page; httpapi
//     returns these results as JSON without a type of its own
//   - executions.go: reads one execution and its texts
//   - list.go: lists executions: filters, the search in sources, limits of a page
//   - resolve.go: finds the execution or heap of an abbreviated id or of @last
//   - page.go: reads a page of output, and its beginning for an answer
//   - lines.go: reads output by line for readers that follow live
//   - trace.go: reads the steps of a run, output and host calls, since a mark
//   - migrations.go: finds what made a heap, and the heaps that migrations made
//   - heaps.go: reads and lists heaps; follows a lineage
//   - tags.go: reads the tags of a heap and their history; finds heaps by tags
//   - sessions.go: reads the session log
//   - sessionlist.go: lists sessions of every kind in pages; finds the session that a text names
//   - firstposition.go: the position from which events of an execution or a session are read
//   - logical.go, acpsessions.go: read and list logical sessions, and ACP sessions with their
//     prompts
//   - context.go: reads a conversation context, and finds idle ones
//   - removals.go: finds what depends on a volume; decides whether an unknown execution was
//     removed or never existed
//   - cursor.go: encodes and checks cursors; decides whether there is a next page
package projections
