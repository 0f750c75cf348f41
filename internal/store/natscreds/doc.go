// Package natscreds keeps the credentials of subscribers: who may read the events
// of which tenant over NATS.
//
// A credential is a pair of nkeys. The directory holds one credentials file per
// credential (NAME.creds, the form that every NATS client reads, with the private
// key) and the list credentials.jsonl, which has public keys only. The server
// trusts the list alone; a credentials file may be moved to another machine. The
// token in a credentials file is signed by a key that is not kept, because its
// claims count for nothing: the client proves the possession of the private key.
package natscreds
