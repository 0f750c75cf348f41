// Package toolserver calls tools of MCP servers. It connects to servers that an operator
// or a client configured, keeps the connections, lists their tools, and calls them
// within limits of time and size.
//
// A Set holds the servers of one scope, such as those of a process or of one session. A
// server that fails affects neither other servers nor the caller of a list. Servers are
// not trusted: their messages are limited, checked and treated as data only. Secrets of
// a configuration appear in no error, log line or String of this package.
//
// The package records nothing and knows no scripts, executions or events.
//
// The files, in reading order:
//
//   - config.go, flag.go: the configuration of a server, from a file or a flag
//   - set.go: Set and its options
//   - server.go: one server: connection, retries, calls, and the roots that it may ask for
//   - tool.go: the list of tools and its limits
//   - result.go: results of calls as JSON for scripts
//   - beside.go: large answers to calls, which bypass the MCP library
//   - wire.go: the streams of HTTP, SSE and stdio, from which those answers are taken
//   - stdio.go, stray.go: servers that are child processes, and their output
//   - httptransport.go: servers over HTTP
//   - secret.go: removes secrets from texts
//   - typescript.go: tools as TypeScript declarations
package toolserver
