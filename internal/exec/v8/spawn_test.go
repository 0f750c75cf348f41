package v8_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/v8"
)

// startIsolated starts a shell in a user namespace and returns its output.
func startIsolated(t *testing.T, path, dir, script string) (out string, state *os.ProcessState, err error) {
	t.Helper()
	// The process maps its own user: some systems permit namespaces, but not that.
	if exec.Command("unshare", "--user", "--map-root-user", "true").Run() != nil {
		t.Skip("this system permits no user namespace whose owner maps itself")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := v8.Isolated{
		Path: path, Args: []string{"sh", "-c", script, "name", "an argument"}, Dir: dir, Files: [3]*os.File{null, w, w},
		Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWPID, UserID: 65534, GroupID: 65533,
	}.Start()
	w.Close()
	if err != nil {
		return "", nil, err
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	if state, err = p.Wait(); err != nil {
		t.Error(err)
	}
	return string(all), state, nil
}

// The process has exactly the arguments, files and ids that were passed to Start.
func TestIsolated(t *testing.T) {
	t.Parallel()
	out, state, err := startIsolated(t, "/bin/sh", "/usr", `echo "$$ $(id -u) $(id -g) $(pwd) $1"; read line; echo "end of input $?" >&2; tr '\0' '\n' < /proc/self/environ | grep -c HOME; grep Sig[BI] /proc/self/status; exit 7`)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	want := "1 65534 65533 /usr an argument\nend of input 1\n0\n"
	for line := range strings.Lines(string(own)) {
		if strings.HasPrefix(line, "SigB") || strings.HasPrefix(line, "SigI") {
			want += line // blocked and ignored signals are inherited
		}
	}
	if out != want || state.ExitCode() != 7 {
		t.Errorf("it writes %q, %v; want %q", out, state, want)
	}
}

// Start returns an error for a program that cannot be started, and leaves no process.
func TestIsolatedErrors(t *testing.T) {
	for _, test := range []struct {
		path, dir, script string
		want              error
	}{
		{"/no/such/program", "/", "true", syscall.ENOENT},
		{"/etc/passwd", "/", "true", syscall.EACCES},
		{"/bin/sh", "/no/such/directory", "true", syscall.ENOENT},
		{"/bin/sh", "/", "a\x00b", nil},
	} {
		_, _, err := startIsolated(t, test.path, test.dir, test.script)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s in %s: %v, want %v", test.path, test.dir, err, test.want)
		}
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}
