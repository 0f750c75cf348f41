package sandbox

import "golang.org/x/net/bpf"

// Program is the filter, assembled.
func Program(f Filter) ([]bpf.Instruction, error) { return program(f.rules()) }

// CallName is the name of a system call.
func CallName(number int) string { return callName(number) }
