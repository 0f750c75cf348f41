package cli_test

import (
	"strconv"
	"strings"
	"testing"
)

// A value comes from the flag, else from the environment, else from the file, else it is the
// default. The address in the error shows which value was used.
func TestPrecedence(t *testing.T) {
	file := written(t, "config.json", `{"server": "http://127.0.0.1:3", "json": true, "http-addr": "127.0.0.1:0", "timeout": 7}`)
	for _, test := range []struct{ env, args, want string }{
		{"", "exec list --server http://127.0.0.1:1 --config " + file, "http://127.0.0.1:1"},
		{"http://127.0.0.1:2", "exec list --server http://127.0.0.1:1 --config " + file, "http://127.0.0.1:1"},
		{"http://127.0.0.1:2", "exec list --config " + file, "http://127.0.0.1:2"},
		{"http://127.0.0.1:2", "exec list", "http://127.0.0.1:2"},
		{"", "exec list --config " + file, "http://127.0.0.1:3"},
		{"", "--config=" + file + " exec list", "http://127.0.0.1:3"},
	} {
		t.Run(test.env+" "+test.args, func(t *testing.T) {
			if test.env != "" {
				t.Setenv("DAYBOOK_SERVER", test.env)
			}
			got := daybook("", strings.Fields(test.args)...)
			if want := "no server answers at " + test.want + ":"; got.status != 5 || !strings.Contains(got.err, want) {
				t.Errorf("exit status %d, %s; want %q", got.status, got.err, want)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	book := serve(t)
	file := func(content string) string {
		return written(t, "config.json", strings.ReplaceAll(content, "URL", strconv.Quote(book.URL())))
	}
	play(t, map[string]string{
		"good":    file(`{"server": URL, "timeout": 1, "tag": ["from=file", "b=c,d"], "json": true}`),
		"comma":   file(`{"server": URL, "tag": "one=a,b"}`),
		"wrong":   file(`{"server": URL, "timeout": "soon"}`),
		"unknown": file(`{"server": URL, "timeoutt": 1}`),
		"array":   file(`["server"]`),
		"broken":  file(`{"server": `),
		"url":     book.URL(),
	}, []step{
		// The file may have values of every kind: text, number, list and boolean.
		{args: `run -e while(true){} --config $good`, status: 4, stdout: `\{.*"execution_timeout_secs":1,.*\}\n`},
		{args: `run -e let·a --config $good --timeout 30`, stdout: `\{.*"heap":"(?P<heap>\w+)".*"execution_timeout_secs":30,.*\}\n`},
		{eventually: true, args: `heap tags $heap` + at, stdout: "b=c,d\nfrom=file\n"},
		{args: `run -e let·b --config $comma`, stderr: "status: completed\nheap:   (?P<heap>\\w+)\n"},
		{eventually: true, args: `heap tags $heap` + at, stdout: "one=a,b\n"},
		{args: `run -e 1 --config $wrong`, status: 2, stderr: "daybook: --timeout: .*soon.*"},
		{args: `run -e 1 --config $unknown`, status: 2, stderr: "daybook: --config $unknown: unknown key \"timeoutt\"; keys are flag names without the dashes, for example \"http-addr\"\n.*"},
		{args: `run -e 1 --config $array`, status: 2, stderr: "daybook: --config $array: not a JSON object.*"},
		{args: `run -e 1 --config $broken`, status: 2, stderr: "daybook: --config $broken: not a JSON object.*"},
		{args: `run -e 1 --config $broken.gone`, status: 2, stderr: "daybook: read --config: open $broken.gone: no such file.*"},
	})
}
