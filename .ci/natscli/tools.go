//go:build tools

// Package tools pins the NATS command line that CI runs against the server. Its
// own go.mod keeps what that needs out of the product's.
package tools

import _ "github.com/nats-io/natscli/nats"
