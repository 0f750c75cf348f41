//go:build !cgo && linux && amd64

package main

// Go builds without cgo where it finds no C compiler. V8 and SQLite need one, so
// the build ends here, with what is missing, and not in one of their packages.
const _ int = "Daybook needs cgo and a C++ compiler: install g++ (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; Alpine: apk add g++) or clang, and do not set CGO_ENABLED=0"

func main() {}
