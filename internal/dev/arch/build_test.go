package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A build without cgo fails with one line that names the package to install. Go disables
// cgo if there is no C compiler.
func TestBuildWithoutCompiler(t *testing.T) {
	t.Parallel()
	expectBuildError(t, "needs cgo and a C++ compiler: install g++", "CGO_ENABLED=0")
}

// A build for another system fails with one line that names the supported system, with
// and without cgo.
func TestBuildForOtherSystem(t *testing.T) {
	t.Parallel()
	for _, system := range []string{"GOOS=darwin", "GOARCH=arm64"} {
		for _, cgo := range []string{"CGO_ENABLED=0", "CGO_ENABLED=1"} {
			expectBuildError(t, "runs on Linux on amd64 only", system, cgo)
		}
	}
}

// expectBuildError builds the program and expects one line of error after the name of the
// package.
func expectBuildError(t *testing.T, want string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "daybook"), ".")
	cmd.Dir = filepath.Join("..", "..", "..")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil || len(lines) != 2 || !strings.HasPrefix(lines[0], "# ") || !strings.Contains(lines[1], want) {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
}
