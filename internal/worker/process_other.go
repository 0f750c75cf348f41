//go:build !linux

package worker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func processAttributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startCommand(cmd *exec.Cmd, _ bool) error { return cmd.Start() }

func enlargePipe(*os.File) {}

// executable is the file that was started. Should it be replaced while this
// process runs, workers do not start.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

const namespaces = false

func processCPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
