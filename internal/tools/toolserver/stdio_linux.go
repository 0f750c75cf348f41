package toolserver

import (
	"os/exec"
	"syscall"
)

// childAttributes ends the child with us, and gives it a group of its own, so that
// an interrupt at our terminal is ours to pass on.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killChild(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its group: what it started goes too
	_ = cmd.Process.Kill()
}
