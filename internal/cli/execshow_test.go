package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
)

// A line that is stored in several pieces is one row, which shows its beginning. So do rows of
// long lines of code and errors.
func TestExecShowCutsLongLines(t *testing.T) {
	t.Parallel()
	known := map[string]string{"url": serve(t).URL(), "x2000": strings.Repeat("x", 2000), "e1000": strings.Repeat("é", 1000), "e999": strings.Repeat("é", 999), "code": "'" + strings.Repeat("é", 2000) + "';console.log('x'.repeat(300000));console.log('é'.repeat(1500));console.log('short');throw '" + strings.Repeat("z", 3000) + "'"}
	play(t, known, []step{
		{args: `run --detach -e $code` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, status: 1, stdout: ".*", stderr: ".*"},
		{args: `exec show $id` + at, stdout: ".*code       main.ts, 1 line\n" +
			" {11}'$e999\n {11}… \\d+ of \\d+ bytes more; daybook exec get $id\n" +
			".*   1 │ $x2000\n +… 298000 of 300000 bytes more; daybook exec output $id\n" +
			"[^\n]*   2 │ $e1000\n +… 1000 of 3000 bytes more; daybook exec output $id\n" +
			"[^\n]*   3 │ short\n.*'z+\n +… \\d+ of \\d+ bytes more; daybook exec get $id\n.*"},
		{args: `exec show $id --lines 2` + at, stdout: ".*   1 │ $x2000\n +… 298000 [^\n]*\n +… lines 2 to 2; daybook exec output $id\n[^\n]*   3 │ short\n.*"},
	})
	whole := daybook("", "exec", "show", known["id"], "--lines", "0", "--server", known["url"])
	if n := strings.Count(whole.stdout, "x"); n < 300000 || whole.status != 0 {
		t.Errorf("with --lines 0 it shows %d bytes of the line, exit status %d", n, whole.status)
	}
}

// Output that was truncated at the limit of the server is printed with a warning.
func TestExecOutputWarnsOfCut(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	book, err := embed.Start(ctx, embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1, OutputMaxBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	play(t, map[string]string{"url": book.URL()}, []step{
		{args: `run --detach -e for(let·i=0;i<50;i++)console.log("a·line")` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, stdout: ".*", stderr: "warning: the output was cut: 100 of 350 bytes are stored; .*"},
		{args: `exec output $id` + at, stdout: "(a line\n){14}a \n?", stderr: "warning: the output was cut: 100 of 350 bytes are stored; the server's --output-max-bytes is the limit\n"},
		{args: `exec output $id --json` + at, stdout: `.*"truncated":true.*`},
		{args: `run --detach -e console.log(1)` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, stdout: "1\n", stderr: "status.*"},
		{args: `exec output $id` + at, stdout: "1\n"},
	})
}

// All files of a run are listed with the request.
func TestExecShowFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := map[string]string{"url": serve(t).URL(), "dir": dir}
	for name, text := range map[string]string{"a.ts": "export const a: number = 1", "data.json": "{}", "long.js": "//" + strings.Repeat("x", 2000)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	play(t, known, []step{
		{args: `run --detach -e import·{a}·from·"./lib/a.ts";a --file lib/a.ts=$dir/a.ts --file data.json=$dir/data.json` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, stdout: ".*", stderr: ".*"},
		{args: `exec show $id` + at, stdout: ".* accepted [^\n]*\n +limits [^\n]*\n +files data.json, lib/a.ts; 58 bytes as JSON, in text [0-9a-f]{12}\n.*"},
		{args: `exec show $id --json` + at, stdout: `.*"files": \{.*"preview": "\{\\"data.json\\":\\"\{\}\\",.*`},
		{args: `run --detach -e 1 --file a.ts=$dir/a.ts --file b.js=$dir/long.js --file c.js=$dir/long.js` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, stdout: ".*", stderr: ".*"},
		{args: `exec show $id` + at, stdout: ".*\n +files a.ts, b.js, c.js; 4061 bytes as JSON, in text [0-9a-f]{12}\n.*"},
		{args: `exec text $id files` + at, stdout: `\{"a.ts":"export const a: number = 1","b.js":"//x+","c.js":"//x+"\}` + "\n"},
		{args: `exec text $id files --json` + at, stdout: `"\{\\"a.ts\\":.*"` + "\n"},
		{args: `run --detach -e 1` + at, stdout: "(?P<id>\\S+)\n"},
		{args: `exec watch $id` + at, stdout: ".*", stderr: ".*"},
		{args: `exec show $id` + at, stdout: ".* accepted [^\n]*\n +limits [^\n]*\n[^\n]* started .*"},
		{args: `exec text $id files` + at, status: 2, stderr: "daybook: .*has no files.*\n"},
	})
}
