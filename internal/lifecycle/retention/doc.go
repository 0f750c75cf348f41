// Package retention deletes unused heaps, destroys the content of sessions, and decides
// which events of a removed volume are kept.
//
// A Service collects heaps according to a retention rule. It records an event before it
// deletes each blob. It also deletes orphans: blobs that no event names. A Shredder
// destroys the content keys of a session, after an event records that. PlanVolume only
// plans: it deletes nothing, and the package removes no event. embed/volumeremoval.go
// decides whether a volume may be removed. It removes the volume with package stream, which
// stores the kept events first.
//
// The package decides from the events of the ledger alone. It reads them again for each
// pass and keeps no state between passes. If a process dies during a pass, the next
// pass completes the recorded deletions. The package declares the storage of events,
// blobs and keys as interfaces.
//
// The files, in reading order:
//
//   - service.go: the ports; the retention rule and its limits; decides when a pass is made
//   - heapstate.go: derives from the events which uses protect a heap
//   - storedblobs.go: lists stored blobs and the heaps to collect in bounded memory
//   - pass.go: one pass: lists blobs, decides which may be deleted, records that and deletes
//     them
//   - shred.go: Shredder: decides whether a session can be shredded; records that, collects
//     its heaps and destroys its keys
//   - volumeplan.go: decides which events of removed volumes are kept
package retention
