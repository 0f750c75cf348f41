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
// runner/hostcallbroker.go records a call before and after it is made; acp/calls.go decides
// whether the user of an editor permits it.
//
// The files, in reading order:
//
//   - config.go, flag.go: reads and checks the configuration of a server, from a file or a
//     flag
//   - set.go: Set: decides which server a call goes to, and which tools a tenant may call
//   - server.go: one server: decides when it is connected again, when its list is read again
//     and which roots it gets; limits the time of a call
//   - tool.go: reads the list of tools, and decides which of them can be called
//   - result.go: writes the result of a call as JSON for scripts, and limits its size; words
//     failed calls
//   - beside.go: decides which answers bypass the MCP library, and how long they wait for
//     memory
//   - wire.go: reads the streams of HTTP, SSE and stdio, and takes those answers from them
//   - stdio.go: starts and ends servers that are child processes; limits their log
//   - stray.go: decides which lines of a child's output are no messages, and how many are
//     permitted
//   - httptransport.go: sends requests to servers over HTTP
//   - secret.go: removes secrets from texts
//   - typescript.go: writes tools as TypeScript declarations
package toolserver
