// Package web is what REST and MCP share of a request: strict JSON, the check of hosts and
// origins, and the addresses that clients see. Who a request is from is in package access.
//
// The adapters word the errors: each has its own readers.
package web
