// Package eventdoc describes the event catalogue for those who consume events:
// in Markdown, as JSON Schemas, and as an AsyncAPI document. Everything it says
// comes from package events: structure by reflection, meaning from the doc
// comments in its source, examples from its fixtures.
package eventdoc
