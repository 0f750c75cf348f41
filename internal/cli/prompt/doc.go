// Package prompt reads the input of an interactive session: lines from a terminal, with a
// history and completion, or from a pipe. It sends no requests and runs nothing.
//
// The files, in reading order:
//
//   - lines.go: Editor and Piped: read lines; where the history is kept
//   - unfinished.go: decides whether a script needs more lines
//   - names.go: Names: finds the names that Tab completes
package prompt
