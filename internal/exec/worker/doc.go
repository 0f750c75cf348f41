// Package worker runs scripts in processes of their own: this same program,
// started anew, locked down, with one V8 isolate at a time.
//
// Any script may be able to crash V8 or take it over. So the parent, a Pool,
// believes nothing a worker says: every frame is bounded and checked against a
// strict state machine, every run has a hard kill, and a worker serves one
// tenant only. A worker knows no secrets, has no files, no environment and no
// network.
//
// Importing the package is enough for a program to serve as its own worker: a
// process started as one never reaches main. The package knows nothing of the
// ledger; it turns a Task into lines and an Outcome.
package worker
