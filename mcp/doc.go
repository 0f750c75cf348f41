// Package mcp serves Daybook over the Model Context Protocol: the tools that
// run JavaScript and read the book, over stdio, Streamable HTTP (revisions up
// to 2025-11-25 with transport sessions, and 2026-07-28 without, at one URL)
// and the legacy HTTP+SSE transport.
//
// Every tool is one row of a table: its name, what it takes, what it answers,
// and the function that does it. The advertised schema and the check of the
// arguments come from the same row. Tools of one kind share a file.
//
// A run can also be had as a task, in the form of either revision that has
// them: the task is the execution under the same id. A client that waits for a
// run hears its console and its progress, if it asks to.
//
// The package decides nothing: commands go to the ledger, questions to the
// projections, and what a model reads when one is refused comes from the one
// table in errors.go. It knows no NATS, SQLite or V8, and authenticates nobody.
package mcp
