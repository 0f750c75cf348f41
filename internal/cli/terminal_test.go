package cli_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"

	"daybook/internal/cli"
)

// pseudoTerminal opens a terminal of a width; what is written to tty is read
// from the other end.
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

// onTerminal runs a command line whose outputs are a terminal, and returns what
// it shows.
func onTerminal(t *testing.T, columns int, args ...string) string {
	t.Helper()
	ptm, tty := pseudoTerminal(t, columns)
	shown := make(chan string)
	go func() {
		raw, _ := io.ReadAll(ptm) // ends with an error once the other end is closed
		shown <- string(raw)
	}()
	cli.Main(args, strings.NewReader(""), tty, tty)
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

// On a terminal tables fit it, colors show the status, and nothing that a script
// wrote reaches the terminal as a control character.
func TestTerminal(t *testing.T) { // not parallel: it sets variables
	book := serve(t)
	server := []string{"--server", book.URL()}
	evil := "\x1b[2J\x1b]0;title\a\u009b31m\u202e"
	long := daybook("", append([]string{"run", "--session", "a session with a rather long name", "-e",
		`console.log("` + evil + `begin"); /* ` + strings.Repeat("日本語 long code ", 30) + ` */ throw new Error("` + evil + `end")`}, server...)...)
	if long.status != 1 || !strings.Contains(long.stdout, "\x1b[2J") {
		t.Fatalf("elsewhere bytes are passed on: %+v", long)
	}
	for _, color := range []bool{true, false} {
		t.Setenv("TERM", "xterm")
		t.Setenv("NO_COLOR", map[bool]string{true: "", false: "1"}[color])
		for _, args := range [][]string{
			{"exec", "list"}, {"exec", "show", "@last"}, {"exec", "output", "@last"}, {"exec", "watch", "@last"}, {"exec", "get", "@last", "--json"}, {"exec", "get", "@last"},
			{"heap", "list"}, {"session", "log", "a session with a rather long name"}, {"session", "show", "a session with"}, {"session", "list"}, {"events", "tail", "--no-follow"}, {"events", "tail", "--no-follow", "--json"},
		} {
			shown := onTerminal(t, 78, append(args, server...)...)
			name := strings.Join(args, " ")
			plain := sgr.ReplaceAllString(shown, "")
			if strings.TrimSpace(plain) == "" {
				t.Errorf("%s shows nothing", name)
			}
			if strings.ContainsAny(plain, "\x1b\a\u009b\u202e") {
				t.Errorf("%s lets control characters through: %q", name, plain)
			}
			if colored := plain != shown; colored && !color {
				t.Errorf("%s shows colors in spite of NO_COLOR: %q", name, shown)
			}
			fits := !strings.Contains(name, "get") && !strings.Contains(name, "output") && !strings.Contains(name, "watch") && !strings.Contains(name, "json") && args[1] != "show"
			for line := range strings.Lines(plain) {
				if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); fits && w > 78 {
					t.Errorf("%s has a line of %d columns: %s", name, w, line)
				}
			}
		}
		list := onTerminal(t, 78, append([]string{"exec", "list"}, server...)...)
		if red := strings.Contains(list, "\x1b[31mfailed\x1b[0m"); red != color || !strings.Contains(list, " s ago") || !strings.Contains(list, "…") {
			t.Errorf("colors are %t, and the list is\n%s", color, list)
		}
	}
	// On a narrow one the status is whole, and in its color.
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
		t.Errorf("a wide terminal has room for whole ids:\n%s", wide)
	}
}
