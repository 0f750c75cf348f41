// Package jetstream keeps the ledger in NATS JetStream: events in a stream,
// heaps and long texts in object store buckets. It is the only client of NATS
// in the module; no type of NATS leaves it but the connections it is given.
//
// It stores, finds, follows and hands out, and decides nothing: the rules are
// those of package ledger, whose Store it implements. Positions are stream
// sequences. A hole in them is damage, and is reported as events.ErrDamaged
// wherever it is met, never stepped over.
//
// Reads ask the stream by direct get: a request and its bounded answer, without
// consumers on the server, so that nothing needs cleaning up or can go stale.
// Only runners have a consumer, because theirs is state worth keeping.
package jetstream
