// Package queue hands out the run requests that the ledger holds, to the runners of a
// pool, and carries cancel requests to them. Runners have consumers on the server,
// because theirs is state worth keeping; all else reads without.
package queue
