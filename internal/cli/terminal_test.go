package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"

	"daybook/internal/cli"
)

// pseudoTerminal opens a terminal with a width. Text that is written to tty is read from ptm.
func pseudoTerminal(t *testing.T, columns int) (ptm, tty *os.File) {
	t.Helper()
	ptm, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { ptm.Close() })
	if err := unix.IoctlSetPointerInt(int(ptm.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ptm.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	return ptm, tty
}

// onTerminal runs a command line whose outputs are a terminal, and returns the output.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	return onTerminalWith(t, columns, "", args...)
}

// onTerminalWith is onTerminal with a standard input.
func onTerminalWith(t *testing.T, columns int, stdin string, args ...string) string {
	t.Helper()
	ptm, tty := pseudoTerminal(t, columns)
	shown := make(chan string)
	go func() {
		raw, _ := io.ReadAll(ptm) // ends with an error once the other end is closed
		shown <- string(raw)
	}()
	cli.Main(args, strings.NewReader(stdin), tty, tty)
	tty.Close()
	select {
	case text := <-shown:
		return strings.ReplaceAll(text, "\r\n", "\n")
	case <-time.After(patience):
		t.Fatal("the terminal was not closed")
		return ""
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// On a terminal tables fit the width, and the status has a color.
func TestTerminal(t *testing.T) { // not parallel: it sets variables
	book := serve(t)
	server := []string{"--server", book.URL()}
	run := append([]string{"run", "--session", "a session with a rather long name", "-e", `/* ` + strings.Repeat("日本語 long code ", 30) + ` */ throw new Error("end")`}, server...)
	if got := daybook("", run...); got.status != 1 {
		t.Fatalf("%+v", got)
	}
	for _, color := range []bool{true, false} {
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", map[bool]string{true: "", false: "1"}[color])
		for _, args := range [][]string{
			{"exec", "list"}, {"heap", "list"}, {"session", "log", "a session with a rather long name"}, {"session", "list"}, {"events", "tail", "--no-follow"},
		} {
			shown := onTerminal(t, 78, append(args, server...)...)
			name := strings.Join(args, " ")
			plain := sgr.ReplaceAllString(shown, "")
			if strings.TrimSpace(plain) == "" {
				t.Errorf("%s shows nothing", name)
			}
			if colored := plain != shown; colored && !color {
				t.Errorf("%s shows colors despite NO_COLOR: %q", name, shown)
			}
			for line := range strings.Lines(plain) {
				if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); w > 78 {
					t.Errorf("%s has a line of %d columns: %s", name, w, line)
				}
			}
		}
		list := onTerminal(t, 78, append([]string{"exec", "list"}, server...)...)
		if red := strings.Contains(list, "\x1b[31mfailed\x1b[0m"); red != color || !strings.Contains(list, " s ago") || !strings.Contains(list, "…") {
			t.Errorf("colors are %t, and the list is\n%s", color, list)
		}
	}
	// On a narrow terminal the status is complete and has its color.
	t.Setenv("NO_COLOR", "")
	narrow := onTerminal(t, 60, append([]string{"exec", "list"}, server...)...)
	if !strings.Contains(narrow, "\x1b[31mfailed\x1b[0m") {
		t.Errorf("60 columns do not hold the status:\n%s", narrow)
	}
	for line := range strings.Lines(sgr.ReplaceAllString(narrow, "")) {
		if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); w > 60 {
			t.Errorf("of 60 columns %d are used: %s", w, line)
		}
	}
	wide := onTerminal(t, 300, append([]string{"exec", "list"}, server...)...)
	if id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`); !id.MatchString(wide) {
		t.Errorf("a wide terminal does not show complete ids:\n%s", wide)
	}
}

// hostile holds what output, names, tags and errors may contain. FORGED must never
// begin a line of a table.
var hostile = []string{
	"\x1b[2J\x1b]0;title\a", "\r\x1b[1AFORGED", "\nFORGED", "\tFORGED\t", "\b\b\b", "\x7f", "\u0085\u009b31m", // C0, DEL, C1
	"\u202eabc\u202c", "\u2066abc\u2069", "\u200e\u200f\u061c", // bidi
	"\u2028FORGED\u2029", "a\u200bd\u200cm\u200di\u2060n\ufeff", "\u00ad\u034f\u115f\u3164\uffa0\u2800", "\U000e0041\U000e007f\U000e0100", "admin\ufe0f", // hidden
}

// forbidden returns the first character that a terminal would interpret or not show.
func forbidden(text string) (rune, bool) {
	for _, r := range text {
		switch {
		case r == '\n', r == '\t':
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfffd, r == 0xfe0f:
			return r, true
		case r == 0xad, r == 0x34f, r == 0x61c, r == 0x115f, r == 0x3164, r == 0xffa0, r == 0xfeff,
			r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r >= 0xe0000 && r < 0xe0fff:
			return r, true
		}
	}
	return 0, false
}

// Every command escapes hidden characters in text of scripts, of clients and of the ledger on a
// terminal.
func TestTerminalShowsNothingHidden(t *testing.T) { // not parallel: it sets variables
	t.Setenv("NO_COLOR", "1")
	book := serve(t)
	at := func(args ...string) []string { return append(args, "--server", book.URL()) }
	evil := strings.Join(hostile, "|")
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	code := "/*" + strings.ReplaceAll(evil, "\r", "") + "*/console.log(" + string(quoted) + ");console.error(" + string(quoted) + ");"
	must := func(status int, args ...string) answer {
		t.Helper()
		got := daybook("", at(args...)...)
		if got.status != status {
			t.Fatalf("exit status %d: %q %q: %.40q", got.status, got.stdout, got.err, args)
		}
		return got
	}
	session := "s \u3164\u115fadmin\ufe0f\u034f" // names are checked: these pass
	intent := "intent " + session
	must(0, "run", "--session", session, "--tag", "k"+session+"="+evil, "-e", code+string(quoted))
	heap := strings.TrimSpace(must(0, "run", "--json", "-e", "({a:1})").stdout)
	heap = heap[strings.Index(heap, `"heap":"`)+8:][:64]
	must(1, "run", "--session", session, "-e", code+"throw new Error("+string(quoted)+")")
	must(0, "session", "open", intent)
	must(0, "run", "--in", intent, "-e", code+"globalThis["+string(quoted)+"] = "+string(quoted)+"; "+string(quoted))
	must(0, "context", "set", session, "c"+session+"="+string(quoted), "--prefer", "language=en")
	raw := onTerminal(t, 80, at("run", "--raw", "-e", code+string(quoted))...)
	if piped := must(0, "run", "-e", code+string(quoted)).stdout; !strings.Contains(piped, evil) || !strings.Contains(raw, "\u202eabc") {
		t.Errorf("bytes must pass to a pipe and with --raw: %q, %q", piped, raw)
	}
	for _, args := range [][]string{
		{"run", "--session", session, "-e", code + string(quoted)},
		{"run", "--json", "-e", code + string(quoted)},
		{"run", "-e", code + "throw new Error(" + string(quoted) + ")"},
		{"run", "--tag", evil, "-e", "1"}, {"run", "--session", evil, "-e", "1"}, {"session", "open", evil},
		{"run", "--in", "none" + evil, "-e", "1"},
		{"run", "--heap", evil},
		{evil},
		{"exec", "list"}, {"exec", "list", "--json"}, {"exec", "list", "--session", session}, {"exec", "list", "--session", "none" + evil},
		{"exec", "show", "@last"}, {"exec", "show", "@last", "--json"}, {"exec", "get", "@last"}, {"exec", "get", "@last", "--json"}, {"exec", "get", evil},
		{"exec", "output", "@last"}, {"exec", "output", "@last", "--json"}, {"exec", "watch", "@last"}, {"exec", "watch", "@last", "--json"},
		{"exec", "calls", "@last"}, {"exec", "events", "@last"}, {"exec", "cancel", "@last"},
		{"heap", "list"}, {"heap", "list", "--json"}, {"heap", "show", "@last"}, {"heap", "show", "@last", "--globals"}, {"heap", "show", "@last", "--globals", "--json"}, {"heap", "diff", "@last", heap}, {"heap", "diff", "@last", heap, "--json"}, {"heap", "find", "k" + session + "=" + evil},
		{"heap", "tag", heap, "a" + session + "=" + evil}, {"heap", "tag", heap, evil + "=a"}, {"heap", "tags", heap}, {"heap", "tags", heap, "--history"}, {"heap", "tags", heap, "--json"}, {"heap", "untag", heap, "none" + strings.ReplaceAll(evil, ",", "")},
		{"session", "list"}, {"session", "list", "--json"}, {"session", "log", session}, {"session", "log", session, "--json"}, {"session", "log", "none" + evil},
		{"session", "show", session}, {"session", "show", session, "--json"}, {"session", "show", intent}, {"session", "open", intent}, {"session", "open", intent, "--json"},
		{"session", "reset", intent}, {"session", "reset", "none" + evil}, {"session", "replay", session, "--speed", "max"}, {"session", "shred", "none" + evil},
		{"context", "get", session}, {"context", "get", session, "--json"}, {"context", "set", session, "d=" + evil, "--json"}, {"context", "clear", session},
		{"webhook", "add", "https://example.com/" + evil}, {"webhook", "list"}, {"webhook", "dead", evil},
		{"events", "tail", "--no-follow"}, {"events", "tail", "--no-follow", "--json"}, {"events", "tail", "--no-follow", "--type", evil},
		{"volume", "list"}, {"volume", "list", "--json"}, {"status"}, {"status", "--json"},
		{"repl", "--session", session},
	} {
		stdin := ""
		if args[0] == "repl" {
			stdin = code + string(quoted) + "\n.heap " + evil + "\n.tags\n." + evil + "\n"
		}
		if args[0] != evil {
			args = at(args...)
		}
		shown := onTerminalWith(t, 200, stdin, args...)
		name := fmt.Sprintf("%.40q", args)
		if shown == "" {
			t.Errorf("%s shows nothing", name)
		}
		if r, found := forbidden(shown); found {
			i := strings.IndexRune(shown, r)
			t.Errorf("%s lets %U through: %q", name, r, shown[max(0, i-60):min(len(shown), i+60)])
		}
		lines := args[0] == "run" || args[0] == "repl" || args[0] == evil || args[1] == "output" || args[1] == "watch" // these print line breaks of the text
		if !lines && strings.Contains(shown, "\nFORGED") && !strings.HasPrefix(shown, "daybook: ") {
			t.Errorf("%s shows a forged line:\n%s", name, shown)
		}
		if slices.Contains(args, "--json") && strings.HasPrefix(shown, "{") {
			for dec := json.NewDecoder(strings.NewReader(shown)); ; {
				var v any
				if err := dec.Decode(&v); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Errorf("%s is no JSON: %v: %s", name, err, shown)
					break
				}
			}
		}
	}
	piped, shown := must(0, "exec", "get", "@last", "--json").stdout, onTerminal(t, 80, at("exec", "get", "@last", "--json")...)
	var a, b map[string]any
	if json.Unmarshal([]byte(piped), &a) != nil || json.Unmarshal([]byte(shown), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("JSON has other values on a terminal:\n%s\n%s", piped, shown)
	}
}
