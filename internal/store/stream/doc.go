// Package stream keeps the ledger in NATS JetStream as one sequence of events over
// several volumes, each a stream or, once it is sealed, an archive. It appends, looks up
// events by subject, reads and follows. It also rotates, archives, removes and checks
// volumes. Callers need not know which volume holds an event, and how.
//
// The package promises that an acknowledged event is on disk, that a position of the
// ledger is the sequence number of its message, and that missing positions are never
// skipped: unless an event records them as removed or lost, each reader returns
// events.ErrDamaged. The package decides nothing about the content of events; package
// ledger holds the rules.
//
// embed/volumes.go decides when a volume is full, embed/archiving.go when one becomes an
// archive, embed/volumeremoval.go whether one may be removed, and package retention which of its events are kept.
//
// The files, in reading order:
//
//   - stream.go: configures the stream of a volume, and compares an existing one; stored
//     subjects
//   - ledger.go: Ledger and its options
//   - health.go: decides whether the ledger is usable, with a constant number of requests
//   - volumes.go: opens, lists and creates volumes; finds those of other processes
//   - check.go: decides whether messages of a volume, or between two volumes, are missing
//   - append.go: encrypts and appends one event; decides whether to try again, and whether
//     an unacknowledged one was stored
//   - lookup.go: gets and decodes messages of one stream; decides whether a missing message
//     is damage
//   - volumeget.go: gets messages of a volume that may be removed meanwhile
//   - across.go: searches all volumes; converts an expected position to the active volume
//   - bysubject.go: the lookups by subject for other packages; refuses patterns
//   - history.go: reads the control events of an execution
//   - executionevents.go: reads all events of an execution, with bounded memory
//   - follow.go: reads and follows events in order of position; waits for new ones
//   - notify.go: wakes followers when events are appended
//   - appended.go: keeps the events that this process appended for its followers
//   - bulkread.go: reads many events of one volume fast
//   - tail.go: one reading that several followers share; limits what it keeps for them
//   - sweep.go: frees memory of the embedded server
//   - rotate.go: seals the active volume and opens the next one; completes an interrupted
//     rotation
//   - volumeremoval.go: decides whether a volume is removable by its place and seal; records
//     the removal, then deletes the stream; limits the kept events
//   - keptevents.go: answers lookups from the kept events of removed volumes
//   - archiving.go: decides whether a volume may become an archive; writes, verifies and
//     indexes archives, and deletes streams
//   - archives.go: stores the parts of archives, and answers lookups from them
//   - loss.go: opens the volume after an accepted loss and records the loss; lists lost
//     positions
//   - unreadable.go: skips messages at lost positions
//   - hidden.go: finds messages that the server skips
//   - sample.go: reads a sample of messages, to recognize a ledger
//   - replay.go: publishes recorded events again
package stream
