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
//   - options.go: the options of a Service and the interfaces of its dependencies
//   - service.go: Service, its commands, its counts and the webhooks of the ledger
//   - registration.go: the arguments of a registration and their rules
//   - hook.go: the state of one webhook, derived from its events
//   - run.go: starts a deliverer for each webhook
//   - deliverer.go: delivers the events of one webhook; when the next attempt is made, and
//     when a delivery becomes a dead letter
//   - attempt.go: one request to a receiver and its outcome; the backoff after n failures
//   - client.go, address.go: the HTTP client, and the addresses that it refuses
//   - sign.go: secrets, signatures and their verification
//   - secretstore.go: the files of secrets and positions
package webhook
