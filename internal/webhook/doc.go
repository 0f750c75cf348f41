// Package webhook posts events to receivers over HTTP, as Standard Webhooks
// describes: signed, at least once, in ledger order for each receiver, with
// retries, and a list of what could not be delivered.
//
// Registrations and what became of deliveries are events themselves. Beside
// the ledger the package keeps, in a folder of its own, what must not be in it:
// the secrets that deliveries are signed with, and how far each webhook has
// come.
//
// It does not say who may register one, and serves no HTTP; adapters do.
package webhook
