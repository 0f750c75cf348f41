package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// action is the answer of the filter to a system call.
type action uint32

const (
	allow action = unix.SECCOMP_RET_ALLOW
	trap  action = unix.SECCOMP_RET_TRAP         // raise SIGSYS, which has a handler
	kill  action = unix.SECCOMP_RET_KILL_PROCESS // kill the process without calling a handler
)

// fail returns the action that makes the call return errno without executing it.
func fail(errno unix.Errno) action { return unix.SECCOMP_RET_ERRNO | action(errno) }

// test is a condition on one argument. The filter sees all 64 bits of a register, even if the
// kernel uses only 32 of them.
type test struct {
	argument int
	// least and most are the bounds of the argument, both included.
	least, most uint64
	// The bits of the argument in mask must be equal to bits. A mask of 0 checks nothing.
	mask, bits uint32
}

func between(argument int, least, most uint64) test {
	return test{argument: argument, least: least, most: most}
}

func equals(argument int, value uint64) test { return between(argument, value, value) }

func atMost(argument int, most uint64) test { return between(argument, 0, most) }

func atLeast(argument int, least uint64) test { return between(argument, least, ^uint64(0)) }

// flags returns the test that the flags in set are set and those in unset are not.
func flags(argument int, set, unset uint32) test {
	return test{argument: argument, most: 1<<32 - 1, mask: set | unset, bits: set}
}

// rule has the conditions for one system call.
type rule struct {
	call uint32
	// allowed permits the call if all tests of one of its elements pass.
	allowed [][]test
	// otherwise is the answer if no element permits the call.
	otherwise action
}

// Offsets in bytes in the data that the kernel passes to a filter. The lower half of an
// argument comes first.
const (
	offCall      = 0
	offArch      = 4
	offArguments = 16
)

// x32Bit is set in the numbers of the x32 interface, which has the same architecture number as
// amd64.
const x32Bit = 1 << 30

// program assembles rules into a filter that traps every call without a rule. The instructions
// of each rule end in an answer: loading an argument overwrites the number of the call, so later
// rules could not compare it.
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
		return nil, errors.New("the filter is longer than the kernel accepts")
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

// instructions returns the instructions of the test. If the test passes, execution continues
// directly after them. If the test fails, execution skips as many further instructions as skip
// says.
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
	// Built from the end, because a jump needs the number of instructions that follow.
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
