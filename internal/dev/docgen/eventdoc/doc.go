// Package eventdoc describes the event catalog for consumers of events: in Markdown, as
// JSON Schemas, and as an AsyncAPI document.
//
// All content comes from package events: the structure by reflection, the descriptions
// from the doc comments in its source, and the examples from its fixtures.
//
// The files, in reading order:
//
//   - catalog.go: Files: lists all documents by path; describes every event type and object
//   - source.go: reads the doc comments and constants of package events
//   - markdown.go: writes the catalog as Markdown
//   - schema.go: writes JSON Schemas of the payloads
//   - asyncapi.go: writes the AsyncAPI document
package eventdoc
