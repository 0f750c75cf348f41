// Package blobs stores heaps and long texts in an object store of JetStream, by tenant
// and hash. Base heaps, which belong to no tenant, are stored there too.
//
// The package promises that a blob is on disk before the call that stores it returns,
// that it is verified against its hash whenever it is read, and that damage is never
// reported as events.ErrNotFound: errors distinguish a blob that was never stored, one
// that was removed and one that was lost.
//
// Calls go one way. Store compresses, encrypts and caches. Below it are the cache, the
// codec and the bucket. Only the bucket, which stores encoded bytes and metadata, sends
// requests to the server. Removal, and the search for lost blobs, are above the bucket.
//
// The files, in reading order:
//
//   - blobs.go: Store and its options
//   - heaps.go: stores and reads heaps, texts and base heaps
//   - encryption.go: heaps and texts that are encrypted
//   - blobreader.go: reads a blob in pieces, with bounded memory
//   - cache.go: keeps recently used heaps in memory
//   - blobcodec.go: compresses a blob, as such or as a delta against a base heap
//   - baseheap.go: which base heap a blob uses
//   - bucket.go: encoded bytes and metadata in the object store
//   - blobremoval.go, count.go: removes blobs and their chunks; counts deleted chunks
//   - badblobs.go, lostblobs.go: remembers damaged blobs; finds lost ones
package blobs
