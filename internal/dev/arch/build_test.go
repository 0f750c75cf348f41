package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A build without cgo, which is what Go does where there is no C compiler, ends
// with one line that says what to install.
func TestBuildWithoutCompiler(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "daybook"), ".")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil || len(lines) != 2 || !strings.HasPrefix(lines[0], "# ") || !strings.Contains(lines[1], "needs cgo and a C++ compiler: install g++") {
		t.Errorf("%v\n%s", err, out)
	}
}
