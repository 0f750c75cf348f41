package cli_test

import "testing"

// Sessions of two kinds are shown, reset, listed and replayed.
func TestSessions(t *testing.T) {
	t.Parallel()
	play(t, map[string]string{"url": serve(t).URL()}, []step{
		{args: `run -e let·a·=·1;·//·first --session talk·1` + at, stderr: "status: completed\nheap:   (?P<heap>[0-9a-f]{12})[0-9a-f]{52}\n"},
		{args: `run -e throw·0 --session talk·1` + at, status: 1, stderr: "Uncaught 0\nstatus.*"},
		{args: `session show talk·1` + at, stdout: "named session \"talk 1\"\n.*2 runs, continues from heap [0-9a-f]{12}\n\nrun 1  completed in .*\n         let a = 1; // first\n  heap   $heap\n\nrun 2  failed in .*\n         throw 0\n  error  Uncaught 0\n  heap   .*\n"},
		{args: `session show talk·1 --last 1 --bytes 3` + at, stdout: ".*… 1 earlier run; --last 2 shows it\n\nrun 2 .*\n         thr\n         … 4 of 7 bytes more: daybook exec get \\S+\n.*"},
		{args: `session show nope` + at, status: 2, stderr: "daybook: .*nope.*\n"},
		{args: `session reset talk·1 --heap $heap` + at, stdout: "named session \"talk 1\" reset to heap $heap[0-9a-f]{52}\n"},
		{args: `run --continue --session talk·1 -e typeof·a` + at, stdout: "number\n", stderr: "status.*"},
		{args: `session reset talk·1` + at, stdout: "named session \"talk 1\" reset to a fresh isolate\n"},
		{args: `run --continue --session talk·1 -e typeof·a` + at, stdout: "undefined\n", stderr: "status.*"},
		{args: `session show talk·1 --last 1` + at, stdout: ".*── reset to a fresh isolate, .*\n\nrun 4 .*"},
		{args: `session open keeps·state` + at, stdout: "(?P<logical>\\S+)\n", stderr: ".*"},
		{args: `run --in keeps -e let·b·=·1` + at, stderr: "status.*heap:   (?P<first>[0-9a-f]{64})\n"},
		{args: `run --in keeps·state -e b·=·2;console.log("\x1b[2J")` + at, stdout: ".*", stderr: "status.*"},
		{args: `run --in talk·1 -e 1` + at, status: 2, stderr: "daybook: session \"talk 1\" only logs runs: .*--session.*\n"},
		{args: `session reset keeps --heap $first` + at, stdout: "logical session \"keeps state\" reset to heap $first\n"},
		{args: `run --in $logical -e b` + at, stdout: "1\n", stderr: "status.*"},
		{args: `session show keeps` + at, stdout: "logical session \"keeps state\"\n.*turn 2  completed.*  output \\\\x1b\\[2J\n.*── reset to heap [0-9a-f]{12}, .*turn 3 .*  result 1\n.*"},
		{args: `run --in keeps --session talk·1 -e 7` + at, stdout: "7\n", stderr: "status.*"},
		{args: `session show talk·1 --last 1` + at, stdout: ".*\nrun 5  completed .*"},
		{args: `session reset keeps --heap $first` + at, stdout: "logical session .*"},
		{args: `session log keeps` + at, stdout: "INDEX +TIME +STATUS +HEAP +ARTIFACTS +CODE\n0 .*\n1 .*\n2 .*\n3 .*\n"},
		{args: `exec list --session keeps` + at, stdout: "EXECUTION [^\n]*\n([^\n]* completed [^\n]*\n){4}"},
		{args: `events tail --no-follow --session keeps --type daybook.session.reset.v1` + at, stdout: "([^\n]*session.reset[^\n]*\n){2}"},
		{args: `session replay keeps --speed max` + at, stdout: ".*session.opened.v1.*session.reset.v1.*"},
		{args: `run --session paints -e artifact("a\n.png".slice(0,1),"text/plain","12");artifact("a","text/plain","1");artifact("\x9b·b","image/png",new·Uint8Array(3));artifact("é","text/html","<p>");5` + at, stdout: "5\n", stderr: "status.*"},
		{args: `session show paints` + at, stdout: ".*  result 5\n  artifact \"a\", text/plain, 1 byte\n  artifact \"\\\\u009b b\", image/png, 3 bytes\n  artifact \"é\", text/html, 3 bytes\n  artifact … 4 in all: daybook exec artifacts \\S+\n  heap .*"},
		{args: `session show paints --json` + at, stdout: `.*"artifacts":4,"artifact_list":\[\{"number":2,"name":"a","mime":"text/plain","size":1,.*`},
		{args: `exec list --session paints --json` + at, stdout: `.*"artifacts":4.*`},
		{args: `session list --kind logical` + at, stdout: "KIND .*\nlogical +keeps state .*\n"},
	})
}

// The error for an unknown session names the command that lists sessions.
func TestUnknownSessions(t *testing.T) {
	t.Parallel()
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	const note = "no session is called \"nope\"; \"daybook session list\" lists them\n"
	const refusal = "daybook: Session 'nope' not found; \"daybook session list\" lists sessions\n"
	const empty = "daybook: the name of the session is empty; \"daybook session list\" lists sessions\n"
	play(t, map[string]string{"url": serve(t).URL(), "none": ""}, []step{
		{args: `exec list --session nope` + at, stdout: "EXECUTION [^\n]*\n", stderr: note},
		{args: `exec list --session nope --json` + at, stdout: `\{"executions":\[\]\}` + "\n"},
		{args: `events tail --no-follow --session nope` + at, stderr: note},
		{args: `events tail --no-follow --session nope --json` + at},
		{args: `run -e 1 --session used` + at, stdout: "1\n", stderr: ".*"},
		{eventually: true, args: `session list` + at, stdout: ".*used.*"},
		{args: `exec list --session used --status failed` + at, stdout: "EXECUTION [^\n]*\n"},
		{args: `events tail --no-follow --session used --type daybook.execution.failed.v1` + at},
		{args: `session show nope` + at, status: 2, stderr: refusal},
		{args: `session reset nope` + at, status: 2, stderr: refusal},
		{args: `session replay nope` + at, status: 2, stderr: refusal},
		{args: `run --in nope -e 1` + at, status: 2, stderr: "daybook: Session 'nope' not found; \"daybook session list\" lists sessions, \"daybook session open\" opens one\n"},
		{args: `run --in ` + zeros + ` -e 1` + at, status: 2, stderr: "daybook: there is no session '" + zeros + "'; \"daybook session list\" lists sessions, \"daybook session open\" opens one\n"},
		{args: `session show $none` + at, status: 2, stderr: empty},
		{args: `session log $none` + at, status: 2, stderr: empty},
		{args: `session reset $none` + at, status: 2, stderr: empty},
		{args: `session replay $none` + at, status: 2, stderr: empty},
		{args: `session show ..` + at, status: 2, stderr: "daybook: name the session \"..\" by its id; .*\n"},
		{args: `session shred $none` + at, status: 2, stderr: empty},
		{args: `exec get $none` + at, status: 2, stderr: "daybook: the execution is empty: give its id, a unique prefix of it, or @last\n"},
	})
}
