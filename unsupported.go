//go:build !linux || !amd64

package main

// The sandbox of workers and the V8 library exist for Linux on amd64 only. A build for
// another system fails here, before it fails in one of the packages.
const _ int = "Daybook runs on Linux on amd64 only: build it there or in a container"

func main() {}
