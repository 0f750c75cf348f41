// Package runner executes the runs of a ledger. It takes run requests from the work
// queue, lets workers execute the scripts, records their output while it is written,
// and records the end of each execution.
//
// The package promises that each execution ends exactly once, even if a worker, this
// process or the connection to the ledger fails. Everything that a run leaves is in the
// ledger and the blob store; the runner holds no state that cannot be lost. If it
// cannot continue, it returns the request, and the next delivery derives from the
// ledger what is left to do.
//
// The package executes no JavaScript, talks to no server and contains no cgo. It
// declares its dependencies as interfaces in ports.go and workers.go.
//
// Package ledger decides whether a delivered request leads to another attempt (Ledger.Plan),
// and records the end; internal/store/queue decides which request gets a free slot. The
// workers stop a script at its limits of time and memory and set the reason of its failure
// (internal/exec/worker). embed/toolservers.go decides which tools it may call.
//
// The files, in reading order:
//
//   - ports.go: the interfaces of the queue, the ledger, the blob store and the tool servers
//   - workers.go: the interface of the workers: the task of a run, its outcome and its reasons
//   - runner.go: Runner, the defaults of its options, and the phases of a shutdown: when runs
//     are stopped and handed back
//   - delivery.go: acts on the plan of a delivered request: runs, postpones or finalizes; then
//     acknowledges it or returns it, and decides after which delay it is delivered again
//   - turns.go: returns the request of a turn that has to wait
//   - attempt.go: records the start, passes the script to a worker, and decides how a run
//     that did not reach its end is recorded: handed back, failed, cancelled or timed out
//   - input.go: reads the source, the heap and the list of callable tools; decides when a run
//     fails before its script starts, such as a turn whose session head cannot be restored
//   - pump.go: collects output and records it; enforces the output cap
//   - chunk.go: divides output into chunks that fit an event; replaces invalid text
//   - artifacts.go: records the artifacts of a script
//   - outputpace.go: limits the rate of recorded output of all runs
//   - modules.go: provides the packages that a script imports; keeps bundles for later runs
//   - wasm.go: provides the WebAssembly modules of the server, or those of the first attempt
//   - hostcallbroker.go: records and performs the host calls of a script; decides which answer
//     or timer it receives next, and sets its clock
//   - replayhost.go: answers the host calls of a resumed or replayed run from the ledger, and
//     detects calls that differ
//   - ending.go: stores the heap and records the outcome of a script that reached its end;
//     decides which failures are tried again
//   - stats.go: counts for metrics
package runner
