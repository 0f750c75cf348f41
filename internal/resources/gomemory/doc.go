// Package gomemory decides how far the Go runtime of a server may grow and when its free
// memory is returned to the operating system. It decides only; the caller measures at
// intervals and applies the decisions.
//
// The caller is embed/trim.go.
//
// The files, in reading order:
//
//   - limit.go: Limit: decides the memory limit of the Go runtime; reads what the Go runtime
//     reports of its memory
//   - trimmer.go: Trimmer: decides when memory is returned; the GC percentage of a lightly
//     loaded server
package gomemory
