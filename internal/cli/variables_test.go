package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"daybook/internal/cli"
)

// Options of the server, its address and the token have variables. Flags that select the content
// of an answer have none.
func TestVariables(t *testing.T) { // not parallel: it sets variables
	book := serve(t)
	known := map[string]string{"url": book.URL()}
	t.Setenv("DAYBOOK_SERVER", book.URL())
	play(t, known, []step{
		{args: `run -e 1 --session kept`, stdout: "1\n", stderr: ".*"},
	})
	for name, value := range map[string]string{"DAYBOOK_SESSION": "other", "DAYBOOK_STATUS": "failed", "DAYBOOK_LIMIT": "0", "DAYBOOK_TOKEN_FILE": "/nonexistent", "DAYBOOK_JSON": "true", "DAYBOOK_TYPE": "nonsense", "DAYBOOK_HEAP": "zz"} {
		t.Setenv(name, value)
	}
	play(t, known, []step{
		{args: `exec list`, stdout: "EXECUTION .*completed .*kept .*"},
		{args: `events tail --no-follow --type daybook.execution.requested.v1`, stdout: ".*session \"kept\".*"},
		{args: `run -e 2`, stdout: "2\n", stderr: ".*"},
	})
	reference, err := cli.Reference()
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"DAYBOOK_HTTP_ADDR", "DAYBOOK_EXECUTION_TIMEOUT", "DAYBOOK_DATA_DIR", "DAYBOOK_TOKEN |"} {
		if !strings.Contains(string(reference), variable) {
			t.Errorf("%s is not a variable", variable)
		}
	}
	for _, variable := range []string{"DAYBOOK_STATUS", "DAYBOOK_HEAP |", "DAYBOOK_KEY |", "DAYBOOK_TYPE", "DAYBOOK_TOKEN_FILE"} {
		if strings.Contains(string(reference), variable) {
			t.Errorf("%s is a variable", variable)
		}
	}
}

// The script for bash completes values of flags, and session names, which it requests from the
// server.
func TestCompletionOfValues(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	book := serve(t)
	harmed := filepath.Join(t.TempDir(), "harmed")
	hostile := "own-$(touch${IFS}" + harmed + ")"
	play(t, map[string]string{"url": book.URL(), "hostile": hostile}, []step{
		{args: `run -e 1 --session nightly·import` + at, stdout: "1\n", stderr: ".*"},
		{args: `run -e 1 --session $hostile` + at, stdout: "1\n", stderr: ".*"},
		{eventually: true, args: `complete-sessions` + at, stdout: "$hostile\nnightly import\n"},
		{args: `complete-sessions --server http://127.0.0.1:1`, status: 5},
	})
	for line, want := range map[string]string{
		"daybook exec list --status fa":                    "failed",
		"daybook events tail --type daybook.execution.tim": "daybook.execution.timed_out.v1",
		"daybook exec sh":                                  "show",
		"daybook exec list --session night":                "nightly import",
		"daybook exec list --session own":                  hostile,
		"daybook session show night":                       "nightly import",
		"daybook session log own":                          hostile,
		"daybook session replay night":                     "nightly import",
		"daybook session reset nightly --hea":              "--heap",
	} {
		words := strings.Fields(line)
		script := `source <("` + bin + `" completion bash); daybook() { "` + bin + `" "$@" --server ` + book.URL() + `; }; COMP_WORDS=(` + line + `); COMP_CWORD=` + string(rune('0'+len(words)-1)) + `; _daybook; printf '%s\n' "${COMPREPLY[@]}"`
		out, err := exec.Command("bash", "-c", script).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%q completes to %q, want %q, %v", line, out, want, err)
		}
	}
	if _, err := os.Stat(harmed); err == nil {
		t.Error("completion runs a command in a session name")
	}
	fish := daybook("", "completion", "fish").stdout
	for _, command := range []string{"session show", "session log", "session reset", "session replay"} {
		if want := "= \"" + command + "\"' -a '(daybook complete-sessions 2>/dev/null)'"; !strings.Contains(fish, want) {
			t.Errorf("the script for fish lacks %s", want)
		}
	}
}
