// Package acp implements an agent of the Agent Client Protocol, version 1, which
// editors speak with the agents that they start. The text of a prompt is JavaScript
// or TypeScript. It runs in the heap of its session, and the client sees the run as a
// tool call of the protocol.
//
// The package promises that a session is recorded completely: render.go renders the
// updates that a client receives live, and those that it receives when it loads the
// session, from the same events. The package holds only state that ends with a
// connection: the connection, the tool servers that the client named, and the prompts
// that are running.
//
// It is an adapter. The rules are in package ledger, and the queries in package
// projections. The package opens no connections to tool servers; see Toolbox.
//
// The files, in reading order:
//
//   - ports.go: the interfaces of the write side, the read side and the tool servers
//   - server.go: Server and its options
//   - client.go: Server.Serve and one connection: the order of requests, turns, answers
//   - wire.go: the form of messages on the connection
//   - methods.go: passes each request to its method; initialize and capabilities
//   - errors.go: errors as answers of the protocol
//   - session.go: the open sessions, each of which belongs to one client
//   - lifecycle.go: creates, forks, loads, resumes, lists, closes and deletes sessions
//   - config.go: modes and options of a session
//   - announce.go: the first updates of an opened session
//   - prompt.go: runs a prompt and sends its updates until the run ends
//   - promptsource.go: finds the code, the command and the attachments of a prompt
//   - commands.go: the commands of a session, such as /heap
//   - render.go: recorded events as updates of the protocol
//   - replay.go: sends the whole conversation of a loaded session
//   - tools.go: the MCP servers of a session
//   - calls.go: calls of the tools of a session by its runs, and the permission of the user
package acp
