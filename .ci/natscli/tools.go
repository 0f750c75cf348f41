//go:build tools

// Package tools pins the NATS command line that CI runs against the server. It has its own
// go.mod, so that the product's go.mod does not list the dependencies of that command.
package tools

import _ "github.com/nats-io/natscli/nats"
