// Package fairness decides which request a free slot of a runner takes, and which
// output is recorded next. It knows only the tenant, session and size of a request. It
// does no input or output and reads no clock: the caller passes the time.
//
// internal/store/queue/dispatch.go applies these decisions to requests, and
// runner/outputpace.go to output. embed/memory.go decides the rate of output.
//
// The files, in reading order:
//
//   - scheduler.go: Scheduler: decides which tenant gets the next slot, by the time that its
//     runs occupied slots, and when it gets an extra one
//   - window.go: Window: decides which request of a tenant is next, by session in turn
//   - pace.go: Pace: decides whose output is recorded next, within a number of bytes per
//     second
package fairness
