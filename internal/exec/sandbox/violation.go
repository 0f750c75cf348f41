package sandbox

import (
	"fmt"
	"strings"
)

// violationHead precedes what a worker killed by the filter writes last.
const violationHead = "daybook-sandbox: refused "

// Kinds of system calls, as the kernel's audit numbers them.
const (
	auditAMD64 = 0xc000003e
	auditI386  = 0x40000003
)

// Violation returns what a process killed by SIGSYS was refused, from what it
// wrote to its standard error. Nothing depends on it being true.
func Violation(stderr string) string {
	const unknown = "an unknown system call"
	i := strings.LastIndex(stderr, violationHead)
	if i < 0 {
		return unknown
	}
	var number int
	var arch uint32
	if _, err := fmt.Sscanf(stderr[i+len(violationHead):], "%d %d\n", &number, &arch); err != nil || number < 0 {
		return unknown
	}
	switch arch {
	case auditAMD64:
		if name := callName(number); name != "" {
			return name
		}
		return fmt.Sprintf("system call %d", number)
	case auditI386:
		return fmt.Sprintf("system call %d of the 32-bit interface", number)
	default:
		return fmt.Sprintf("system call %d of architecture %#x", number, arch)
	}
}
