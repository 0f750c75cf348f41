//go:build cgo && linux && amd64

// Daybook runs JavaScript and TypeScript for AI agents and services, and records every
// run. See README.md.
//
// The other two files stop a build that cannot work, with a reason: nocgo.go one without
// cgo, unsupported.go one for another system than Linux on amd64.
package main

import (
	"os"

	"daybook/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
