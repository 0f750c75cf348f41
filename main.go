//go:build cgo && linux && amd64

// Daybook runs JavaScript and TypeScript for AI agents and services, and keeps
// the book. See README.md.
package main

import (
	"os"

	"daybook/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
