package worker

import (
	"errors"
	"fmt"
	"strings"

	"daybook/internal/exec/typescript"
)

// program is a script in the form that V8 receives.
type program struct {
	code []byte // JavaScript, without the sourceURL comment
	file string // the name of the file that the caller gave
	maps []byte // source map; nil if positions are those of the caller's source
}

// sourceError is a syntax error with its position in the caller's source.
type sourceError struct{ text string }

func (e *sourceError) Error() string { return e.text }

// newProgram returns p as a program. If the run is stateful, it splits literals that are too
// long for an isolate whose heap is saved.
func newProgram(p *typescript.Program, file string, stateful bool) *program {
	if stateful {
		p = typescript.SplitLiterals(p)
	}
	return &program{code: p.Code, file: file, maps: p.Map}
}

func fileName(file string) string {
	if file == "" {
		return "main.ts"
	}
	return file
}

// javaScript returns a source as a program without a check: V8 decides whether it is
// JavaScript.
func javaScript(code []byte, file string, stateful bool) *program {
	return newProgram(&typescript.Program{Code: code}, fileName(file), stateful)
}

// typeScript turns a source that V8 refused into a program by erasing its types. The program
// and the error are nil if the source has no TypeScript syntax: V8's error is then the error
// of the run. Errors are of type *sourceError.
func typeScript(code []byte, file string, stateful bool) (*program, error) {
	file = fileName(file)
	p, err := typescript.JavaScript(code)
	switch {
	case errors.Is(err, typescript.ErrJavaScript):
		return nil, nil
	case err != nil:
		return nil, &sourceError{syntaxErrorText(err, file)}
	}
	return newProgram(p, file, stateful), nil
}

// syntaxErrorText formats an error like a syntax error of V8.
func syntaxErrorText(err error, file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SyntaxError: %s", err)
	var e *typescript.SyntaxError
	if !errors.As(err, &e) || e.Line == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "\n    at %s:%d:%d", file, e.Line, e.Column)
	if e.LineText != "" && len(e.LineText) <= 200 {
		fmt.Fprintf(&b, "\n\n%s\n%s^", e.LineText, strings.Repeat(" ", e.Column-1))
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n(and %d more)", e.More)
	}
	return b.String()
}
