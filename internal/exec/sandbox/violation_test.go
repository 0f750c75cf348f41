package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"daybook/internal/exec/sandbox"
)

// The names are exactly those of the SYS_ constants of golang.org/x/sys/unix.
func TestCallNames(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "zsysnum_linux_amd64.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^\tSYS_(\w+) += (\d+)$`).FindAllStringSubmatch(string(source), -1) {
		number, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		names[number] = strings.ToLower(m[1])
	}
	if len(names) < 300 {
		t.Fatalf("%d constants found", len(names))
	}
	for number := -1; number <= 1024; number++ {
		if got := sandbox.CallName(number); got != names[number] {
			t.Errorf("call %d is named %q, want %q", number, got, names[number])
		}
	}
}
