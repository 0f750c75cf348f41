//go:build !linux

package toolserver

import (
	"os/exec"
	"syscall"
)

// childAttributes: nothing here ends a child with us; it sees its input close.
func childAttributes() *syscall.SysProcAttr { return nil }

func killChild(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
