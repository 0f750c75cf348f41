// Package ledger is the write side of Daybook: the commands, their rules, and the events
// that they append.
//
// The package promises that an acknowledged command is on disk, and that each execution
// has exactly one terminal event. It decides from the ledger, by expected positions, and
// never from a projection. It is safe to use from several processes at once, and holds no
// state that cannot be lost.
//
// Commands come from two sides. Clients submit, cancel, tag and reset. Runners plan,
// start, report and finish runs. The package knows no NATS, V8, SQLite or HTTP; it
// declares its dependencies as interfaces in ledger.go. The subject of an event, from
// package events, determines which events a lookup finds.
//
// Other packages decide how many runs a tenant may have (internal/admission, through
// Options.Admit), which runner receives a request and when (internal/store/queue, runner),
// how much output is recorded (runner), and which heaps are collected
// (internal/lifecycle/retention). The rules for conversation contexts, webhooks,
// checkpoints and volumes are in internal/contextstore, internal/webhook, internal/translog
// and internal/store/stream.
//
// The files, in reading order:
//
//   - ledger.go: Ledger, the defaults of its options, and the interfaces of its store
//   - commands.go: the arguments and results of commands
//   - errors.go: classes of errors; which of them may pass; how a message quotes a client's
//     text. The text of a message is in the file of its rule
//   - answer.go: limits the time of a client's command; decides which work continues after
//     the client has disconnected
//   - retry.go: repeats a decision after a conflict, and decides when to stop
//   - locks.go: locks a session or heaps in this process, so that writers conflict less often
//   - history.go: derives the state of an execution from its control events
//   - recording.go: reads an ended execution with all of its inputs, to execute it again
//   - validate.go: refuses arguments by size and form; sets the limits of a run from its
//     request and the defaults
//   - submit.go: records the request of a run; finds an earlier one with its idempotency key,
//     asks for admission, refuses an input heap that cannot be restored
//   - globals.go: limits and encodes the values that a request gives to a script
//   - text.go: stores a long text as a blob; shortens the warnings of a run
//   - encryption.go: decides which runs are encrypted, under which content key; records that
//     a session is shredded
//   - attempt.go: MaxAttempts; Plan decides whether a delivered request starts the next
//     attempt, waits or ends; records the start and the hand-back of an attempt
//   - output.go: records output, and that it reached its cap
//   - modules.go: records admitted packages, and what a script imports; checks the files of a run
//   - hostcalls.go: records host calls and their answers; decides whether an interrupted run
//     continues from them
//   - artifacts.go: stores and records the artifacts of scripts
//   - finish.go: records the one terminal event; the messages of runs that have none
//   - finalize.go: records the tags and the session entry of an ended run
//   - movetags.go: moves the tags of a heap to another heap
//   - release.go: releases the request of the next turn after an end
//   - cancel.go: cancels a run for a client: through its runner, or without one
//   - interrupt.go: ends a run that must not be run again: its client's process exited, later
//     events were lost, or its request cannot be read
//   - tags.go: sets and deletes tags of heaps; decides which edit is in force
//   - heapevents.go: reads the events about a heap, which are on the heap's subject, or on the
//     one of an earlier version
//   - collect.go: records collected heaps, except those used since the decision; explains why
//     a heap is no longer stored
//   - logicalsession.go: opens a logical session, or finds the one of an intent; derives the
//     state of a session
//   - turn.go: assigns turns; decides whether a turn waits, is skipped or starts, and from
//     which heap
//   - turnlimit.go: limits the waiting turns of a session
//   - heads.go: caches session heads, and which turns have ended
//   - migration.go: records migrations of heaps and looks them up; decides which heaps of
//     another engine are refused
//   - reset.go: resets a session; decides to which heaps it may be set
//   - expand.go: adds catalog entries to a session
//   - continuity.go: decides whether the state of a session can continue when it is expanded;
//     records a break
//   - refs.go: assigns, resolves and caches short names of sessions
//   - agents.go: opens ACP sessions; limits and records their settings and prompts, and the
//     permissions that acp decides
package ledger
