package prompt

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
	"golang.org/x/sys/unix"
)

// ErrDiscard is returned by Editor.Read for a line that the user discarded with Ctrl-C.
var ErrDiscard = errors.New("input discarded")

// Editor reads lines from a terminal and keeps a history in a file.
type Editor struct {
	state *liner.State
	file  string // of the history; empty for none
}

// NewEditor sets up the terminal of the process and reads the history. complete lists the
// names that begin with a word. The caller MUST call Close. ok is false if the terminal
// does not support it.
func NewEditor(complete func(word string) []string) (_ *Editor, ok bool) {
	if !liner.TerminalSupported() {
		return nil, false
	}
	if _, err := liner.TerminalMode(); err != nil {
		return nil, false
	}
	e := &Editor{state: liner.NewLiner(), file: historyFile()}
	e.state.SetCtrlCAborts(true)
	e.state.SetTabCompletionStyle(liner.TabPrints)
	e.state.SetWordCompleter(func(line string, pos int) (head string, list []string, tail string) {
		runes := []rune(line)
		begin := pos
		for begin > 0 && isNamePart(runes[begin-1]) {
			begin--
		}
		if begin == 1 && runes[0] == '.' { // a command
			begin = 0
		}
		return string(runes[:begin]), complete(string(runes[begin:pos])), string(runes[pos:])
	})
	if f, err := os.Open(e.file); err == nil {
		_, _ = e.state.ReadHistory(f)
		f.Close()
	}
	return e, true
}

// Read shows the prompt and reads a line without its end. It blocks until the line is
// complete, and cannot be cancelled. It returns io.EOF at Ctrl-D, and ErrDiscard at Ctrl-C.
func (e *Editor) Read(prompt string) (string, error) {
	defer readInterruptsAsInput()()
	line, err := e.state.Prompt(prompt)
	if errors.Is(err, liner.ErrPromptAborted) {
		return "", ErrDiscard
	}
	if err == nil && strings.TrimSpace(line) != "" {
		e.state.AppendHistory(line)
	}
	return line, err
}

// readInterruptsAsInput makes Ctrl-C a character of the input instead of a signal, until
// restore is called. The editor does that too, but only after it has shown the prompt: a
// Ctrl-C between the two would be a signal that nothing waits for.
func readInterruptsAsInput() (restore func()) {
	fd := int(os.Stdin.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	without := *before
	without.Lflag &^= unix.ISIG
	_ = unix.IoctlSetTermios(fd, unix.TCSETS, &without)
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }
}

// Close restores the terminal and saves the history. Only the user can read the file,
// because it may hold secrets.
func (e *Editor) Close() {
	_ = e.state.Close()
	if e.file == "" || os.MkdirAll(filepath.Dir(e.file), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(e.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	_, _ = e.state.WriteHistory(f)
	f.Close()
}

// historyFile returns the path of the XDG base directory specification.
func historyFile() string {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "daybook", "repl_history")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "daybook", "repl_history")
}

// Piped reads lines from anything but a terminal, without prompts.
type Piped struct{ in *bufio.Reader }

// NewPiped returns a reader of the lines of in.
func NewPiped(in io.Reader) Piped { return Piped{bufio.NewReader(in)} }

// Read reads a line without its end. It shows no prompt. It returns io.EOF after the last
// line.
func (p Piped) Read(string) (string, error) {
	line, err := p.in.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

// Close does nothing.
func (p Piped) Close() {}
