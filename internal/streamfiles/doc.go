// Package streamfiles reads the files of an embedded NATS server's streams while
// no server has them open, and says what in them cannot be what was written.
//
// A server that meets a damaged file mends it: it cuts the block, or counts
// through positions that never were, and tells nobody but its log. So the files
// are looked at first. Nothing here changes a file: Salvage makes a second
// directory of what is sound, and leaves the first as it is found.
//
// The layout is that of the server version in go.mod, which a test holds against
// a directory that the server wrote.
package streamfiles
