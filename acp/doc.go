// Package acp implements an agent of the Agent Client Protocol, version 1, which
// editors speak with the agents that they start. The text of a prompt is JavaScript
// or TypeScript. It runs in the heap of its session, and the client sees the run as a
// tool call of the protocol.
//
// The package promises that a session is recorded completely: render.go renders the
// updates that a client receives live, and those that it receives when it loads the
// session, from the same events. The package holds only state that ends with a
// connection: the connection, the tool servers that the client named, the prompts that
// are running, and decisions of the user about tools.
//
// It is an adapter. The rules are in package ledger, and the queries in package
// projections. The package opens no connections to tool servers; see Toolbox.
//
// internal/admission decides whether the server admits a prompt, and
// internal/link/protocol.go which sessions are resumed at the next owner.
//
// The files, in reading order:
//
//   - ports.go: declares the interfaces of the write side, the read side and the tool servers
//   - server.go: Server and its options; ends all connections
//   - client.go: one connection: decides which requests are handled in order, limits
//     unanswered ones, refuses a second prompt of a session, cancels prompts
//   - wire.go: decodes messages of the connection; limits their size; the error codes
//   - methods.go: passes each request to its method; decides which requests count against the
//     rate; answers initialize with the capabilities
//   - errors.go: words errors as answers of the protocol
//   - session.go: decides which client has a session open, and which session is ended for
//     another one
//   - lifecycle.go: creates, forks, loads, resumes, lists, closes and deletes sessions
//   - config.go: offers the modes and options of a session, and records a change
//   - announce.go: sends the first updates of an opened session: unusable directories and
//     servers, the commands
//   - prompt.go: runs a prompt and sends its updates until the run ends
//   - promptsource.go: decides whether a prompt is code, a command or prose; finds its code
//     and attachments; words the advice for prose
//   - commands.go: performs the commands of a session, such as /heap, and words their replies
//   - render.go: writes recorded events as updates of the protocol, and cuts long texts
//   - artifacts.go: writes the artifacts of a run as content blocks
//   - replay.go: sends the whole conversation of a loaded session
//   - tools.go: reads the tool servers that a client names for a session; decides their names
//     in code
//   - calls.go: decides whether a run may call a tool of its session; asks the user, and
//     records the decision
package acp
