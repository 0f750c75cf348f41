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

// Values of a file are taken exactly, or refused with what the flag accepts.
func TestConfigValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ content, want string }{
		{`{"limit-runs": 1.5}`, `--limit-runs: 1.5 is not a whole number`},
		{`{"limit-runs": "1.5"}`, `--limit-runs: "1.5" is not a whole number`},
		{`{"limit-runs": 10000000000000001}`, `--limit-runs is 10000000000000001: the range`},
		{`{"limit-output-bytes": 9007199254740993, "limit-runs": -1}`, `--limit-runs is -1: the range`},
		{`{"limit-output-bytes": 1152921504606846977}`, `--limit-output-bytes is 1152921504606846977: the range`},
		{`{"limit-runs": 99999999999999999999}`, `--limit-runs: 99999999999999999999 is not a whole number`},
		{`{"limit-runs": 1e1, "limit-sessions": -5.0}`, `--limit-sessions is -5: the range`},
		{`{"limit-runs": true}`, `--limit-runs: true is in the wrong form: give a whole number`},
		{`{"limit-runs": [1]}`, `--limit-runs: [1] is in the wrong form: give a whole number`},
		{`{"limit-runs": {"a": 1}}`, `--limit-runs: {"a":1} is in the wrong form: give a whole number`},
		{`{"limit-requests": "many"}`, `--limit-requests: "many" is not a number`},
		{`{"http-port": 1e9}`, `--http-port is 1000000000: the range`},
		{`{"drain-wait": 10}`, `--drain-wait: 10 is not a duration such as "500ms", "90s" or "2h"`},
		{`{"drain-wait": 1.5e9}`, `--drain-wait: 1.5e9 is not a duration`},
		{`{"stateless": 1}`, `--stateless: 1 is a number: give true or false`},
		{`{"stateless": []}`, `--stateless: [] is in the wrong form: give true or false`},
		{`{"key-dir": 5}`, `--key-dir: 5 is a number: give a text in quotes`},
		{`{"key-dir": false}`, `--key-dir: false is in the wrong form: give a text in quotes`},
		{`{"allowed-host": ["a", 1]}`, `--allowed-host: element 2 of the list is not a text in quotes`},
		{`{"allowed-host": {"a": 1}}`, `--allowed-host: {"a":1} is in the wrong form: give a text in quotes, or a list of texts`},
		{`{"tenant-weights": {"acme": 1.5}}`, `--tenant-weights: acme: 1.5 is not a whole number`},
		{`{"tenant-weights": {"acme": "2"}}`, `--tenant-weights: acme: "2" is a text: give a whole number without quotes`},
		{`{"tenant-weights": {"acme": null}}`, `--tenant-weights: acme: null is no value: give a whole number`},
		{`{"tenant-weights": {"acme": 2000}}`, `--tenant-weights acme=2000: the range is 1 to 1000`},
		{`{"tenant-weights": {"acme": 2.0}, "limit-runs": -1}`, `--limit-runs is -1: the range`},
		{`{"tenant-weights": 2}`, `--tenant-weights: 2 is a number: give an object, or a text in quotes`},
		{`{"limit-runs": -1} {}`, `--config FILE: not a JSON object of flag names and values: there is text after the object`},
		{`{"limit-runs": 1, "limit-sessions": 2, "limit-runs": -1}`, `--config FILE: "limit-runs" is given twice; keep one of the two`},
		{`{"tenant-weights": {"acme": 1, "acme": 2}}`, `--config FILE: "acme" is given twice; keep one of the two`},
		{`{"limit-runs": null}`, `--config FILE: "limit-runs" is null, which is no value; leave the key out for the default`},
		{`null`, `--config FILE: not a JSON object of flag names and values: it is JSON null`},
		{`["limit-runs"]`, `--config FILE: not a JSON object of flag names and values: it is a JSON array`},
	} {
		file := written(t, "config.json", test.content)
		got := daybook("", "serve", "--config", file, "--data-dir", t.TempDir()+"/none")
		if want := "daybook: " + strings.ReplaceAll(test.want, "FILE", file); got.status != 2 || !strings.HasPrefix(got.err, want) || strings.Contains(got.err, "int") || strings.Contains(got.err, " json:") {
			t.Errorf("%s: exit status %d, stderr %q, want %q", test.content, got.status, got.err, want)
		}
	}
}
