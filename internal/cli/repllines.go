package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
)

// errDiscard is returned for a line that the user discarded.
var errDiscard = errors.New("input discarded")

// lineEditor reads lines from a terminal and keeps a history in a file.
type lineEditor struct {
	state *liner.State
	file  string // of the history; empty for none
}

// newLineEditor sets up the terminal. ok is false if the terminal does not support it.
func newLineEditor(complete func(word string) []string) (_ *lineEditor, ok bool) {
	if !liner.TerminalSupported() {
		return nil, false
	}
	if _, err := liner.TerminalMode(); err != nil {
		return nil, false
	}
	e := &lineEditor{state: liner.NewLiner(), file: historyFile()}
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

func (e *lineEditor) read(prompt string) (string, error) {
	line, err := e.state.Prompt(prompt)
	if errors.Is(err, liner.ErrPromptAborted) {
		return "", errDiscard
	}
	if err == nil && strings.TrimSpace(line) != "" {
		e.state.AppendHistory(line)
	}
	return line, err
}

// close restores the terminal and saves the history. Only the user can read the file,
// because it may hold secrets.
func (e *lineEditor) close() {
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

// pipedLines reads lines from anything but a terminal, without prompts.
type pipedLines struct{ in *bufio.Reader }

func newPipedLines(in io.Reader) pipedLines { return pipedLines{bufio.NewReader(in)} }

func (p pipedLines) read(string) (string, error) {
	line, err := p.in.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

func (p pipedLines) close() {}
