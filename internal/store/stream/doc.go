// Package stream keeps the ledger in NATS JetStream as one sequence of events over
// streams, the volumes: append, look up by subject, read and follow. Other packages need
// not know of volumes. For now it seals, removes and checks them too.
//
// It stores, finds and follows, and decides nothing: the rules are those of package
// ledger. Positions are stream sequences. A hole in them is damage, and is reported as
// events.ErrDamaged wherever it is met, never stepped over.
package stream
