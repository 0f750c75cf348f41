// Package damage keeps what is known to be wrong with a ledger, and two ways to
// learn of it: a Mark of how far the ledger had come, kept apart from it, and a
// Scrub that reads everything again, slowly.
//
// It repairs nothing and decides nothing but this: a ledger with a finding takes
// no more events. It knows neither streams nor HTTP; who finds something reports
// it, and who shows findings asks.
package damage
