package sandbox

import (
	"fmt"
	"strings"
)

// violationHead starts the last line that a worker writes when the filter kills it.
const violationHead = "daybook-sandbox: refused "

// Architectures of system calls, as the audit of the kernel numbers them.
const (
	auditAMD64 = 0xc000003e
	auditI386  = 0x40000003
)

// Violation returns the name of the system call that a process was killed for, from its standard
// error. The process may have written another name, so no decision may depend on it.
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
