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
// The comment of each payload tells when and by what it is appended: "Appended when …".
//
// The files, in reading order:
//
//   - event.go: the envelope, and the closed set of payloads
//   - type.go: the constants of types; decides which types end an execution, and with which
//     status; the level of a line
//   - kinds.go: the table with one row for each type: payload, subject, what it is about
//   - codec.go: encodes and decodes the wire form, and limits its size; the form of times; the
//     JSON form of the other interfaces
//   - canonical.go: decodes bodies in the form that Encode writes, without encoding/json
//   - subject.go: decides which events share a subject; adds no volume
//   - id.go: creates and checks ids and hashes; derives the id of an idempotency key
//   - execution.go: executions, their attempts and ends; the text of their standard warnings
//   - nondeterminism.go: why a run may not repeat
//   - output.go: output, and the limits of a chunk
//   - extent.go: decides which chunks of output count, and where the next attempt continues
//   - hostcall.go: host calls and their answers
//   - artifact.go: artifacts, their limits and names
//   - module.go: admitted packages, and what scripts import
//   - replayed.go: replays of executions, and their verdicts
//   - migrated.go: migrations of heaps to another engine, and their verdicts
//   - heap.go: tags, session entries, collections
//   - logical.go, acp.go: logical and ACP sessions; resets of sessions of every kind
//   - context.go: conversation contexts, and the keys derived for them
//   - webhook.go: webhooks and their deliveries
//   - volume.go: checkpoints and volumes
//   - signers.go: the statements about the signers of the ledger
//   - projectioncopy.go: copies of the projections
//   - lost.go: lost ranges and blobs; decides whether a recorded loss explains a gap
//   - removal.go: removed volumes and shredded content
//   - kept.go: encodes the kept events of removed volumes
//   - encryption.go: encrypts and decrypts content; lists what of each payload is encrypted
//   - selector.go: decides which events a subscriber, a webhook or an export selects
//   - errors.go: errors that stores return
package events
