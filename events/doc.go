// Package events is the catalogue of facts that Daybook records: their types,
// payloads, identifiers, subjects and wire form.
//
// Every event is a CloudEvents 1.0 event in NATS binary mode: context
// attributes travel as message headers, the payload as a JSON body. The
// catalogue is append-only: a type, once written, decodes for ever, and a
// payload only ever gains optional members whose zero value means "as before".
// Anything else is a new version with a new type string.
//
// The package knows nothing of NATS, SQLite, HTTP or V8 and imports only the
// standard library. It neither stores nor routes events.
package events
