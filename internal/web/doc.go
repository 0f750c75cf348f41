// Package web holds what REST and MCP share in reading a request: strict JSON, the
// check of hosts and origins, and the addresses that clients see. Package access
// identifies the caller of a request.
//
// The functions return errors by type. The adapters write the messages for their
// clients. Nothing in the package blocks or keeps state between requests.
//
// The files, in reading order:
//
//   - guard.go: Guard, which refuses requests with a foreign host or origin
//   - strictjson.go: the members of an object, strings and lists, without silent corrections
//   - jsonmembers.go: the members of a large object, without copies
//   - jsonbounds.go: the limit for the number of values in a request
//   - number.go: whole numbers
//   - resource.go: the base URL and the path of the metadata of protected resources
package web
