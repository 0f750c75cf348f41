package sandbox

import "golang.org/x/net/bpf"

// Program returns the assembled filter.
func Program(f Filter) ([]bpf.Instruction, error) { return program(f.rules()) }

// CallName returns the name of a system call.
func CallName(number int) string { return callName(number) }
