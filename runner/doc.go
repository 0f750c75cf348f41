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
// The files, in reading order:
//
//   - ports.go: the interfaces of the queue, the ledger, the blob store and the tool servers
//   - workers.go: the interface of the workers, the task of a run and its outcome
//   - runner.go: Runner, its options, and the phases of a shutdown
//   - delivery.go: one delivery of a request, from the plan to the acknowledgement, and
//     counts of failed tries by request
//   - turns.go: runs of logical sessions, which wait for their turn
//   - attempt.go: one attempt of a run
//   - input.go: source, heap and tools that a run starts from
//   - pump.go: records output while the script runs
//   - chunk.go: output as chunks that fit an event
//   - outputpace.go: limits the rate of recorded output
//   - hostcallbroker.go: performs and records the host calls of a script
//   - replayhost.go: answers host calls from the ledger
//   - ending.go: stores the heap and records the end
//   - stats.go: counts for metrics
package runner
