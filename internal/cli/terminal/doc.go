// Package terminal writes the output of the command line. On a terminal it escapes control
// and hidden characters in text that scripts or other clients wrote, shows colors, and fits
// lines and tables to the width. Into a file or pipe it writes text unchanged, without colors
// and at full length.
//
// The files, in reading order:
//
//   - screen.go: Screen, an output of the process; colors, lengths of lines, counts with
//     nouns
//   - visible.go: decides which characters are escaped
//   - table.go: decides the widths of columns
//   - when.go: prints times and durations
//   - progress.go: shows the progress of a task
package terminal
