package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Each input starts from the heap of the input before, also through a pipe.
func TestReplThroughAPipe(t *testing.T) {
	t.Parallel()
	book := serve(t)
	known := map[string]string{"url": book.URL()}
	play(t, known, []step{
		{args: `repl --session talk` + at, stdin: "let n = 1\nfunction f(a) {\n  return `<${a +\n  1}>`\n}\nf(n)\n.heap\nn = 5\n.undo\nn\n.tags kind=small\n.tags\n.reset\ntypeof n\n",
			stdout: "<2>\n(?P<heap>" + hash + ")\n5\n(?P<undone>" + hash + ")\n1\nkind=small\nkind=small\na fresh isolate\nundefined\n"},
		{args: `heap tags $undone` + at},
		{args: `repl --continue --session talk` + at, stdin: "typeof n", stdout: "undefined\n"},
		{args: `repl --heap $heap` + at, stdin: "n\nn / 0\nthrow new Error('no')\n", status: 1, stdout: "1\nInfinity\n", stderr: "Error: no\n.*"},
		{args: `repl` + at, stdin: ".undo\n.tags\n.nope\n.5\n", stdout: "0.5\n", stderr: "daybook: nothing to undo.*daybook: a fresh isolate has no tags.*daybook: unknown command .nope.*"},
		{args: `repl` + at, stdin: "exit\nlet quit = 1\nquit\nhelp()", status: 1, stdout: "1\n", stderr: "ReferenceError: exit is not defined\n.*\\.exit exits, \\.help lists the commands\nReferenceError: help is not defined\n.*\\.exit exits, \\.help lists the commands\n"},
		{args: `session open by·turns` + at, stdout: "(?P<turns>\\S+)\n", stderr: ".*"},
		{args: `repl --in by` + at, stdin: "let n = 7\nn + 1\n.undo\n.reset\n.heap\n.tags kind=turn\n", status: 2, stdout: "8\n(?P<head>" + hash + ")\n.*",
			stderr: "daybook: .undo is not possible in a logical session: \"daybook session reset [0-9a-f]{12}\" .*daybook: .reset is not possible .*"},
		{args: `repl --in $turns` + at, stdin: ".heap\nn + 2\n", stdout: "$head\n9\n"},
		{args: `exec list --session by` + at, stdout: "EXECUTION [^\n]*\n([^\n]* completed [^\n]*\n){3}"},
		{args: `repl --in talk` + at, status: 2, stderr: "daybook: session \"talk\" only logs runs: give it as --session\n"},
		{args: `repl --in nope` + at, status: 2, stderr: "daybook: Session 'nope' not found; .*\"daybook session open\" opens one\n"},
		{args: `repl --timeout 301` + at, stdin: "1", status: 2, stderr: "daybook: --timeout must be 1 to 300, not 301\n"},
		{args: `repl --heap @last --continue` + at, status: 2, stderr: "daybook: --heap and --continue can't be used together.*"},
		{args: `run --continue --session nobody -e 1` + at, status: 2, stderr: "daybook: there is no heap in session \"nobody\" yet\n"},
		{args: `run --continue --session talk -e typeof·n` + at, stdout: "undefined\n", stderr: "status.*"},
		{args: `run --heap $heap -e n+1` + at, stdout: "2\n", stderr: "status.*"},
		{args: `run --continue -e n+1` + at, stdout: "2\n", stderr: "status.*"},
		{args: `run --continue --heap @last -e n+1` + at, status: 2, stderr: "daybook: --heap and --continue can't be used together.*"},
	})
}

// On a terminal there are prompts, completion and a history. Ctrl-C cancels only the running
// script.
func TestReplOnATerminal(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	book := serve(t)
	ptm, tty := pseudoTerminal(t, 80)
	cmd := exec.Command(bin, "repl", "--server", book.URL())
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "TERM=xterm", "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var mu sync.Mutex
	var shown bytes.Buffer
	go func() {
		p := make([]byte, 4096)
		for {
			n, err := ptm.Read(p)
			if bytes.HasSuffix(p[:n], []byte("> ")) || bytes.HasSuffix(p[:n], []byte("... ")) {
				// A Ctrl-C from now on is input. As a signal it would be lost.
				if mode, err := unix.IoctlGetTermios(int(ptm.Fd()), unix.TCGETS); err != nil || mode.Lflag&unix.ISIG != 0 {
					t.Errorf("after %q Ctrl-C is a signal, %v", p[:n], err)
				}
			}
			mu.Lock()
			shown.Write(p[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	expect := func(text string) {
		t.Helper()
		for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			mu.Lock()
			_, rest, ok := strings.Cut(shown.String(), text)
			if ok {
				shown.Reset()
				shown.WriteString(rest)
			}
			have := shown.String()
			mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("%q was not shown, but %q", text, have)
			}
		}
	}
	send := func(text string) {
		t.Helper()
		if _, err := ptm.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	expect("from a fresh isolate")
	expect("> ")
	send("let longName = 40; console.log('\\x1b[2Jhidden')\r")
	expect("\r\n\\x1b[2Jhidden\r\n")
	expect("> ")
	send("longN\t + (\r")
	expect("longName")
	expect("... ")
	send("2)\r")
	expect("\r\n42\r\n> ")
	send("console.log('busy'); while (true) {}\r")
	expect("\r\nbusy\r\n")
	send("\x03")
	expect("Cancelled by user")
	expect("> ")
	send("((\r")
	expect("... ")
	send("\x03")
	expect("> ")
	send("\x03")
	expect("Press Ctrl-D or type .exit to exit.")
	expect("> ")
	send(".he\t\t")
	expect(".heap .help")
	send("\x15longName + 3\r")
	expect("\r\n43\r\n> ")
	send("\x1b[A\x7f4\r") // the line before, with another number
	expect("\r\n44\r\n> ")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // ends the command like Ctrl-D
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	raw, err := os.ReadFile(home + "/.local/state/daybook/repl_history")
	if err != nil || !strings.Contains(string(raw), "longName + 4\n") {
		t.Errorf("the history is %q, %v", raw, err)
	}
}
