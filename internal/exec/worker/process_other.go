//go:build !linux

package worker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func processAttributes(startWay) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startCommand(cmd *exec.Cmd, _ startWay) error { return cmd.Start() }

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

const firstWay = inOurs

func processCPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
