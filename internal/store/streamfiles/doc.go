// Package streamfiles checks, repairs and copies the stream files of an embedded NATS
// server while no server has them open.
//
// A server that finds a damaged file repairs it: it cuts off the rest of the block, or
// counts positions that were never stored, and reports that only in its log. Therefore
// the files are checked before a server opens them. The package promises that Check and
// Salvage change no existing file, and that Mend copies each file before it changes it.
//
// The layout is that of the server version in go.mod. A test compares it with a
// directory that the server wrote.
//
// embed/damage.go, embed/blobdamage.go and embed/recovery.go decide when the files are checked,
// copied or mended.
//
// The files, in reading order:
//
//   - block.go: reads the records of a block and their checksums
//   - check.go: Check: finds the positions and faults of each stream
//   - checked.go: Checked: the blocks that need not be read again
//   - description.go: reads the stored configuration of a stream, and compares its checksum
//   - repair.go: Repair: completes or reverts configurations that a killed server left
//     unfinished
//   - index.go: DropFailedWrites: removes indexes that count a message whose write failed
//   - salvage.go: Salvage: copies the intact records; BackupStreamConfigs
//   - mend.go: Mend: removes the faults of one stream in place
package streamfiles
