// Package toolserver calls tools of MCP servers: it connects to servers that an
// operator or a client configured, keeps the connections, lists their tools, and
// calls them within bounds of time and size.
//
// A Set is the servers of one scope, such as all of a process or those of one
// session. One server that fails never fails another, nor who asks for the list.
// Servers are not trusted: what they say is bounded, checked and never mistaken for
// anything but data. What a configuration keeps secret appears in no error, log
// line or String of this package.
//
// It records nothing and knows no scripts, executions or events.
package toolserver
