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
// Package owner finds or starts the owner, and decides when clients are left to the next
// one.
//
// The files, in reading order:
//
//   - frame.go: writes and reads the frames between the two ends; limits their size
//   - client.go: Run, the client's end: decides which lines are sent again, and when no
//     further owner is tried
//   - owner.go: Conn, the owner's end: reports lines as done; identifies a request that is
//     delivered again
//   - protocol.go: decides which lines of MCP and ACP set up a connection and are sent to the
//     next owner
//   - pace.go: ends the link to a client that receives too slowly
package link
