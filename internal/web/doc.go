// Package web has the functions by which REST and MCP read a request: strict JSON, the
// check of hosts and origins, and the addresses that clients see. Package access
// identifies the caller of a request.
//
// The functions return errors by type. The adapters write the messages for their
// clients. Nothing in the package blocks or keeps state between requests.
//
// The files, in reading order:
//
//   - guard.go: Guard, which refuses requests with a foreign host or origin; the addresses
//     that clients see
//   - strictjson.go: the members of an object, strings, lists and whole numbers, without
//     silent corrections; the limit for the number of values in a request
//   - jsonmembers.go: the members of a large object, without copies
package web
