// Package events is the catalog of everything that Daybook records: the types of
// events, their payloads, ids, subjects and wire form.
//
// An event is a CloudEvents 1.0 event in the NATS binary mode: attributes are message
// headers, the payload is a JSON body. The package knows the names of these headers and
// of the NATS subjects within a volume. It imports only the standard library, opens no
// connection and stores nothing; internal/store/stream adds the volume to a subject and
// appends the message.
//
// The catalog is append-only. A type, once written, decodes in every later version. A
// payload only gains optional members whose zero value means "as before". Any other
// change is a new version with a new type.
//
// The files, in reading order:
//
//   - event.go: the envelope, and the closed set of payloads
//   - type.go: the constants of types, the status of an execution, the level of a line
//   - kinds.go: the table with one row for each type: payload, subject, what it is about
//   - codec.go: wire form, limits, times, and the JSON form of the other interfaces
//   - subject.go: subjects without the volume; id.go: ids and hashes
//   - execution.go, output.go, extent.go, hostcall.go: executions, their output and calls
//   - heap.go: tags, session entries, collections
//   - logical.go, acp.go: logical and ACP sessions; resets of sessions of every kind
//   - context.go: conversation contexts
//   - webhook.go: webhooks and their deliveries
//   - volume.go, lost.go, removal.go, kept.go: checkpoints, volumes, losses, removals, shredded content
//   - encryption.go: encryption of content
//   - selector.go: which events a subscriber selects
//   - errors.go: errors that stores return
package events
