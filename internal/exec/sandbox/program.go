package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// An action is what the filter answers to a call.
type action uint32

const (
	allow action = unix.SECCOMP_RET_ALLOW
	trap  action = unix.SECCOMP_RET_TRAP         // SIGSYS, to be handled
	kill  action = unix.SECCOMP_RET_KILL_PROCESS // at once
)

// fail makes the call return errno without reaching the kernel.
func fail(errno unix.Errno) action { return unix.SECCOMP_RET_ERRNO | action(errno) }

// A test is a condition on one argument. The kernel hands all 64 bits of a register to
// the filter, even where it will itself look at 32 of them.
type test struct {
	argument int
	// The argument lies between least and most, both included.
	least, most uint64
	// The bits of mask are exactly those of bits. Zero masks nothing.
	mask, bits uint32
}

func between(argument int, least, most uint64) test {
	return test{argument: argument, least: least, most: most}
}

func is(argument int, value uint64) test { return between(argument, value, value) }

func atMost(argument int, most uint64) test { return between(argument, 0, most) }

func atLeast(argument int, least uint64) test { return between(argument, least, ^uint64(0)) }

// flags says of a set of flags which must be there and which must not.
func flags(argument int, set, unset uint32) test {
	return test{argument: argument, most: 1<<32 - 1, mask: set | unset, bits: set}
}

// A rule decides about one call.
type rule struct {
	call uint32
	// allowed permits the call if every test of one of these passes.
	allowed [][]test
	// otherwise is the answer if none does.
	otherwise action
}

// What the kernel gives a filter, by offset in bytes. Arguments have their lower
// half first.
const (
	offCall      = 0
	offArch      = 4
	offArguments = 16
)

// x32Bit marks calls of an interface that shares amd64's architecture.
const x32Bit = 1 << 30

// program assembles rules into a filter that traps every call they do not name.
// Each rule's instructions end in an answer of their own: once an argument was
// loaded, the number of the call is gone, and nothing may be compared with it.
func program(rules []rule) ([]bpf.Instruction, error) {
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AUDIT_ARCH_X86_64, SkipTrue: 1},
		bpf.RetConstant{Val: uint32(trap)},
		bpf.LoadAbsolute{Off: offCall, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		bpf.RetConstant{Val: uint32(trap)},
	}
	seen := map[uint32]bool{}
	for _, r := range rules {
		if seen[r.call] {
			return nil, fmt.Errorf("there are two rules for call %d", r.call)
		}
		seen[r.call] = true
		body := r.body()
		if len(body) > 255 {
			return nil, fmt.Errorf("the rule for call %d takes %d instructions, a jump reaches 255", r.call, len(body))
		}
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.call, SkipFalse: uint8(len(body))})
		p = append(p, body...)
	}
	p = append(p, bpf.RetConstant{Val: uint32(trap)})
	if len(p) > 4096 {
		return nil, errors.New("the filter is longer than the kernel takes")
	}
	return p, nil
}

func (r rule) body() []bpf.Instruction {
	var body []bpf.Instruction
	for _, tests := range r.allowed {
		var one []bpf.Instruction
		for i := len(tests) - 1; i >= 0; i-- {
			one = append(tests[i].instructions(len(one)+1), one...)
		}
		body = append(append(body, one...), bpf.RetConstant{Val: uint32(allow)})
	}
	return append(body, bpf.RetConstant{Val: uint32(r.otherwise)})
}

// instructions fall through when the test passes and skip, beyond their own end,
// as many as given when it does not.
func (t test) instructions(skip int) []bpf.Instruction {
	low := uint32(offArguments + 8*t.argument)
	high := low + 4
	var p []bpf.Instruction
	if t.mask != 0 {
		p = append(p,
			bpf.LoadAbsolute{Off: low, Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: t.mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.bits, SkipFalse: uint8(skip)},
		)
	}
	// From the end to the beginning: jumps need to know what follows.
	if t.most != ^uint64(0) {
		past := uint8(skip + len(p))
		p = append([]bpf.Instruction{
			bpf.LoadAbsolute{Off: high, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(t.most >> 32), SkipTrue: 3},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(t.most >> 32), SkipFalse: past + 2},
			bpf.LoadAbsolute{Off: low, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(t.most), SkipFalse: past},
		}, p...)
	}
	if t.least != 0 {
		past := uint8(skip + len(p))
		p = append([]bpf.Instruction{
			bpf.LoadAbsolute{Off: high, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: uint32(t.least >> 32), SkipTrue: 3},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(t.least >> 32), SkipFalse: past + 2},
			bpf.LoadAbsolute{Off: low, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(t.least), SkipFalse: past},
		}, p...)
	}
	return p
}
