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
// ledger/attempt.go decides whether another attempt follows, runner/attempt.go what is
// recorded of one, and internal/resources/budget how much memory all runs together take.
//
// The files that run in the parent, in reading order:
//
//   - task.go: refuses tasks beyond the limits; decides how much memory a run may take; words
//     out of memory and timeout
//   - pool.go: Pool: decides which worker runs a task, when another is tried, which are
//     started ahead or ended; refuses workers without a required layer
//   - reuse.go: decides which runs may share a worker
//   - ahead.go: decides which idle workers keep the heap of their last run and restore it ahead
//     of the next one, and when they drop it; finds the worker that keeps the heap of a task
//   - prelude.go: makes the workers of a test another engine
//   - startway.go: tries the ways to start a worker, and notes which the system permits;
//     decides which errors are a shortage
//   - start.go: starts a worker in namespaces of its own; passes on the base heap, which the
//     first worker creates
//   - process.go: one worker process: pipes, handshake, kill; finds the reason of its exit
//   - run.go: one run on a worker: stops it at its time limit or a cancel, and decides its
//     outcome when the worker dies
//   - framechecker.go: checks the frames of one run; decides the outcome of a complete run,
//     and whether its worker is used again
//   - carried.go: checks what a worker reports of its input heap, and words the warnings
//     about it
//   - hostcall.go: limits host calls, checks their frames, and passes calls and answers on
//   - artifact.go: limits artifacts and checks their frames; sends them in the worker
//   - build.go: names the build of the program, which is a part of the record of runs
//   - modules.go: checks the request of a worker for packages, and answers it; in the worker:
//     makes the request, and bundles
//   - wasm.go: the WebAssembly modules of a task; a process keeps those of its
//     last task
//   - memory.go: kills a worker that takes more memory than its run may
//   - cputime.go: measures the CPU time of a run from outside the worker
//
// The worker protocol, which both sides share:
//
//   - frame.go: writes and reads frames; limits their size
//   - message.go: the messages in frames, and their JSON form
//   - line.go: encodes lines of output, and checks received ones
//
// The files that run in the worker:
//
//   - reexec.go: turns a process that was started as a worker into one, before main;
//     installs the system call filter and proves the layers
//   - serve.go: starts as the parent asks, reads frames, and takes jobs one after another
//   - job.go: reads a task with its heap, and prepares its program
//   - runjob.go: runs a job or lists the globals of its heap, and reports its end; decides when
//     a source is treated as TypeScript
//   - valuewarnings.go: words the warnings about values that a script does not see
//   - imports.go: resolves the imports of a script before it runs
//   - prewarm.go: creates an isolate before its run is known, renews that of the last run, or
//     restores the heap that the last run saved
//   - keptheap.go: follows the orders of the parent to restore or drop that heap
//   - transpile.go: writes the source as a program for V8; erases types; splits long literals
//   - stack.go: maps the positions of stack traces to the caller's source
//   - hints.go: words the advice that is added to common errors, and decides when
//   - sink.go: collects console messages, and decides when they are sent as frames
//   - timers.go: sends a report of each timer that fires, if the task asks for it; the parent's
//     checks of these reports
//   - hostlink.go: sends the host calls of a script to the parent, and waits for the answers
package worker
