// Package natscreds stores the credentials of subscribers, which allow a client to read
// the events of one tenant over NATS.
//
// A credential is a pair of nkeys. The directory holds one credentials file per
// credential, NAME.creds, with the private key, in the form that every NATS client
// reads. It also holds the list credentials.jsonl, with public keys only. The package
// promises that only the list decides which keys the server accepts, that a revocation
// is on disk before it is reported, and that an interrupted edit never leaves an old
// key active. A credentials file may be moved to another machine. The token in it is
// signed by a key that is not stored, because its claims have no effect: the client
// proves that it has the private key.
//
// The files, in reading order:
//
//   - credential.go: Credential; creates its keys, checks and encodes an entry
//   - edit.go: creates, lists, rotates and revokes credentials; limits their number
//   - file.go: reads and replaces the list under a lock, and limits its size
//   - follow.go: passes changes of the list to a running server; decides what it does if the
//     list cannot be read
package natscreds
