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
	for _, flag := range []string{"--config FILE", "--raw", "-h, --help", "daybook --version"} {
		if !strings.Contains(string(reference), "`"+flag+"`") {
			t.Errorf("the reference lacks %s", flag)
		}
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

// A message about a flag says which variable or file sets it, without its value.
func TestSourcesOfFlags(t *testing.T) {
	file := written(t, "config.json", `{"limit-runs": -1, "worker-max-age": "soon", "limit": -2}`)
	global := written(t, "global.json", `{"raw": "maybe"}`)
	for _, test := range []struct{ variable, value, args, want string }{
		{"DAYBOOK_LIMIT_RUNS", "-1", "serve", "--limit-runs is -1: the range is 0 to 1000000000, 0 is unlimited; for example --limit-runs 10000; --limit-runs is set by DAYBOOK_LIMIT_RUNS\n"},
		{"DAYBOOK_LIMIT_RUNS", "-1", "serve --limit-runs=-2", "--limit-runs is -2: the range is 0 to 1000000000, 0 is unlimited; for example --limit-runs 10000\n"},
		{"DAYBOOK_DRAIN_WAIT", "soon", "serve", `--drain-wait: "soon" is not a duration such as 500ms, 90s or 2h; --drain-wait is set by DAYBOOK_DRAIN_WAIT` + "\n"},
		{"DAYBOOK_EXTRA_SLOTS", "two", "serve", `--extra-slots: "two" is not a whole number; --extra-slots is set by DAYBOOK_EXTRA_SLOTS` + "\n"},
		{"DAYBOOK_STATELESS", "maybe", "serve", `--stateless: "maybe" is not true or false; --stateless is set by DAYBOOK_STATELESS` + "\n"},
		{"DAYBOOK_DATA_DIR", "", "exec list --config " + global, `--raw: "maybe" is not true or false; --raw is set in ` + global + "\n"},
		{"DAYBOOK_SANDBOX", "none", "serve", "--sandbox must be one of \"strict\",\"best-effort\" but got \"none\"; --sandbox is set by DAYBOOK_SANDBOX\n"},
		{"DAYBOOK_WORKER_MAX_AGE", "1h", "serve --config " + file, "--limit-runs is -1: the range is 0 to 1000000000, 0 is unlimited; for example --limit-runs 10000; --limit-runs is set in " + file + "\n"},
		{"DAYBOOK_LIMIT_RUNS", "1", "serve --config " + file, `--worker-max-age: "soon" is not a duration such as "500ms", "90s" or "2h"; --worker-max-age is set in ` + file + "\n"},
		{"DAYBOOK_DATA_DIR", "", "exec list --config " + file, "exec list: --limit is -2: it must be 0 or more; --limit is set in " + file + "\n"},
		{"DAYBOOK_SERVER", "ftp://host", "exec list", "exec list: --server \"ftp://host\": give a URL such as http://127.0.0.1:8080; --server is set by DAYBOOK_SERVER\n"},
		{"DAYBOOK_SERVER", "http://user:password@host", "exec list", "exec list: --server: the URL has user information; give a token with --token-file or $DAYBOOK_TOKEN; --server is set by DAYBOOK_SERVER\n"},
		{"DAYBOOK_HEAP_MEMORY_MAX", "128", "serve --heap-memory-ceiling=64", "--heap-memory-ceiling is 64: it must not be below --heap-memory-max, which is 128; --heap-memory-max is set by DAYBOOK_HEAP_MEMORY_MAX\n"},
		{"DAYBOOK_CA", "/nonexistent", "exec list --server https://127.0.0.1:1", "--ca: open /nonexistent: no such file or directory; --ca is set by DAYBOOK_CA\n"},
	} {
		t.Run(test.variable+" "+test.args, func(t *testing.T) {
			if test.value != "" {
				t.Setenv(test.variable, test.value)
			}
			args := strings.Fields(test.args)
			if args[0] == "serve" {
				args = append(args, "--data-dir", t.TempDir()+"/none", "--nats-addr", "off", "--http-port", "0")
			}
			got := daybook("", args...)
			message, _, _ := strings.Cut(strings.TrimPrefix(got.err, "daybook: "), "Run \"daybook")
			if got.status != 2 || message != test.want {
				t.Errorf("exit status %d, stderr %q, want %q", got.status, got.err, test.want)
			}
			if strings.Contains(got.err, "password") {
				t.Errorf("stderr has a password: %q", got.err)
			}
		})
	}
}

// An error that asks for another --server says where the present one is set.
func TestSourceOfTheServer(t *testing.T) {
	t.Setenv("DAYBOOK_SERVER", "http://127.0.0.1:1")
	got := daybook("", "exec", "list")
	const want = "daybook: no server answers at http://127.0.0.1:1: start one with \"daybook serve\", or name another with --server; --server is set by DAYBOOK_SERVER\n"
	if got.status != 5 || got.err != want {
		t.Errorf("exit status %d, stderr %q, want %q", got.status, got.err, want)
	}
}
