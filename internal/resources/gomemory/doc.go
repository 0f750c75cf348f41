// Package gomemory decides how far the Go runtime of a server may grow and when its free
// memory is returned to the operating system. It decides only; the caller measures at
// intervals and applies the decisions.
//
// The files, in reading order:
//
//   - limit.go: Limit, the limit of the Go runtime that fits the memory in use; what the Go
//     runtime reports of its memory
//   - trimmer.go: Trimmer, which decides when memory is returned; the GC percentage
package gomemory
