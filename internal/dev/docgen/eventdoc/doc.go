// Package eventdoc describes the event catalog for consumers of events: in Markdown, as
// JSON Schemas, and as an AsyncAPI document.
//
// All content comes from package events: the structure by reflection, the descriptions
// from the doc comments in its source, and the examples from its fixtures.
//
// The files, in reading order:
//
//   - catalog.go: Files, all documents by path; catalog, the description of every event
//     type and object
//   - source.go: reads the doc comments and constants of package events
//   - markdown.go: the catalog as Markdown
//   - schema.go: JSON Schemas of the payloads
//   - asyncapi.go: the AsyncAPI document
package eventdoc
