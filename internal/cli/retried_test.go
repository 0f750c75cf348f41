package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// variable are the parts of a timeline that differ from run to run, with their replacements.
var variable = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), "CLOCK"},
	{regexp.MustCompile(`\+\d[0-9.]* m?s `), ""},
	{regexp.MustCompile(`, \d[0-9.]* m?s(\n| of processor)`), ", SPAN$1"},
	{regexp.MustCompile(` +`), " "},
}

func withoutVariables(text string) string {
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// The timeline in the guide, of a run that was interrupted by a kill and continued by the next
// server, equals the output of "exec show".
func TestGuideForTheCommandLine(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```js file=convert.js\n(.*?)```.*?```text output\n(.*?)```").FindSubmatch(raw)
	if block == nil {
		t.Fatal("the guide shows no script and no timeline of it")
	}
	dir := t.TempDir()
	p, url := launchServer(t, dir)
	known := map[string]string{"url": url, "file": written(t, "convert.js", string(block[1]))}
	play(t, known, []step{
		{args: `run --detach --session import $file` + at, stdout: "(?P<id>\\S+)\n"},
		{eventually: true, args: `exec output $id` + at, stdout: "page 1\npage 2\n"},
	})
	p.signal(syscall.SIGKILL)
	p.status()
	_, known["url"] = launchServer(t, dir)
	play(t, known, []step{{args: `exec watch $id` + at, stdout: ".*imported 4 pages\n", stderr: ".*status: completed\n.*"}})
	play(t, known, []step{{args: `exec show $id` + at, stdout: `(?P<shown>.* heap [0-9a-f]{64}\n)`}})
	if got, want := withoutVariables(known["shown"]), withoutVariables(string(block[2])); got != want {
		t.Errorf("the guide shows\n%s\nbut it is\n%s\n(in full\n%s)", want, got, known["shown"])
	}
}
