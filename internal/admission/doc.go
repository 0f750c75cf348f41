// Package admission decides whether the server records a request of a client: a run by
// shutdown, disk space and quotas; other changes by disk space, quotas and the share of
// their tenant. Events of a runner are always recorded. internal/resources/disk measures
// the disk and words its refusal; internal/web/access counts quotas and shares.
//
// The files, in reading order:
//
//   - gate.go: Gate: decides whether a run is recorded; Commands: decides whether tags and
//     short names are
//   - log.go: Log: decides whether another change is recorded immediately, later or not;
//     counts what ends without a runner
package admission
