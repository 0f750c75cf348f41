package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"daybook/internal/cli/terminal"
)

// source reads the script. It returns its name and code.
func (c *runCmd) source(stdin io.Reader) (name, code string, err error) {
	switch {
	case c.Eval != nil && c.File != "":
		return "", "", usageError{errors.New("give a file or -e CODE, not both")}
	case c.Eval != nil:
		return "", *c.Eval, nil
	case c.File == "":
		return "", "", usageError{errors.New("nothing to run: name a file, use -e CODE, or - for standard input")}
	}
	return readScript(c.File, stdin)
}

// readScript reads a script from a file, or from standard input for "-". It returns its name,
// which is empty for standard input, and code.
func readScript(file string, stdin io.Reader) (name, code string, err error) {
	if file == "-" {
		raw, err := io.ReadAll(stdin)
		if err != nil {
			return "", "", fmt.Errorf("read standard input: %w", err)
		}
		return "", string(raw), checkText("standard input", string(raw))
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", "", usageError{err}
	}
	return filepath.Base(file), string(raw), checkText(file, string(raw))
}

// checkText returns an error if source is not UTF-8, which JSON cannot hold.
func checkText(from, code string) error {
	wrong := wrongByte(code)
	if wrong == nil {
		return nil
	}
	hint := "save it as UTF-8"
	if strings.HasPrefix(code, "\xff\xfe") || strings.HasPrefix(code, "\xfe\xff") {
		hint = "it looks like UTF-16; " + hint
	}
	return usageError{fmt.Errorf("%s is not UTF-8: %w; %s", from, wrong, hint)}
}

// wrongByte describes the first byte of a text that is not UTF-8, with its 0-based
// offset. It returns nil if the text is UTF-8.
func wrongByte(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return fmt.Errorf("the byte at offset %d, 0x%02x, belongs to no character", at, text[at])
}

// checkArguments returns an error if an argument is not UTF-8. The parser would replace
// the wrong bytes.
func checkArguments(args []string) error {
	for i, arg := range args {
		if err := wrongByte(arg); err != nil {
			return usageError{fmt.Errorf("argument %d (%s) is not UTF-8: %w", i+1, terminal.OneLine(terminal.Visible(arg, ""), 40), err)}
		}
	}
	return nil
}
