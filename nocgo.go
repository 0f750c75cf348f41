//go:build !cgo && linux && amd64

package main

// Go builds without cgo if it finds no C compiler. V8 and SQLite need one. The build
// fails here and names what is missing, before it fails in one of their packages.
const _ int = "Daybook needs cgo and a C++ compiler: install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; Alpine: apk add g++) or clang, and do not set CGO_ENABLED=0"

func main() {}
