// Package admission decides whether the server records what a client asks for: runs by
// shutdown, disk space and quotas, other changes by disk space, quotas and the share of
// their tenant. What a runner records passes.
//
// The files, in reading order:
//
//   - gate.go: Gate, the admission of runs; Commands, the write side with limits
//   - log.go: Log, the store for changes of clients; counts what ends without a runner
package admission
