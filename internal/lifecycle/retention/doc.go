// Package retention removes heaps that nobody needs any more, by rule, and says
// so in the ledger: each removal is an event, recorded before the blob goes. It
// also removes blobs that no event names.
//
// It decides from the ledger's events alone, read anew in each pass, and keeps
// nothing between passes. It knows no storage: what removes blobs and what
// records events it declares as interfaces. Events are never removed here.
package retention
