//go:build !linux || !amd64

package main

// The sandbox of workers and the V8 library are those of Linux on amd64. A build for
// another system ends here, and not in one of the packages.
const _ int = "Daybook runs on Linux on amd64 only: build it there or in a container"

func main() {}
