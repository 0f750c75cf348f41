package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"daybook/internal/cli"
)

// at is the end of every command line for a server.
const at = ` --server $url`

const hash = `[0-9a-f]{64}`

func TestRun(t *testing.T) {
	t.Parallel()
	book := serve(t)
	known := func(t *testing.T) map[string]string {
		return map[string]string{
			"saved": filepath.Join(t.TempDir(), "saved"),
			"url":   book.URL(),
			"plan":  written(t, "plan.ts", "interface A { b: string }\n\nfunction plan(a: A) { throw new Error('no ' + a.b) }\nplan({b: 'way'})\n"),
			"gone":  written(t, "x.js", "") + ".gone",
			"same":  written(t, "same.js", `console.log("one");Math.random()`),
			"draws": written(t, "draws.js", `console.log("one"); artifact("a.svg", "image/svg+xml", new Uint8Array(3)); Math.random()`),
			"other": written(t, "other.ts", `const kept: number = 7; console.log("two"); kept`),
			"never": strings.Repeat("ab", 32),
		}
	}
	for name, steps := range map[string][]step{
		"exit statuses": {
			{args: `run -e 1+1` + at, stdout: "2\n", stderr: "status: completed\nheap:   " + hash + "\n"},
			{args: `run -e console.log("one");console.error("two");undefined` + at, stdout: "one\n\\[ERROR\\] two\n", stderr: "status: completed\nheap:   " + hash + "\n"},
			{args: `run -e throw·new·Error("no")` + at, status: 1, stderr: "Error: no\n    at main.ts:1:7.*\nstatus: failed\nheap:   " + hash + "\n"},
			{args: `run -e throw·new·Error("timed·out")` + at, status: 1, stderr: "Error: timed out.*status: failed\n.*"},
			{args: `run -e while(true){} --timeout 1` + at, status: 4, stderr: "Execution timed out\nstatus: timed_out\n"},
			{args: `run` + at, status: 2, stderr: "daybook: nothing to run.*-e CODE.*\n"},
			{args: `run -e 1 $plan` + at, status: 2, stderr: "daybook: give a file or -e CODE, not both\n"},
			{args: `run $gone` + at, status: 2, stderr: "daybook: open $gone: no such file or directory\n"},
			{args: `run -e 1 --timeout 301` + at, status: 2, stderr: "daybook: --timeout must be 1 to 300, not (301|0)\n"},
			{args: `run -e 1 --timeout 0` + at, status: 2, stderr: "daybook: --timeout must be 1 to 300, not (301|0)\n"},
			{args: `run -e 1 --memory 9999` + at, status: 2, stderr: "daybook: --memory is 9999 MiB, 9743 MiB more than this server allows: it must be 1 to 256 MiB .*\n"},
			{args: `run -e 1 --heap zz` + at, status: 2, stderr: "daybook: .*heap.*\n"},
			{args: `run -e 1 --tag novalue` + at, status: 2, stderr: "daybook: tag \"novalue\" is not of the form KEY=VALUE\n"},
			{args: `run -e 1 --tag a=1 --tag a=2` + at, status: 2, stderr: "daybook: tag \"a\" is given twice\n"},
		},
		"sources": {
			{args: `run -` + at, stdin: "const n: number = 20\nn * 2.1", stdout: "42\n", stderr: "status.*"},
			{args: `run -` + at, stderr: "status: completed\nheap.*"}, // an empty script is a script too
			{args: `run $plan` + at, status: 1, stderr: "Error: no way\n    at plan \\(plan.ts:3:29\\)\n    at plan.ts:4:1.*status: failed\n.*"},
		},
		"heaps": {
			{args: `run -e let·n·=·1 --tag note=a;b,c=d --tag kind=table` + at, stderr: "status: completed\nheap:   (?P<heap>" + hash + ")\n"},
			{args: `run --heap $heap -e ++n` + at, stdout: "2\n", stderr: "status: completed\nheap:   (?P<next>" + hash + ")\n"},
			{args: `run --heap $never -e typeof·n` + at, status: 2, stderr: "daybook: --heap $never is not recorded; check the key: \"daybook heap list\" lists heaps\n"},
			{eventually: true, args: `heap tags $heap` + at, stdout: "kind=table\nnote=a;b,c=d\n"},
			{args: `heap find kind=table` + at, stdout: "HEAP +CREATED +TAGS\n$heap  20\\S+Z  kind=table note=a;b,c=d\n"},
			{args: `heap find kind=table kind=other` + at, status: 2, stderr: "daybook: tag \"kind\" is given twice\n"},
			{args: `heap find kind=none` + at, stdout: "HEAP  CREATED  TAGS\n"},
			{args: `heap find kind` + at, status: 2, stderr: "daybook: tag \"kind\" is not of the form KEY=VALUE\n"},
			{args: `heap find` + at, status: 2, stderr: "daybook: expected \"<tags>.*"},
			{args: `heap list` + at, stdout: "HEAP .*$next .*$heap .*kind=table note=a;b,c=d\n.*"},
			{args: `heap list --limit 1` + at, stdout: "HEAP +CREATED +TAGS\n" + hash + " .*\n", stderr: "There are more than 1; raise --limit to see them.\n"},
			{args: `heap list --limit 0` + at, stdout: "HEAP .*$next .*$heap .*"},
			{args: `heap find kind=table --limit 0` + at, stdout: "HEAP [^\n]*\n$heap [^\n]*\n"},
			{args: `heap list --limit=-1` + at, status: 2, stderr: "daybook: .*--limit is -1: it must be 0 or more\n.*"},
			{args: `heap tags $never` + at, status: 2, stderr: "daybook: Heap '$never' not found\n"},
			{args: `heap tags $never --history --json` + at, status: 2, stderr: "daybook: Heap '$never' not found\n"},
			{args: `heap tag $never kind=never` + at, stdout: "kind=never\n", stderr: "warning: no run has left heap $never; check the key: \"daybook heap list\" lists heaps\n"},
			{args: `heap tags $never` + at, stdout: "kind=never\n"},
			{args: `heap untag $never` + at, stdout: "ok\n"},
			{args: `heap tags $never` + at},
			{args: `heap show $next` + at, stdout: "heap +$next\n.*parent +$heap\n.*\nHEAP .*\n$next .*\n$heap .*\n"},
			{args: `heap show $next --json` + at, stdout: `\{"heap":"$next".*\}` + "\n"},
			{args: `heap show $next --globals` + at, stdout: "heap +$next\n.*\nHEAP .*\n$next .*\n$heap .*\n\nGLOBAL +KIND +TYPE +SIZE +VALUE\nn +lexical +number +- +2\n"},
			{args: `heap show $next --globals --json` + at, stdout: `\{"heap":"$next".*,"globals":\[\{"name":"n","kind":"lexical","type":"number","preview":"2","sha256":"` + hash + `"\}\]\}` + "\n"},
			{args: `heap show $never --globals` + at, status: 2, stderr: "daybook: .*$never.*\n"},
			{args: `heap diff $heap $next` + at, status: 1, stdout: " +GLOBAL +KIND +TYPE +SIZE +VALUE\n- +n +lexical +number +- +1\n\\+ +n +lexical +number +- +2\n"},
			{args: `heap diff $next $next` + at, stderr: "no global differs\n"},
			{args: `run --heap $next -e var·list=[1,2],text="a".repeat(200);function·f(){}` + at, stderr: "status: completed\nheap:   (?P<third>" + hash + ")\n"},
			{args: `run --heap $third -e n="2";text="a".repeat(199)+"b";let·added=new·Map` + at, stdout: "a+b\n", stderr: "status: completed\nheap:   (?P<fourth>" + hash + ")\n"},
			{args: `heap diff $third $fourth` + at, status: 1, stdout: " .*\n\\+ +added +lexical +Map +0 +Map\\(0\\) \\{\\}\n- +n +lexical +number +- +2\n\\+ +n +lexical +string +1 +'2'\n- +text +property +string +200 +…a+'\n\\+ +text +property +string +200 +…a+b'\n"},
			{args: `heap diff $fourth $third --json` + at, status: 1, stdout: `\{"added":\[\],"removed":\[\{"name":"added".*\],"changed":\[\{"a":\{"name":"n",.*"b":\{.*\],"uncompared":0,"partial":0\}` + "\n"},
			// The last of many globals differs, and one of the first pages is added.
			{args: `run -e for(let·i=1000;i<3600;i++)globalThis["v"+i]=i;1` + at, stdout: "1\n", stderr: "status: completed\nheap: +(?P<many>" + hash + ")\n"},
			{args: `run --heap $many -e v3599=0;globalThis.v1500b=1;1` + at, stdout: "1\n", stderr: "status: completed\nheap: +(?P<changed>" + hash + ")\n"},
			{args: `heap diff $many $many` + at, stderr: "no global differs\n"},
			{args: `heap diff $many $changed` + at, status: 1, stdout: " .*\n\\+ +v1500b +property +number +- +1\n- +v3599 +property +number +- +3599\n\\+ +v3599 +property +number +- +0\n"},
			{args: `heap diff $third $never` + at, status: 2, stderr: "daybook: .*$never.*\n"},
			{args: `heap diff $third` + at, status: 2, stderr: ".*expected \"<other>\".*"},
			{args: `heap show $never` + at, status: 2, stderr: "daybook: .*$never.*\n"},
			{args: `heap tag $heap kind=b only=this=that` + at, stdout: "kind=b\nonly=this=that\n"},
			{args: `heap tag $heap kind=b only=this=that --json` + at, stdout: `\{"ok":true\}` + "\n"},
			{args: `heap tags $heap --history` + at, stdout: `EVENT +TIME +EDIT +BY +TAGS AFTER IT\n(?s:.*)\n\d+ +\S+Z +set +anonymous +kind=b only=this=that\n`},
			{args: `heap tags $heap --history --json` + at, stdout: `\{"tags":\{"kind":"b","only":"this=that"\},"history":\[\{.*"edit":"set","tags":\{"kind":"b","only":"this=that"\}.*\}\]\}` + "\n"},
			{args: `heap tags $heap --json` + at, stdout: `\{"tags":\{"kind":"b","only":"this=that"\}\}` + "\n"},
			{args: `heap tag $heap` + at, status: 2, stderr: ".*expected \"<tags>.*"},
			{args: `heap untag $heap only` + at, stdout: "ok\n"},
			{args: `heap tags $heap` + at, stdout: "kind=b\n"},
			{args: `heap untag $heap --json` + at, stdout: `\{"ok":true\}` + "\n"},
			{args: `heap tags $heap` + at},
			{args: `heap tag nothash a=b` + at, status: 2, stderr: "daybook: .*nothash.* the beginning of the id of a heap\n"},
		},
		"artifacts": {
			{args: `run --detach --heap none -e artifact("../a·b","text/html","<b>");artifact("c","a/b","old");artifact("c","a/b","new");typeof·WebAssembly` + at, stdout: "(?P<id>\\S+)\n"},
			{args: `exec watch $id` + at, stdout: "object\n", stderr: "status: completed\n"},
			{args: `exec artifacts $id` + at, stdout: "ARTIFACT +NAME +TYPE +BYTES +SHA-256 +REPLACED\n1 +\"../a b\" +text/html +3 +[0-9a-f]{12} +-\n2 +\"c\" +a/b +3 +[0-9a-f]{12} +by a later one\n3 +\"c\" .*\n"},
			{args: `exec artifacts $id --save $saved --json` + at, stdout: `\{"artifacts":\[\{"number":1,.*\}\]\}` + "\n", stderr: "saved $saved/.._a b\nsaved $saved/c\n"},
			{args: `exec artifacts $id --save $saved` + at, status: 1, stderr: "daybook: save the artifacts: $saved/.._a b exists, and nothing was written; give --overwrite to replace it, or choose another directory\n"},
			{args: `exec artifacts $id --save $saved --overwrite` + at, stdout: "ARTIFACT .*\n", stderr: "saved $saved/.._a b\nsaved $saved/c\n"},
			{args: `exec artifacts $id --overwrite` + at, status: 2, stderr: "daybook: .*--overwrite needs --save DIR\n.*"},
			{args: `exec show $id` + at, stdout: "execution .*\nheap +none: it restores and leaves no heap\n.*artifacts +3; daybook exec artifacts .* lists them\n.*artifact created: \"../a b\", text/html, 3 bytes\n.*"},
			{args: `run --heap none --tag a=b -e 1` + at, status: 2, stderr: "daybook: --tag cannot be given together with heap \"none\".*\n"},
		},
		"json": {
			{args: `run --json -e console.log("a");({b:1})` + at, stdout: `\{"line":1,"level":"log","time":"[^"]+","text":"a"\}\n\{"execution_id":"(?P<id>[^"]+)","status":"completed".*\}\n`},
			{args: `run --json -e throw·1` + at, status: 1, stdout: `\{"execution_id":.*"status":"failed".*\}\n`},
			{args: `run --json --detach -e 1` + at, stdout: `\{\n  "execution_id": "(?P<detached>[^"]+)"\n\}\n`},
			{args: `exec watch $detached` + at, stdout: "1\n", stderr: "status: completed\n.*"},
			{args: `exec get $id --json` + at, stdout: `\{"execution_id":"$id","status":"completed","result":"\{\\"b\\":1\}".*\}\n`},
			{args: `exec output $id --json` + at, stdout: `\{"execution_id":"$id","data":"a\\n","start_line":1.*"status":"completed"\}\n`},
			{args: `exec list --json --limit 1` + at, stdout: `\{"executions":\[\{"execution_id":.*\}\].*\}\n`},
			{args: `heap list --json --limit 1` + at, stdout: `\{"results":\[\{"heap":.*\}\].*\}\n`},
			{args: `session list --json` + at, stdout: `\{"sessions":\[.*\]\}\n`},
		},
		"executions": {
			{args: `run --detach -e console.log("début");for(let·i=0;i<3;i++)console.log(i);"end"//marker` + at, stdout: "(?P<id>\\S+)\n"},
			{args: `exec watch $id` + at, stdout: "début\n0\n1\n2\nend\n", stderr: "status: completed\nheap:   " + hash + "\n"},
			{args: `exec output $id` + at, stdout: "début\n0\n1\n2\n"},
			{args: `exec get $id` + at, stdout: "execution_id +$id\nstatus +completed\nresult +end\n.*error +-\n.*"},
			{args: `exec text $id` + at, stdout: "end\n"},
			{args: `exec text $id code --json` + at, stdout: `"console.log\(\\"début\\"\).*"\n`},
			{args: `exec text $id error` + at, status: 2, stderr: "daybook: .*has no error; its status is completed\n"},
			{args: `exec events $id` + at, stdout: `\{[^\n]*"type":"daybook.execution.requested.v1"[^\n]*\}\n\{[^\n]*started.v1[^\n]*\}\n(\{[^\n]*output.v1[^\n]*\}\n)+\{[^\n]*completed.v1[^\n]*\}\n`},
			{args: `exec list --limit 100` + at, stdout: "EXECUTION +STATUS +STARTED +TOOK +SESSION +CODE\n.*$id +completed +20\\S+Z +\\d\\S* m?s +- +console\\.log.*"},
			{args: `exec list --limit 1` + at, stdout: "EXECUTION .*", stderr: "(There are more than 1; raise --limit to see them.\n)?"},
			{args: `exec list MARKER --limit 0` + at, stdout: "EXECUTION +STATUS .*\n$id .*"},
			{args: `exec list marker --since 1h --limit 1 --json` + at, stdout: `\{"executions":\[\{"execution_id":"$id".*"code_preview":"console.log.*i<3.*\].*\}\n`},
			{args: `exec list marker --since 2000-01-01 --status failed` + at, stdout: "EXECUTION [^\n]*\n"},
			{args: `exec list --tag never=had` + at, stdout: "EXECUTION [^\n]*\n"},
			{args: `exec list --since later` + at, status: 2, stderr: "daybook: --since: .*\"later\" is not a time such as .*"},
			{args: `exec show $id` + at, stdout: "execution  $id\nstatus     completed, .*\ncode       main.ts, 1 line\n.*accepted by anonymous over http\n.*started attempt 1, from a fresh isolate\n.*   1 │ début\n.*   4 │ 2\n.*completed, .*\n +result end\n +heap " + hash + "\n"},
			{args: `exec show $id --lines 2` + at, stdout: ".*   1 │ début\n +… lines 2 to 3; daybook exec output $id\n.*   4 │ 2\n.*"},
			{args: `exec show $id --json` + at, stdout: `\{.*"events": \[.*"execution": \{.*`},
			{args: `events tail --no-follow --execution $id` + at, stdout: `\d+ +20\S+Z  execution.requested +\S+ by anonymous over http: console.*\n\d+ .*execution.output .* line 1: début.*\n\d+ .*execution.completed +\S+ result end; heap [0-9a-f]{12}\n`},
			{args: `exec list --status nonsense` + at, status: 2, stderr: "daybook: --status must be running, .*\n"},
			{args: `exec cancel $id` + at, status: 2, stderr: "daybook: .*\n"},
			{args: `exec get nosuch` + at, status: 2, stderr: "daybook: .*nosuch.*\n"},
			{args: `exec watch nosuch` + at, status: 2, stderr: "daybook: .*nosuch.*\n"},
			{args: `exec output a/b` + at, status: 2, stderr: "daybook: .*\n"},
			{args: `run --detach -e while(true){}` + at, stdout: "(?P<loop>\\S+)\n"},
			{args: `exec cancel $loop` + at, stdout: "cancelled\n"},
			{args: `exec watch $loop` + at, status: 3, stderr: "Cancelled by user\nstatus: cancelled\n"},
			{args: `run --detach -e while(true){}` + at, stdout: "(?P<loop>\\S+)\n"},
			{args: `exec cancel $loop --json` + at, stdout: `\{"ok":true\}` + "\n"},
			{args: `run -e "same" --idempotency-key k1 --detach` + at, stdout: "(?P<once>\\S+)\n"},
			{args: `run -e "same" --idempotency-key k1 --detach` + at, stdout: "$once\n"},
			{args: `run -e "other" --idempotency-key k1` + at, status: 2, stderr: "daybook: .*\n"},
		},
		"replays": {
			{args: `run --detach -e console.log("one");Math.random()` + at, stdout: "(?P<id>\\S+)\n"},
			{args: `exec watch $id` + at, stdout: "one\n.*", stderr: "status: completed\n.*"},
			{args: `replay $id` + at, stdout: "$id  identical \\(output, calls, status, javascript, result, heap\\) in .*\n"},
			{args: `replay $id --json` + at, stdout: `\{"execution_id":"$id","verdict":"identical","stopped":false,"compared":\["output",.*\}\n`},
			{args: `run --session again -e throw·1` + at, status: 1, stderr: "Uncaught 1\n.*"},
			{args: `run --session again -e while(true){} --timeout 1` + at, status: 4, stderr: "Execution timed out\n.*"},
			{eventually: true, args: `replay --session again --parallel 3` + at, stdout: "2 runs: 2 identical\n"},
			{args: `replay --session nope` + at, status: 2, stderr: "daybook: .*nope.*\"daybook session list\" lists sessions\n"},
			{args: `replay --session nope --since 1h --json` + at, status: 2, stderr: "daybook: .*nope.*\n"},
			{args: `session open no·runs·yet` + at, stdout: ".*", stderr: ".*"},
			{args: `replay --session no·runs·yet` + at, stdout: "0 runs: 0 identical\n", stderr: "No run of session \"no runs yet\" has ended: there is nothing to replay.\n"},
			{args: `replay --since 2100-01-01T00:00:00Z` + at, stdout: "0 runs: 0 identical\n", stderr: "No run has ended of those accepted since 2100-01-01T00:00:00Z: there is nothing to replay.\n"},
			{eventually: true, args: `events tail --no-follow --execution $id --type daybook.execution.replayed.v1` + at, stdout: "(\\d+ .*execution.replayed +\\S+ identical, by anonymous over http\n){2}"},
			{eventually: true, args: `exec show $id` + at, stdout: "(?s:.*)replay +identical at \\S+Z\n(?s:.*)"},
			{args: `replay $id --step` + at, stdout: "TIME +STEP +WHAT +TEXT\n\\+0 ms +output +log .*\n(?s:.*)end +completed +0\\.\\d+\n$id  identical .*\n"},
			{args: `replay $id --step --json` + at, stdout: `\{"kind":"output","offset_ms":0,"time":"\S+Z","line":1,"name":"log","text":".*\n(?s:.*)\{"kind":"end",.*\n\{"execution_id":"$id","verdict":"identical",.*\}\n`},
			{args: `replay $id --what-if $same` + at, stdout: "$id  no difference in .*\nend\n  completed \\d.*\noutput\n  1 equal line\nglobals\n", stderr: "no global differs\n"},
			{args: `replay $id --what-if $other` + at, status: 1, stdout: "$id  different in .*\nend\n- completed 0\\.\\d+\n\\+ completed 7\noutput\n- one\n\\+ two\nglobals\n +GLOBAL .*\n\\+ +kept +lexical .*\n"},
			{args: `replay $id --what-if $other --json` + at, status: 1, stdout: `\{"execution_id":"$id","executed":true,"equal":false,.*"op":"removed","recorded_line":1,"level":"log","text":"one".*\}\n`},
			{args: `replay $id --what-if $draws` + at, status: 1, stdout: "$id  different in .*\nend\n  completed \\d.*\noutput\n  1 equal line\nartifacts\n\\+ 1 \"a.svg\" image/svg\\+xml, 3 bytes, SHA-256 [0-9a-f]{12}\nglobals\n", stderr: "no global differs\n"},
			{args: `run --detach $draws` + at, stdout: "(?P<drawn>\\S+)\n"},
			{args: `exec watch $drawn` + at, stdout: "one\n.*", stderr: "status: completed\n.*"},
			{args: `replay $drawn --step` + at, stdout: "(?s:.*)artifact +\"a.svg\" #1 +image/svg\\+xml, 3 bytes\n(?s:.*)"},
			{args: `replay $drawn --what-if $draws` + at, stdout: "$drawn  no difference in .*\nend\n  .*\noutput\n  1 equal line\nartifacts\n  1 equal artifact\nglobals\n", stderr: "no global differs\n"},
			{args: `replay $id --what-if $gone` + at, status: 2, stderr: "daybook: .*no such file.*\n"},
			{args: `replay --all --what-if $other` + at, status: 2, stderr: "daybook: .*--what-if takes the inputs of one run.*\n.*"},
			{args: `replay $id --step --what-if $other` + at, status: 2, stderr: "daybook: .*not both.*\n.*"},
			{args: `replay --all --step` + at, status: 2, stderr: "daybook: .*--step shows one run.*\n.*"},
			{args: `replay` + at, status: 2, stderr: "daybook: .*name the runs to replay.*\n.*"},
			{args: `replay $id --all` + at, status: 2, stderr: "daybook: .*not both.*\n.*"},
			{args: `replay $id --parallel 0` + at, status: 2, stderr: "daybook: .*--parallel is 0.*\n.*"},
			{args: `replay 019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3` + at, status: 2, stderr: "daybook: .*not found\n"},
			{args: `run --detach -e while(true){}` + at, stdout: "(?P<loop>\\S+)\n"},
			{args: `replay $loop` + at, status: 2, stderr: "daybook: .*has not ended.*\n"},
			{args: `exec cancel $loop` + at, stdout: "cancelled\n"},
			{args: `replay $loop` + at, stdout: "$loop  identical .*, up to where the run was stopped\n"},
		},
		"sessions": {
			{args: `run -e let·a·=·1;·//·first --session a/b·c` + at, stderr: "status: completed\nheap:   (?P<heap>[0-9a-f]{12})[0-9a-f]{52}\n"},
			{args: `run -e throw·0 --session a/b·c` + at, status: 1, stderr: "Uncaught 0\nstatus.*"},
			{eventually: true, args: `session list` + at, stdout: "KIND +NAME +SESSION +RUNS +HEAP +LAST USED\n.*named +a/b c +[0-9a-f]{12} +2 +[0-9a-f]{12} +\\S+Z\n.*"},
			{eventually: true, args: `session log a/b·c` + at, stdout: "INDEX +TIME +STATUS +HEAP +ARTIFACTS +CODE\n\\d +\\S+Z +completed +$heap +0 +let a = 1; // first\n\\d +\\S+Z +failed +\\S+ +0 +throw 0\n"},
			{args: `session log nope` + at, status: 2, stderr: "daybook: session \"nope\" has no ended run; \"daybook session list\" lists sessions\n"},
			{args: `session log nope --json` + at, stdout: `\{"entries":\[\]\}\n`},
			{args: `session log a/b·c --json` + at, stdout: `\{"entries":\[.*\],"session":\{.*"kind":"named".*\}\}\n`},
			{args: `exec list --session a/b·c` + at, stdout: "EXECUTION [^\n]*\n[^\n]* failed [^\n]*\n[^\n]* completed [^\n]*\n"},
			{eventually: true, args: `events tail --json --no-follow --session a/b·c --type daybook.session.entry_recorded.v1` + at, stdout: `(\{[^\n]*entry_recorded.v1[^\n]*\}\n){2}`},
		},
		"ledger": {
			{args: `run --json -e 1` + at, stdout: `\{"execution_id":"(?P<id>[^"]+)".*"seq":(?P<seq>\d+),[^\n]*\}\n`},
			{args: `events tail --json --no-follow --execution $id` + at, stdout: `\{[^\n]*requested.v1[^\n]*\}\n\{[^\n]*started.v1[^\n]*\}\n\{[^\n]*completed.v1[^\n]*\}\n`},
			{args: `events tail --json --no-follow --execution $id --after $seq` + at},
			{args: `events tail --json --no-follow --execution $id --type daybook.execution.requested.v1 --type daybook.execution.completed.v1` + at, stdout: `\{[^\n]*requested.v1[^\n]*\}\n\{[^\n]*completed.v1[^\n]*\}\n`},
			{args: `events tail --json --no-follow --type nosuch` + at, status: 2, stderr: "daybook: there is no event type \"nosuch\".*\n"},
			{args: `events tail --json --no-follow --after 99999999` + at, status: 2, stderr: "daybook: .*ends at.*\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, known(t), steps)
		})
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	file := written(t, "data", "")
	play(t, map[string]string{"file": file}, []step{
		{args: `run -e 1 --bogus`, status: 2, stderr: "daybook: unknown flag --bogus\nRun \"daybook run --help\" for usage.\n"},
		{args: `runn`, status: 2, stderr: "daybook: unexpected argument runn, did you mean \"daybook run\"\\?\nRun \"daybook --help\" for usage.\n"},
		{args: `hep list`, status: 2, stderr: "daybook: unexpected argument hep, did you mean \"daybook heap\"\\?\n.*"},
		{args: `exec lsit`, status: 2, stderr: "daybook: unexpected argument lsit, did you mean \"daybook exec list\"\\?\n.*"},
		{args: `logs`, status: 2, stderr: "daybook: unexpected argument logs, did you mean \"daybook exec output\"\\?\n.*"},
		{args: `watch`, status: 2, stderr: "daybook: unexpected argument watch, did you mean \"daybook exec watch\"\\?\n.*"},
		{args: `$file`, status: 2, stderr: "daybook: unexpected argument $file, did you mean \"daybook run $file\"\\?\n.*"},
		{args: `help xyzzy`, status: 2, stderr: "daybook: unexpected argument xyzzy\n.*"},
		{args: `--version`, stdout: "daybook \\S+\n"},
		{args: `run -e`, status: 2, stderr: "daybook: --eval needs a value\nRun \"daybook run --help\" for usage.\n"},
		{args: `exec list --tag`, status: 2, stderr: "daybook: --tag needs a value\n.*"},
		{args: `exec list --since -1h`, status: 2, stderr: "daybook: --since needs a value, and \"-1h\" reads as a flag; write --since=\"-1h\" if it is the value\n.*"},
		{args: `exec list --session --json`, status: 2, stderr: "daybook: --session needs a value, and \"--json\" reads as a flag; .*"},
		{args: `exec list --limit x`, status: 2, stderr: "daybook: --limit: \"x\" is not a whole number\n.*"},
		{args: `events tail --after x`, status: 2, stderr: "daybook: --after: \"x\" is not a whole number of 0 or more\n.*"},
		{args: `serve --limit-requests x`, status: 2, stderr: "daybook: --limit-requests: \"x\" is not a number\n.*"},
		{args: `heap collect --older-than x`, status: 2, stderr: "daybook: --older-than: \"x\" is not a duration such as 500ms, 90s or 2h\n.*"},
		{args: `xyzzy`, status: 2, stderr: "daybook: unexpected argument xyzzy\nRun .*"},
		{args: `exec`, status: 2, stderr: "daybook: expected one of \"list\".*"},
		{args: `exec get`, status: 2, stderr: "daybook: expected \"<id>\".*"},
		{args: `run -e 1 --server http://127.0.0.1:1`, status: 5, stderr: "daybook: no server answers at http://127.0.0.1:1: start one with \"daybook serve\", or name another with --server\n"},
		{args: `run -e 1 --server localhost:8080`, status: 2, stderr: "daybook: .*--server \"localhost:8080\": give a URL such as http://127.0.0.1:8080\n.*"},
		{args: `run -e 1 --timeout soon`, status: 2, stderr: "daybook: --timeout: .*\"soon\".*"},
		{args: `serve --data-dir $file --http-port 1 --http-addr 127.0.0.1:0`, status: 2, stderr: "daybook: --http-(port|addr) and --http-(port|addr) can't be used together.*"},
		{args: `serve --data-dir $file --execution-timeout 400`, status: 2, stderr: "daybook: .*--execution-timeout is 400: the range is 1 to 300.*\n.*"},
		{args: `serve --data-dir $file --execution-timeout 0`, status: 2, stderr: "daybook: .*--execution-timeout is 0.*"},
		{args: `mcp --data-dir $file --max-concurrent-executions 0`, status: 2, stderr: "daybook: .*--max-concurrent-executions is 0.*"},
		{args: `mcp --data-dir $file --heap-memory-max 64 --heap-memory-ceiling 32`, status: 2, stderr: "daybook: .*--heap-memory-ceiling is 32.*--heap-memory-max, which is 64\n.*"},
		{args: `mcp --data-dir $file --drain-wait -1s`, status: 2, stderr: "daybook: .*--drain-wait.*"},
		{args: `serve --data-dir $file --sandbox off`, status: 2, stderr: "daybook: --sandbox must be one of .*"},
		{args: `serve --data-dir $file --jit always`, status: 2, stderr: "daybook: --jit must be one of .*"},
		{args: `serve --data-dir $file --worker-reuse always`, status: 2, stderr: "daybook: --worker-reuse must be one of .*"},
		{args: `serve --data-dir $file --worker-max-runs 0`, status: 2, stderr: "daybook: .*--worker-max-runs is 0: it must be 1 or more.*\n.*"},
		{args: `mcp --data-dir $file --worker-max-age 0s`, status: 2, stderr: "daybook: .*--worker-max-age is 0s: it must be more than 0.*\n.*"},
		{args: `mcp --data-dir $file --log-level loud`, status: 2, stderr: "daybook: --log-level must be one of .*"},
		{args: `serve --data-dir $file`, status: 2, stderr: "daybook: take the data directory: .*$file.*\n"},
		{args: `serve --data-dir $file/x --http-addr 0.0.0.0:0`, status: 2, stderr: "daybook: open the addresses: .*no authentication is configured.*\n"},
		{args: `serve --data-dir $file/x --http-addr 127.0.0.1:0`, status: 2, stderr: "daybook: .*not a directory\n"},
		{args: `serve --data-dir $file.new --http-addr 127.0.0.1:0 --nats-addr off --audit-key $file`, status: 2, stderr: "daybook: open the audit log: --audit-key: .*$file.*\n"},
		{args: `mcp --data-dir $file`, status: 2, stderr: "daybook: --data-dir $file is a file; name a directory\n"},
		{args: `acp --data-dir $file`, status: 2, stderr: "daybook: --data-dir $file is a file; name a directory\n"},
		{args: `rebuild --data-dir $file.nowhere`, status: 2, stderr: "daybook: there is no ledger in $file.nowhere: .*\n"},
		{args: `completion tcsh`, status: 2, stderr: "daybook: .*must be one of .*bash.*"},
	})
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	book := serve(t)
	known := map[string]string{"url": book.URL(), "dir": book.DataDir()}
	play(t, known, []step{
		{args: `run -e 1` + at, stdout: "1\n", stderr: "status.*"},
		{args: `rebuild --data-dir $dir`, status: 1, stderr: "daybook: $dir: the data directory is in use by another process \\(process \\d+\\); stop it, or choose another --data-dir\n"},
	})
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	play(t, known, []step{
		{args: `rebuild --data-dir $dir`, stdout: "Rebuilt the projections from \\d+ events in \\S+\\.\n"},
		{args: `rebuild --data-dir $dir --from-start`, stdout: "Rebuilt the projections from \\d+ events in \\S+\\.\nprojections.db as of \\d+ is equal: \\d+ rows\\.\n"},
		{args: `rebuild --data-dir $dir --from-start --without-keys`, status: 2, stderr: "daybook: --(from-start|without-keys) and --(from-start|without-keys) can't be used together.*"},
		{args: `run -e 1` + at, status: 5, stderr: "daybook: no server answers.*"},
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	play(t, map[string]string{}, []step{
		{args: `version`, stdout: `daybook +\S+\nV8 +\d+\.\d+\.\S+\nengine +\S+\nsnapshot format +\d+\nprojection schema +\d+\nevent types +\d+, CloudEvents 1\.0\n`},
	})
	got := daybook("", "version", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.status != 0 {
		t.Fatalf("%+v: %v", got, err)
	}
	for _, name := range []string{"daybook", "v8", "engine_id", "snapshot_format", "projection_schema", "go"} {
		if v[name] == nil || v[name] == "" || v[name] == 0.0 {
			t.Errorf("version --json has %s %v", name, v[name])
		}
	}
}

// The help of commands.
func TestHelp(t *testing.T) {
	t.Parallel()
	for args, words := range map[string][]string{
		"":                 {"Usage: daybook <command>", `Start with "daybook serve"`, "completion"},
		"help":             {"Usage: daybook <command>", "completion"},
		"help run":         {"Usage: daybook run"},
		"help exec list":   {"Usage: daybook exec list", "--status=STATUS"},
		"--help":           {"Usage: daybook <command>", "serve ", "mcp ", "run ", "exec ", "heap ", "session ", "events ", "rebuild ", "version "},
		"run --help":       {"Usage: daybook run", "Exit status: 0 completed, 1 failed", "http://127.0.0.1:8080,", "($DAYBOOK_SERVER)", "--data-dir=DIR", "-e, --eval=CODE"},
		"serve --help":     {"--http-addr=HOST:PORT", "$DAYBOOK_DATA_DIR", "(default 10s"},
		"mcp --help":       {`"args": ["mcp"]`},
		"heap --help":      {"List the heaps that runs left"},
		"heap list -h":     {"--limit=N", "(default 20"},
		"completion -h":    {"source <(daybook completion bash)"},
		"exec watch -h":    {"Usage: daybook exec watch <id>"},
		"events tail -h":   {"--no-follow"},
		"rebuild --help":   {"--data-dir=DIR"},
		"session log -h":   {"<name>"},
		"exec --help":      {"cancel"},
		"version --help":   {"--json"},
		"heap untag -h":    {"Keys to delete. Default: all."},
		"exec list --help": {"--status=STATUS"},
	} {
		got := daybook("", strings.Fields(args)...)
		if got.status != 0 || got.err != "" {
			t.Errorf("daybook %s: exit status %d, stderr %s", args, got.status, got.err)
		}
		for _, w := range words {
			if !strings.Contains(got.stdout, w) {
				t.Errorf("the help of daybook %s lacks %q:\n%s", args, w, got.stdout)
			}
		}
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	raw, err := cli.Reference()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## daybook run\n", "## daybook heap list\n", "Exit status: 0 completed", "| `--server URL` | Server URL. Default: http://127.0.0.1:8080, or the process that owns the data directory. |  | DAYBOOK_SERVER |"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the reference lacks %q", want)
		}
	}
}

// A range that no export can have is refused before a request is sent.
func TestExportRanges(t *testing.T) {
	t.Parallel()
	const form = " is not a position: give a whole number of 1 or more, such as 42; \"daybook events tail\" shows positions\n.*"
	play(t, map[string]string{}, []step{
		{args: `events export x --from 5 --to 2`, status: 2, stderr: "daybook: .*--from is 5 and --to is 2: give the smaller position as --from; both are included\n.*"},
		{args: `events export x --from 0`, status: 2, stderr: `daybook: --from: "0"` + form},
		{args: `events export x --to 0`, status: 2, stderr: `daybook: --to: "0"` + form},
		{args: `events export x --to=-1`, status: 2, stderr: `daybook: --to: "-1"` + form},
		{args: `events export x --from 1.5`, status: 2, stderr: `daybook: --from: "1.5"` + form},
		{args: `events export x --from 99999999999999999999999`, status: 2, stderr: `daybook: --from: "9{23}"` + form},
		{args: `events export x --since yesterday`, status: 2, stderr: "daybook: --since: \"yesterday\" is not a time such as .*"},
		{args: `events export x --since 2026-11-22 --until 2026-11-21`, status: 2, stderr: "daybook: .*--until is before --since: exchange them\n.*"},
		{args: `serve --fair-after 10`, status: 2, stderr: "daybook: --fair-after: \"10\" is not a duration such as 500ms, 90s or 2h\n.*"},
	})
}
