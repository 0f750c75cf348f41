package worker_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/internal/dev/tier"
)

// TestForeign builds the program once for the tests that run it.
func TestForeign(t *testing.T) {
	t.Parallel()
	tier.NightlyOnly(t, "examples/embed starts workers from a program of its own")
	program := filepath.Join(t.TempDir(), "foreign")
	// "go run" takes the program from the build cache; "go build" links it each time.
	cmd := exec.Command("go", "run", "-exec", `sh -c 'cp "$0" "$BIN"'`, "./testdata/foreign")
	cmd.Env = append(os.Environ(), "BIN="+program)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("program", func(t *testing.T) { foreignProgram(t, program) })
	t.Run("started by hand", func(t *testing.T) { startedByHand(t, program) })
}

// A program that imports the package can run workers, whatever its main does. When the program is
// killed, its workers die.
func foreignProgram(t *testing.T, program string) {
	out, err := exec.Command(program, "-code", "console.log('from a worker'); 6 * 7").CombinedOutput()
	if want := "from a worker\n42\n"; err != nil || string(out) != want {
		t.Fatalf("%q, %v; want %q", out, err, want)
	}

	cmd := exec.Command(program, "-code", "console.log('running'); for (;;);")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "running\n" {
		t.Fatalf("%q, %v", line, err)
	}
	workers := childrenOf(t, cmd.Process.Pid)
	if len(workers) != 1 {
		t.Fatalf("workers of the program: %v", workers)
	}
	pidfd, err := unix.PidfdOpen(workers[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int((20 * time.Second).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Errorf("the worker outlived its parent: %d, %v", n, err)
		}
		return
	}
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var children []int
	for _, stat := range processes(t) {
		if stat.parent == pid {
			children = append(children, stat.pid)
		}
	}
	return children
}

// A process with the arguments of a worker that receives no hello message from a Pool writes an
// error and exits.
func startedByHand(t *testing.T, program string) {
	cmd := &exec.Cmd{Path: program, Args: []string{"daybook-worker", "daybook-worker/1", strconv.Itoa(unix.Getpid()), "0"}}
	cmd.Stdin = strings.NewReader("hello?")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = new(strings.Builder), &stderr
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "do not start it by hand") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}
