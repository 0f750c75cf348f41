// Package web has the functions by which REST and MCP read a request: strict JSON, the
// check of hosts and origins, and the addresses that clients see. Package access
// identifies the caller of a request.
//
// The functions return errors by type. The adapters write the messages for their
// clients. Nothing in the package blocks or keeps state between requests.
//
// The files, in reading order:
//
//   - guard.go: Guard: refuses requests with a foreign host or origin; finds the address of
//     the service that a client sees
//   - strictjson.go: decodes the members of an object, strings, lists and whole numbers
//     without silent corrections; limits the number of values
//   - jsonmembers.go: finds the members of a large object without copies
package web
