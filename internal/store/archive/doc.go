// Package archive stores the events of a sealed volume in compressed frames with an index,
// and answers lookups by position and by subject from them.
//
// An archive consists of parts with a name each: frames of consecutive events, pages of the
// index by subject, a filter of the subjects, and the manifest, which lists the others. An
// archive is complete when its manifest is stored. The package promises that a reader returns
// each event as it was written, that a lookup by subject misses none, and that the memory of a
// writer and of a reader does not grow with the number of events, except by the filter (ten
// bits for each subject) and 24 bytes for each frame.
//
// Package stream decides where the parts are stored, and when a volume becomes an archive.
//
// The files, in reading order:
//
//   - frame.go: encodes and decodes the events of a frame
//   - checksum.go: the checksums of the other parts
//   - key.go: the keys of subjects; which keys answer a pattern
//   - index.go: encodes and decodes the pages of the index and the filter
//   - manifest.go: encodes and decodes the manifest; names of parts
//   - writer.go: writes an archive, or the index of existing frames
//   - reader.go: reads an archive
//   - cache.go: keeps the parts that were used last
package archive
