// Package contextstore keeps what happened in each client's conversation, so
// that a model need not say everything again: preferences, the last tool calls,
// the resources read, free values, and what was tried before.
//
// All of it is on record. What is shown is folded from events by package
// projections; this package records what no other event tells, lets contexts
// expire, and holds those in use in memory, within bounds. What it evicts comes
// back as it was.
//
// Whose context a call concerns is decided by the server: a Key is made of what
// it knows of the call, never of an argument that names a context.
package contextstore
