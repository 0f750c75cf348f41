package embed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"daybook/internal/dev/tier"
)

var fences = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestEmbedGuide follows docs/guides/embed.md exactly: a module outside of the repository
// imports this module and has the program of the guide.
func TestEmbedGuide(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "guides", "embed.md"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	program := ""
	for _, m := range fences.FindAllStringSubmatch(string(raw), -1) {
		switch {
		case m[1] == "sh":
			commands = append(commands, strings.ReplaceAll(m[2], "/path/to/daybook", root))
		case m[1] == "go" && program == "":
			program = m[2]
		}
	}
	if len(commands) != 3 || !strings.HasPrefix(program, "package main\n") {
		t.Fatalf("the guide has %d blocks of commands, and its program begins with %.40q", len(commands), program)
	}
	t.Run("replace", func(t *testing.T) {
		tier.NightlyOnly(t, "examples/embed is built with the same package, in the module")
		followGuide(t, program, commands[0]+commands[1])
	})
	t.Run("go.work", func(t *testing.T) {
		tier.NightlyOnly(t, "the same program is built with replace")
		followGuide(t, program, commands[2])
	})
}

// followGuide runs commands of the guide in an empty directory. It saves the program once
// the commands have created the directory for it.
func followGuide(t *testing.T, program, commands string) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "program"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	const begin = "mkdir ledger && cd ledger\n"
	if !strings.HasPrefix(commands, begin) {
		t.Fatalf("the commands do not begin with %q:\n%s", begin, commands)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", begin+"cp ../program main.go\n"+commands[len(begin):])
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-buildvcs=false")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the commands fail: %v\n%s", err, log.String())
	}
	for _, want := range []string{"first: 1\n", "second: tea and biscuits\n", "third: failed\n", " daybook.execution.failed.v1\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the program does not print %q:\n%s\n%s", want, out, log.String())
		}
	}
}
