// Package acp is an agent of the Agent Client Protocol, version 1: what editors
// speak with agents that they start. The text of a prompt is JavaScript or
// TypeScript; it runs in the heap of its session, and what becomes of it is told
// as the protocol tells of a tool call.
//
// All of a session is on record: what a client is told live is made of the same
// events as what it is told again when it loads the session, by the same code
// (render.go). The package holds only what cannot outlive a connection: the
// connection, the tool servers that its client brought along, and which prompt
// is running.
//
// It is an adapter. The rules are those of package ledger, and what is read comes
// from package projections; connections to tool servers are somebody else's, see
// Toolbox.
package acp
