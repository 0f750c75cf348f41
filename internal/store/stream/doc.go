// Package stream keeps the ledger in NATS JetStream as one sequence of events over
// several streams, the volumes. It appends, looks up events by subject, reads and
// follows. It also rotates, removes and checks volumes. Callers need not know which
// volume holds an event.
//
// The package promises that an acknowledged event is on disk, that a position of the
// ledger is the sequence number of its message, and that missing positions are never
// skipped: unless an event records them as removed or lost, each reader returns
// events.ErrDamaged. The package decides nothing about the content of events; package
// ledger holds the rules.
//
// The files, in reading order:
//
//   - stream.go: the configuration of the stream of a volume, and the subjects in it
//   - ledger.go: Ledger, its options and its health
//   - volumes.go, check.go: the list of volumes, and the checks when they are opened
//   - append.go: appends one event, and finds out whether an unacknowledged one was
//     stored
//   - lookup.go, volumeget.go, across.go: messages of a stream, of a volume, of all
//     volumes
//   - bysubject.go: the lookups by subject
//   - history.go: the control events of an execution
//   - executionevents.go: all events of an execution, with bounded memory
//   - follow.go, bulkread.go: readers in order of position; fast catch-up of one volume
//   - tail.go, sweep.go: one reading that several followers share; frees memory of the
//     server
//   - rotate.go: seals the active volume and opens the next one
//   - volumeremoval.go, keptevents.go: removes the oldest volume; the events kept of it
//   - loss.go, unreadable.go: continues after accepted damage; skips messages at lost
//     positions
//   - hidden.go: finds messages that the server skips
//   - sample.go, replay.go: a sample of messages; events delivered again
package stream
