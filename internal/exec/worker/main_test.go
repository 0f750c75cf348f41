package worker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
	"daybook/internal/exec/worker"
)

func TestMain(m *testing.M) {
	if os.Args[0] == v8.WorkerArg0 {
		attack() // locked down like a worker, but without a pipe to serve
	}
	if os.Args[0] == caller32 {
		if makeInterrupt() == nil {
			call32()
			os.Exit(0)
		}
		os.Exit(1)
	}
	if os.Args[0] == "hostile-worker" {
		misbehave(os.Args[1])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// misbehave acts as a worker that a script has taken over. It completes the handshake, accepts one
// task and then does what it is asked to.
func misbehave(how string) {
	in, out := new(worker.FrameReader), os.Stdout
	in.Reset(os.Stdin)
	send := func(t byte, payload string) {
		var b bytes.Buffer
		if err := worker.WriteFrame(&b, 'X', []byte(payload)); err != nil {
			os.Exit(3)
		}
		raw := b.Bytes()
		raw[4] = t
		if _, err := out.Write(raw); err != nil {
			os.Exit(4)
		}
	}
	hang := func() { time.Sleep(time.Hour) } // until killed
	end := func(changes string) string {
		header := map[string]any{
			"end": "completed", "has_text": true, "truncated": false, "text_size": 1, "heap_size": 4,
			"transpiled_sha256": strings.Repeat("ab", 32), "cpu_micros": 1, "peak_heap": 1,
		}
		if err := json.Unmarshal([]byte(changes), &header); err != nil {
			os.Exit(5)
		}
		b, _ := json.Marshal(header)
		return string(b)
	}

	call := func(number, size int) string {
		return fmt.Sprintf(`{"number":%d,"server":"s","tool":"t","size":%d}`, number, size)
	}
	artifact := func(name, mime string, size int) string {
		b, _ := json.Marshal(map[string]any{"name": name, "mime": mime, "at_micros": 0, "size": size})
		return string(b)
	}
	if how == "never ready" {
		hang()
	}
	if _, _, err := in.Next(); err != nil {
		os.Exit(6)
	}
	layers, problem := sandbox.Required(true), ""
	switch how {
	case "without landlock":
		layers = slices.DeleteFunc(layers, func(l string) bool { return l == sandbox.Landlock })
	case "without a filter":
		layers, problem = slices.DeleteFunc(layers, func(l string) bool { return l == sandbox.Seccomp || l == sandbox.NoExecutableMemory }), "no filter here"
	case "with an unknown layer":
		layers = append(layers, "\x1b[2J")
	}
	ready, _ := json.Marshal(map[string]any{"engine": v8.CurrentEngine(), "layers": layers, "problem": problem})
	if how == "not ready" {
		send('L', "x")
		hang()
	}
	switch how {
	case "huge base heap":
		ready, _ = json.Marshal(map[string]any{"engine": v8.CurrentEngine(), "layers": layers, "base_size": 1 << 40})
	case "more base heap than announced", "less base heap than announced":
		ready, _ = json.Marshal(map[string]any{"engine": v8.CurrentEngine(), "layers": layers, "base_size": 5})
	}
	send('R', string(ready))
	switch how {
	case "more base heap than announced":
		send('D', "heaps!")
		hang()
	case "less base heap than announced":
		send('D', "heap")
		os.Exit(10)
	}
	// The header, the tool servers and the code.
	bodies := 2
	if (strings.Contains(how, "call") && !strings.Contains(how, "globals")) || strings.Contains(how, "argument") || strings.Contains(how, "wait") {
		bodies = 3
	}
	for range bodies {
		if _, _, err := in.Next(); err != nil {
			os.Exit(0)
		}
	}
	if how == "dies before accepting" {
		os.Exit(9)
	}
	if how == "has no memory for its task" {
		fmt.Fprintln(os.Stderr, "fatal error: runtime: cannot allocate memory")
		os.Exit(2)
	}
	if how == "sends lines before accepting" {
		send('E', end("{}"))
		hang()
	}
	send('A', "")
	line := string(worker.AppendLine(nil, 0, 0, false, []byte("x")))
	switch how {
	case "garbage":
		io.WriteString(out, strings.Repeat("\xff", 100))
	case "oversized frame":
		out.Write([]byte{0, 0x20, 0, 0, 'L'})
	case "empty frame":
		out.Write([]byte{0, 0, 0, 0, 'L'})
	case "calls a tool that is not offered":
		send('C', `{"number":1,"server":"s","tool":"other","size":2}`)
	case "calls a server without a name":
		send('C', `{"number":1,"server":"","tool":"t","size":2}`)
	case "repeats a call":
		send('C', call(1, 2))
		send('D', "{}")
		send('C', call(1, 2))
	case "skips a call":
		send('C', call(2, 2))
	case "calls with huge arguments":
		send('C', call(1, worker.MaxArguments+1))
	case "calls with no arguments":
		send('C', call(1, 0))
	case "calls with arguments that are not UTF-8":
		send('C', call(1, 2))
		send('D', "\xff\xff")
	case "more arguments than announced":
		send('C', call(1, 2))
		send('D', "{}}")
	case "lines among arguments":
		send('C', call(1, 2))
		send('L', line)
	case "more calls at a time":
		for n := range 17 {
			send('C', call(n+1, 2))
			send('D', "{}")
		}
	case "artifact without a name":
		send('G', artifact("", "a/b", 0))
	case "artifact with a control character in its name":
		send('G', artifact("a\u0000b", "a/b", 0))
	case "artifact with a long name":
		send('G', artifact(strings.Repeat("n", events.ArtifactMaxName+1), "a/b", 0))
	case "artifact with a malformed type":
		send('G', artifact("n", "a/b\r\nx: y", 0))
	case "artifact of a negative size":
		send('G', artifact("n", "a/b", -1))
	case "huge artifact":
		send('G', artifact("n", "a/b", events.ArtifactMaxBytes+1))
	case "artifact at an impossible time":
		send('G', `{"name":"n","mime":"a/b","at_micros":9223372036854775807,"size":0}`)
	case "artifact that is not JSON":
		send('G', "\xff")
	case "artifact larger than announced":
		send('G', artifact("n", "a/b", 2))
		send('D', "123")
	case "lines in an artifact":
		send('G', artifact("n", "a/b", 2))
		send('D', "1")
		send('L', line)
	case "end in an artifact":
		send('G', artifact("n", "a/b", 2))
		send('E', end("{}"))
	case "call in an artifact":
		send('G', artifact("n", "a/b", 2))
		send('C', call(1, 2))
	case "empty data in an artifact":
		send('G', artifact("n", "a/b", 2))
		send('D', "")
	case "artifact among arguments":
		send('C', call(1, 2))
		send('G', artifact("n", "a/b", 0))
	case "artifact after the end":
		send('E', end("{}"))
		send('G', artifact("n", "a/b", 0))
	case "more artifacts":
		for range events.ArtifactMaxCount + 1 {
			send('G', artifact("n", "a/b", 0))
		}
	case "artifacts of too many bytes":
		piece := strings.Repeat("x", 1<<19)
		for range events.ArtifactMaxTotal/events.ArtifactMaxBytes + 1 {
			send('G', artifact("n", "a/b", events.ArtifactMaxBytes))
			for range events.ArtifactMaxBytes / len(piece) {
				send('D', piece)
			}
		}
	case "waits for no call":
		send('W', `{"timed":false,"due_micros":0}`)
	case "waits until an invalid time":
		send('C', call(1, 2))
		send('D', "{}")
		send('W', `{"timed":true,"due_micros":9223372036854775807}`)
	case "reports a timer that is not asked for":
		send('F', `{"at_micros":1,"kind":0,"delay_millis":1,"name":"f"}`)
	case "counts timers that are not asked for":
		send('E', end(`{"timers_fired":1}`))
	case "timer at an invalid time":
		send('F', `{"at_micros":9223372036854775807,"kind":0,"delay_millis":1,"name":"f"}`)
	case "timer of an unknown kind":
		send('F', `{"at_micros":1,"kind":3,"delay_millis":1,"name":"f"}`)
	case "timer with a negative delay":
		send('F', `{"at_micros":1,"kind":0,"delay_millis":-1,"name":"f"}`)
	case "timer with a long name":
		send('F', fmt.Sprintf(`{"at_micros":1,"kind":0,"delay_millis":1,"name":"%s"}`, strings.Repeat("f", 129)))
	case "timer with unknown members":
		send('F', `{"at_micros":1,"kind":0,"delay_millis":1,"name":"f","more":1}`)
	case "too many timers":
		for range 10001 {
			send('F', `{"at_micros":1,"kind":0,"delay_millis":1,"name":"f"}`)
		}
	case "counts fewer timers than reported":
		send('F', `{"at_micros":1,"kind":0,"delay_millis":1,"name":"f"}`)
		send('E', end(`{"timers_fired":0}`))
	case "calls after the end":
		send('E', end("{}"))
		send('C', call(1, 2))
	case "completes with a call pending":
		send('C', call(1, 2))
		send('D', "{}")
		send('E', end(`{"end": "completed"}`))
	case "writes after a request to stop":
		send('L', line)
		if _, _, err := in.Next(); err != nil {
			os.Exit(8)
		}
		send('L', string(worker.AppendLine(nil, 0, 0, false, []byte("last"))))
		send('E', end(`{"end": "terminated", "has_text": false, "text_size": 0, "heap_size": 0}`))
	case "lists globals with lines":
		send('L', line)
	case "lists globals with a call":
		send('C', call(1, 2))
	case "lists globals with a report":
		send('I', "{}")
	case "lists globals with a heap":
		send('E', end(`{"text_size": 14}`))
	case "lists no globals":
		send('E', end(`{"has_text": false, "text_size": 0, "heap_size": 0}`))
	case "lists malformed globals", "lists globals with unknown members", "lists globals out of order", "lists globals with a long preview", "lists too many globals", "lists globals with an unknown kind":
		one := `{"name":"a","kind":"lexical","type":"number","preview":"1","sha256":"` + strings.Repeat("ab", 32) + `"}`
		text := map[string]string{
			"lists malformed globals":            `{"globals":[{`,
			"lists globals with unknown members": `{"globals":[` + one + `],"secret":1}`,
			"lists globals out of order":         `{"globals":[` + strings.Replace(one, `"a"`, `"b"`, 1) + "," + one + `]}`,
			"lists globals with a long preview":  `{"globals":[` + strings.Replace(one, `"1"`, `"`+strings.Repeat("x", 4096)+`"`, 1) + `]}`,
			"lists too many globals":             `{"globals":[` + strings.Repeat(one+",", 1000) + one + `]}`,
			"lists globals with an unknown kind": `{"globals":[` + strings.Replace(one, "lexical", "secret", 1) + `]}`,
		}[how]
		send('E', end(fmt.Sprintf(`{"text_size": %d, "heap_size": 0}`, len(text))))
		for len(text) > 0 {
			n := min(len(text), 32<<10)
			send('D', text[:n])
			text = text[n:]
		}
	case "unknown frame":
		send('Z', "")
	case "accepts twice":
		send('A', "")
	case "empty frame of lines":
		send('L', "")
	case "line cut short":
		send('L', line[:len(line)-1])
	case "line of invalid UTF-8":
		send('L', string(worker.AppendLine(nil, 0, 0, false, []byte("\xff"))))
	case "line with a line end":
		send('L', string(worker.AppendLine(nil, 0, 0, false, []byte("a\nb"))))
	case "line with an unknown level":
		send('L', string(worker.AppendLine(nil, 99, 0, false, []byte("a"))))
	case "claims hours of CPU time":
		send('E', end(`{"cpu_micros": 7200000000}`))
		send('D', "2")
		send('D', "heap")
	case "data before the end":
		send('D', "x")
	case "end that is not JSON":
		send('E', "{")
	case "end with unknown fields":
		send('E', end(`{"more": 1}`))
	case "end of an unknown kind":
		send('E', end(`{"end": "cancelled"}`))
	case "end with an unknown reason not to repeat":
		send('E', end(`{"nondeterministic": ["moon"]}`))
	case "end with a reason not to repeat twice":
		send('E', end(`{"nondeterministic": ["weak_ref", "weak_ref"]}`))
	case "end with reasons not to repeat in another order":
		send('E', end(`{"nondeterministic": ["finalizer", "weak_ref"]}`))
	case "end with reasons not to repeat that are no list":
		send('E', end(`{"nondeterministic": {"weak_ref": true}}`))
	case "huge text":
		send('E', end(`{"text_size": 99999999999}`))
	case "huge heap":
		send('E', end(`{"heap_size": 99999999999}`))
	case "negative heap":
		send('E', end(`{"heap_size": -1}`))
	case "heap after running out of memory":
		send('E', end(`{"end": "out_of_memory", "has_text": false, "text_size": 0}`))
	case "more text than announced":
		send('E', end("{}"))
		send('D', "xx")
	case "more heap than announced":
		send('E', end("{}"))
		send('D', "x")
		send('D', "heapheap")
	case "lines after the end":
		send('E', end("{}"))
		send('L', line)
	case "text of invalid UTF-8":
		send('E', end("{}"))
		send('D', "\xff")
		send('D', "heap")
	case "text of invalid UTF-8 when it is stopped":
		if _, _, err := in.Next(); err != nil {
			os.Exit(0)
		}
		send('E', end("{}"))
		send('D', "\xff")
		send('D', "heap")
	case "promises a heap and hangs":
		send('E', end("{}"))
	case "closes its output":
		out.Close()
	case "exits in the middle":
		out.Write([]byte{0, 0, 1, 0, 'L', 1})
		os.Exit(42)
	case "floods standard error":
		io.WriteString(os.Stderr, strings.Repeat("noise\n", 1<<20))
		os.Exit(43)
	case "has no memory for its second task":
		send('E', end("{}"))
		send('D', "2")
		send('D', "heap")
		if _, _, err := in.Next(); err != nil {
			os.Exit(0)
		}
		fmt.Fprintln(os.Stderr, "fatal error: runtime: cannot allocate memory")
		os.Exit(2)
	case "speaks after the end":
		send('E', end("{}"))
		send('D', "2")
		send('D', "heap")
		send('L', line)
		send('L', line)
	case "leaves a child with the pipes":
		if _, err := os.StartProcess("/proc/self/exe", []string{"hostile-worker", "never ready"}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}); err != nil {
			os.Exit(7)
		}
		os.Exit(44)
	case "violates":
		fmt.Fprintln(os.Stderr, "daybook-sandbox: refused 41 3221225534")
		dieOfSIGSYS()
	case "violates without a report":
		dieOfSIGSYS()
	case "violates with an escape sequence in the report":
		fmt.Fprintln(os.Stderr, "daybook-sandbox: refused \x1b[2J")
		dieOfSIGSYS()
	case "floods lines":
		for i := 0; ; i++ {
			send('L', string(worker.AppendLine(nil, 0, 0, false, []byte(strconv.Itoa(i)))))
		}
	}
	hang()
}

// dieOfSIGSYS ends the process as the filter does.
func dieOfSIGSYS() {
	filter := sandbox.Filter{}
	if err := filter.Install(); err != nil {
		os.Exit(8)
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGSYS), 0, 0)
}

// log keeps the logged lines.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func newLog() *log { return new(log) }

func (l *log) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
