// Package runner does the runs of a ledger: it takes run requests off the work
// queue, has workers execute them, records their output while it is written,
// and ends each execution exactly once, whatever dies on the way.
//
// A run's life is in delivery.go (one delivery of a request), attempt.go (one
// try at running it) and pump.go (its output). Everything a run leaves behind
// is in the ledger and the heap store; the runner holds nothing that cannot be
// lost. Whenever it cannot go on it gives the request back, and the next
// delivery decides from the record what is left to do.
//
// The package executes no JavaScript and talks to no server: what it needs of
// the world it declares in ports.go and workers.go. It contains no cgo.
package runner
