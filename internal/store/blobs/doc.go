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
// Package retention decides which blobs are removed, package ledger whether a text becomes a
// blob.
//
// The files, in reading order:
//
//   - blobs.go: Store and the defaults of its options
//   - heaps.go: stores and reads heaps, texts and base heaps
//   - encryption.go: stores encrypted heaps and texts, and reads such texts
//   - blobreader.go: reads a blob in pieces, with bounded memory, and verifies it
//   - cache.go: decides which heaps stay in memory
//   - blobcodec.go: compresses a blob, as such or as a delta against a base heap
//   - coders.go: keeps encoders and decoders for their next use
//   - baseheap.go: decides which base heap a blob is encoded against
//   - blobmeta.go: encodes and decodes the metadata of a blob, which holds a small blob
//   - metatable.go: lists the metadata of all blobs in bounded memory
//   - bucket.go: writes and reads encoded bytes and metadata; limits the size of a blob; pins
//     an existing blob when it is stored again
//   - blobremoval.go: removes a blob unless the grace period protects it; deletes chunks
//   - count.go: counts deleted chunks, and detects missing ones
//   - badblobs.go: remembers and reports damaged blobs
//   - lostblobs.go: finds lost blobs; checks whether a damaged one is intact again
package blobs
