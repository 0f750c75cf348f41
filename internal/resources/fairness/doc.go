// Package fairness decides whose request a free slot of a runner takes, and whose
// output is recorded next. It knows nothing of requests but their tenant, session and
// size, does no input or output, and reads no clock: the caller passes the time.
//
// A Scheduler shares the slots among tenants by the time that their runs occupy
// slots. A Window takes the requests of one tenant by session in turn. A Pace shares
// a number of bytes for each second among tenants.
package fairness
