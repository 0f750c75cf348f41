// Package link connects a process on a client's pipe to the process that owns a data
// directory.
//
// Run is the client's end. It numbers the lines that it reads from the client, and
// holds each line until the owner reports it as done. If the owner ends, Run attaches
// to the next owner and sends the held lines again. Run does not know the protocol of
// the lines.
//
// Conn is the owner's end. It reports lines as done, sends the lines that set up the
// connection back to the client's end to keep, and identifies each request, so that a
// request that is sent again has its effect once.
//
// The files, in reading order:
//
//   - frame.go: the frames between the two ends
//   - client.go: Run, the client's end
//   - owner.go: Conn, the owner's end, and the identity of a delivery
//   - protocol.go: which lines of MCP and ACP set up a connection
//   - pace.go: the minimum speed of a client
package link
