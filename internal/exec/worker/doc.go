// Package worker runs scripts in worker processes. A worker is this same program,
// started again and locked down. It has one V8 isolate at a time.
//
// A script may be able to crash V8 or to take it over. Therefore the parent, a Pool,
// trusts no worker. It limits each frame and checks it against a strict state machine.
// It can kill the worker of any run. A worker serves one tenant only, knows no secrets
// and has no files, no environment and no network.
//
// A program that imports the package is its own worker: a process that was started as
// one never reaches main. The package records nothing. It turns a runner.Task into
// lines of output and a runner.Outcome.
//
// The files that run in the parent, in reading order:
//
//   - task.go: checks a runner.Task; the memory that it may take
//   - pool.go: Pool and its options: which worker runs a task, and which are started ahead
//   - reuse.go: which runs may share a worker
//   - startway.go: the ways to start a worker, and which of them the system permits
//   - start.go: starts a worker in namespaces of its own; the base heap, which the first
//     worker creates for the others
//   - process.go: one worker process: pipes, handshake, signals, reason of its exit
//   - run.go: one run of a task on a worker, and how it is stopped
//   - framechecker.go: checks the frames of one run
//   - carried.go: checks what a worker reports of its input heap, and the warnings about it
//   - hostcall.go: host calls: limits and frames
//   - memory.go: limits the memory of running workers
//   - cputime.go: measures the CPU time of a run from outside the worker
//
// The worker protocol, which both sides share:
//
//   - frame.go: frames and their types
//   - message.go: the messages in them
//   - line.go: lines of output
//
// The files that run in the worker:
//
//   - reexec.go: turns a process that was started as a worker into one, before main;
//     installs the system call filter and proves the layers
//   - serve.go: reads tasks with their heaps, runs them and reports their ends
//   - prewarm.go: an isolate that is created before its run is known
//   - transpile.go: the source as a program for V8
//   - stack.go: names and positions for stack traces
//   - hints.go: advice that is added to common errors
//   - sink.go: console messages as frames of lines
//   - hostlink.go: the worker's end of host calls
package worker
