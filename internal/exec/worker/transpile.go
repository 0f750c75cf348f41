package worker

import (
	"errors"
	"fmt"
	"strings"

	"daybook/internal/exec/typescript"
)

// program is a script made ready for V8.
type program struct {
	code []byte // what V8 evaluates, without the name
	file string // as the caller calls it
	maps []byte // nil: positions are those of the caller's source
}

// sourceError is a syntax error with its place in the caller's source.
type sourceError struct{ text string }

func (e *sourceError) Error() string { return e.text }

// newProgram names a program. Literals that a heap cannot hold are split if the
// heap will be saved.
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

// javaScript prepares a source for V8 as the JavaScript it may be: V8 decides.
func javaScript(code []byte, file string, stateful bool) *program {
	return newProgram(&typescript.Program{Code: code}, fileName(file), stateful)
}

// typeScript prepares a source that V8 refused as the TypeScript it may be. The
// program is nil if the source has nothing of TypeScript, so V8's error is the
// error of the run. Other errors are of type *sourceError.
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

// syntaxErrorText prints an error in the form V8 gives its own.
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
