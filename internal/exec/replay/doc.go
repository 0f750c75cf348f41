// Package replay executes a recorded run again and compares it with the record.
//
// A replay has the recorded source, input heap, engine, seed and start time. Host calls are
// answered from the ledger, at the recorded times of the script's clock, and no tool is
// called. Timers fire without a wait. The replay writes nothing: output and heap are
// compared and dropped.
//
// A run that reached its end is compared to the end: its output with level and time of each
// line, its artifacts, its calls, status, result, error and heap. A run that was stopped (by its time
// limit, by a client, for lack of memory, with its worker or its server) is compared up to
// the last recorded line and call; the replay is then stopped.
//
// The package records no event and decides for no tenant who may replay; ledger and embed
// do. It runs no JavaScript itself: workers do (internal/exec/worker).
//
// The files, in reading order:
//
//   - modules.go: gives the script the packages that it imported, and its WebAssembly modules
//   - replay.go: Replayer: makes the task of a recorded run, and runs it
//   - end.go: compares the end of a replay with the recorded end
//   - output.go: compares output with the record while it is written
//   - timeline.go: records what a replay does, step by step
//   - artifacts.go: compares artifacts with the record when they are created, and those of
//     another script
//   - whatif.go: executes another script with the inputs of a recorded run, and compares both
//   - answers.go: answers the host calls of another script from the record
//   - linediff.go: compares two outputs by lines
//   - heaps.go: lists the globals of heaps, which runs no code of their scripts; names the
//     first global that differs in the heaps of a run and its replay
//   - sampler.go: Sampler: replays a sample of all executions while the server is idle
//   - rebuild.go: replays a run from a heap that takes the place of the recorded one, for the
//     migration of heaps to another engine
//   - gate.go: limits how many replays and lists of globals run at a time, and shares them
//     among tenants
//   - difference.go: Report and Difference; shortens texts to what a person needs to see
package replay
