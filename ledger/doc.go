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
// The files, in reading order:
//
//   - ledger.go: Ledger, its options and the interfaces of its store
//   - commands.go: the arguments and results of commands
//   - errors.go: errors with codes, and clients' text in messages
//   - answer.go: the time limit of a client's command, and work that outlives the client
//   - retry.go, locks.go: decisions that are repeated after conflicts, and locks that avoid them
//   - history.go: the state of an execution, derived from its control events
//   - validate.go: the rules for arguments
//   - submit.go, globals.go, text.go, encryption.go: requests of runs and their content
//   - attempt.go: Plan, Start and HandBack for runners
//   - output.go, hostcalls.go: output, host calls and their answers
//   - finish.go, finalize.go, release.go: the end of a run, its tags and session entry, and the next turn
//   - cancel.go, interrupt.go: runs that the ledger ends
//   - tags.go, tagged.go: tag edits of heaps, and a cache for them
//   - collect.go: collected heaps
//   - logicalsession.go: sessions by intent
//   - turn.go, turnlimit.go, heads.go: turns of sessions and the heaps that they start from
//   - reset.go: session heads set by clients
//   - expand.go: catalog entries and short names of sessions
//   - agents.go: ACP sessions
package ledger
