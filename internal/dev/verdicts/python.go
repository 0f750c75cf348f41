package verdicts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// moduleRoot is the root directory of the module.
var moduleRoot = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}()

// PathOfPython returns the path of the interpreter, or skips the test if none is installed.
func PathOfPython(t testing.TB) string {
	t.Helper()
	path, err := pathOfPython()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Skip("python3 is not installed, so verify.py cannot be run")
	case err != nil:
		t.Fatal(err)
	}
	return path
}

var pathOfPython = sync.OnceValues(askPython)

// askPython asks the interpreter for its path: python3 may be a script that selects one, which takes longer
// than most runs of verify.py.
func askPython() (string, error) {
	python3, err := exec.LookPath("python3")
	if err != nil {
		return "", err
	}
	out, err := exec.Command(python3, "-c", "import sys; print(sys.executable)").Output()
	path := strings.TrimSpace(string(out))
	if err == nil && path == "" {
		err = errors.New("it does not know its path")
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for the path of the interpreter: %w", python3, err)
	}
	return path, nil
}

// Python is a running verify.py. It is safe for concurrent use.
type Python struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// StartPython starts verify.py with options such as --key. It ends with the test. Without an
// interpreter, the test is skipped.
func StartPython(t testing.TB, args ...string) *Python {
	t.Helper()
	script := filepath.Join(moduleRoot, "examples", "verify-python", "verify.py")
	cmd := exec.Command(PathOfPython(t), append(append([]string{"-B", script}, args...), "--batch")...)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("verify.py: %v", err)
		}
	})
	return &Python{in: in, out: bufio.NewReader(out)}
}

var words = regexp.MustCompile(`^(INTACT UP TO|INTACT|NOT INTACT|WRONG KEY|UNAUTHENTICATED|FORKED|ROLLED BACK) `)

// Verdict returns the words of the verdict on the export in a directory, and the line with its reason.
func (p *Python) Verdict(dir string) (verdict, line string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := io.WriteString(p.in, dir+"\n"); err != nil {
		return "", "", fmt.Errorf("ask verify.py: %w", err)
	}
	line, err = p.out.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("read the answer of verify.py: %w", err)
	}
	if verdict = strings.TrimSpace(words.FindString(line)); verdict == "" {
		return "", line, fmt.Errorf("verify.py answers %q", line)
	}
	return verdict, strings.TrimSpace(line), nil
}
