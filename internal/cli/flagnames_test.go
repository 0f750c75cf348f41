package cli_test

import "testing"

// Commands print the texts of the server with flags instead of fields.
func TestMessagesNameFlags(t *testing.T) {
	t.Parallel()
	const advice = "Out of memory: V8 heap limit exceeded. Try increasing --memory."
	play(t, map[string]string{"url": serve(t).URL()}, []step{
		{args: `run -e 1 --memory 5` + at, stdout: "1\n", stderr: "warning: --memory was raised to 8, .*"},
		{args: `exec show @last` + at, stdout: ".*warning: --memory was raised to 8, .*"},
		{args: `run -e "heap_memory_max_mb" --session own` + at, stdout: "heap_memory_max_mb\n", stderr: ".*"},
		{args: `repl --memory 5` + at, stdin: "2\n", stdout: "2\n", stderr: "warning: --memory was raised to 8, .*"},
		{args: `run --memory 8 --session full -e let·a=[];for(;;)a.push(new·Array(10000).fill(1))` + at, status: 1, stderr: advice + "\nstatus: failed\n"},
		{args: `exec show @last` + at, stdout: ".*failed \\(out_of_memory\\).*\n +" + advice + "\n.*"},
		{eventually: true, args: `session show full` + at, stdout: ".*error  " + advice + "\n.*"},
		{args: `events tail --no-follow --execution @last --type daybook.execution.failed.v1` + at, stdout: ".*" + advice + "\n"},
		{args: `session open x --seed nope` + at, status: 2, stderr: "daybook: --seed: no entry or source is named \"nope\".*\n"},
	})
}
