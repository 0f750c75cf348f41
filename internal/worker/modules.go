package worker

import (
	"regexp"
	"strings"
)

// noModules is added to errors of scripts that expect modules.
const noModules = "; scripts run without modules: nothing can be imported, required or exported here. " +
	"Put the code into the script itself: what one run defines, the next one has when it resumes the heap"

// Only this makes V8 say "Not supported", and a script may say it too.
var dynamicImport = regexp.MustCompile(`\bimport\s*\(`)

// explainModules adds to the first line of an error what to do instead of
// using modules, where V8 only says that it cannot.
func explainModules(text string, code []byte) string {
	first, rest, _ := strings.Cut(text, "\n")
	switch first {
	case "SyntaxError: Cannot use import statement outside a module",
		"SyntaxError: Cannot use 'import.meta' outside a module",
		"SyntaxError: Unexpected token 'export'",
		"ReferenceError: require is not defined":
	case "Error: Not supported":
		if !dynamicImport.Match(code) {
			return text
		}
	default:
		return text
	}
	if rest == "" {
		return first + noModules
	}
	return first + noModules + "\n" + rest
}
