// Package webhook posts events to receivers over HTTP, as Standard Webhooks describes:
// signed, at least once, in ledger order for each receiver, with retries and dead
// letters.
//
// The package promises that each selected event is delivered or recorded as a dead
// letter, also after a crash. A receiver that fails or is slow delays no other webhook.
// Registrations, dead letters and retries are events. The package keeps two things
// outside of the ledger, in a directory of its own: the secrets that sign deliveries,
// and the position of each webhook.
//
// The package does not decide who may register a webhook, and serves no HTTP; adapters
// do.
//
// The files, in reading order:
//
//   - options.go: the defaults of Options, such as the number of attempts, and the interfaces
//     of its dependencies
//   - service.go: registers and deletes webhooks, and limits their number; requests retries of
//     dead letters; finds which events are still needed
//   - registration.go: refuses invalid arguments of a registration
//   - hook.go: derives the state of one webhook from its events
//   - run.go: starts a deliverer for each webhook
//   - deliverer.go: delivers the events of one webhook; decides when the next attempt is made,
//     when a delivery becomes a dead letter, and when the webhook is disabled
//   - attempt.go: posts an event once, and decides whether the receiver accepted it; computes
//     the pause after n failures, and reads the one that the receiver asks for
//   - client.go: the HTTP client and the limits of its answers; refuses addresses when it dials
//   - address.go: the error for an address that is refused
//   - sign.go: creates secrets; signs and verifies deliveries
//   - secretstore.go: writes and reads the files of secrets and positions
package webhook
