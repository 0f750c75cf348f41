// Package link connects a process on a client's pipe to the process that owns a
// data directory. The client's end, Run, knows nothing of the protocol: it
// numbers the lines it reads and holds each until the owner reports it as done.
// When the owner ends, it attaches to the next one and sends the held lines
// again. The owner's end, Conn, marks lines as done, names the lines that set up
// the connection, and identifies each line, so that a line that is sent again has
// its effect once.
package link
