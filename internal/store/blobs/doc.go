// Package blobs keeps heaps and long texts in an object store of JetStream, by tenant
// and hash.
//
// Calls go one way. Store is on top: it packs, encrypts and caches. Below it are the
// cache of heaps, the packing (zstd, against the base heaps of engines), and the bucket,
// which stores packed bytes and descriptions and alone asks the server. Removing, and
// finding what was lost, is above the bucket too.
package blobs
