// Package streamfiles reads the files of an embedded NATS server's streams while
// no server has them open, and says what in them cannot be what was written.
//
// A server that meets a damaged file mends it: it cuts the block, or counts
// through positions that never were, and tells nobody but its log. So the files
// are looked at first. Check changes no file. Salvage makes a second directory of
// the intact records, and leaves the first as it is. Repair finishes or undoes
// writes of descriptions that a killed server left unfinished. DropFailedWrites removes an
// index that counts a message for which the disk had no space.
//
// The layout is that of the server version in go.mod, which a test holds against
// a directory that the server wrote.
package streamfiles
