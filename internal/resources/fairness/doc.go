// Package fairness decides which request a free slot of a runner takes, and which
// output is recorded next. It knows only the tenant, session and size of a request. It
// does no input or output and reads no clock: the caller passes the time.
//
// The files, in reading order:
//
//   - scheduler.go: Scheduler, which shares slots among tenants by the time that their runs occupy slots
//   - window.go: Window, which takes the requests of one tenant by session in turn
//   - pace.go: Pace, which shares a number of bytes per second among tenants
package fairness
