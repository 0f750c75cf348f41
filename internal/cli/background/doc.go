// Package background starts the background process that owns a data directory, and writes its log.
// The process is "daybook owner", a hidden command of package cli; it serves the clients that
// attach to the directory, such as "daybook mcp", and outlives the process that starts it.
//
// The files, in reading order:
//
//   - start.go: starts the process, and passes it the settings; the report with which it
//     answers
//   - log.go: writes the log of the process, and limits its size
package background
