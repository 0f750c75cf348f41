package worker

import (
	"bytes"
	"regexp"
	"strings"
)

// The texts of the hints. A hint is added to the first line of a recorded error, and tells
// the author of the script what to write instead. The script sees the error without the hint.
const (
	noRequire = "scripts have no require: write import x from \"npm:NAME\", or await import(\"npm:NAME\"), with a package that an administrator admitted"
	noExports = "a script exports nothing: what one run declares, the next one has when it resumes the heap"
	noMeta    = "a script is no module and has no import.meta"
	noNesting = "write import statements at the top level of the script, or use await import(\"NAME\")"
	noNetwork = "scripts reach the network with fetch, if the operator permits it with --fetch-policy, or through a tool of an MCP server with await mcp.SERVER.TOOL({...})"
	noProcess = "scripts have no process, arguments or environment: put the values into the script, and write output with console.log"
	noFiles   = "scripts have no files: put the data into the script, or call a tool of an MCP server with await mcp.SERVER.TOOL({...})"
	noPage    = "scripts run without a browser page: globalThis is the global object, and console.log writes output"
	noStorage = "scripts need no storage: a variable keeps its value for later runs that resume the heap"
	noDialog  = "scripts cannot ask or show anything: put the values into the script, and write output with console.log"
	noBuffer  = "use Uint8Array for bytes, TextEncoder and TextDecoder for text, and btoa and atob for Base64; the operator defines Buffer with --node-globals"
	noThreads = "a script is one thread: use promises and timers, or several runs"
	noShared  = "a run whose heap is saved has none: run it with the heap none, or on a stateless server"
	noModule  = "runs with the heap none, and those of a stateless server, have the WebAssembly modules that the operator gives with --wasm-module NAME=FILE"
	useGlobal = "use globalThis"
	useLog    = "use console.log"
	noFence   = "the script begins with a Markdown fence: send the code alone"
	noQuotes  = "the script has typographic quotes: write \" or '"
	noObject  = "a brace at the start of a script opens a block: put an object into parentheses, ({...}), or into a variable"
	noReturn  = "at top level the value of the last expression is the result: write the value without return, or put the code into a function and call it"
)

// missing maps names that scripts of Node, Deno or browsers use, and that are not defined
// here, to their hints.
var missing = map[string]string{
	"require": noRequire, "module": noExports, "exports": noExports,
	"XMLHttpRequest": noNetwork, "WebSocket": noNetwork, "EventSource": noNetwork, "axios": noNetwork,
	"process": noProcess, "Deno": noProcess, "Bun": noProcess,
	"__dirname": noFiles, "__filename": noFiles, "fs": noFiles, "FileReader": noFiles,
	"window": noPage, "document": noPage, "location": noPage, "history": noPage,
	"requestAnimationFrame": noPage, "addEventListener": noPage,
	"localStorage": noStorage, "sessionStorage": noStorage, "indexedDB": noStorage,
	"alert": noDialog, "prompt": noDialog, "confirm": noDialog,
	"Buffer": noBuffer,
	"Worker": noThreads, "BroadcastChannel": noThreads,
	"SharedArrayBuffer": noShared, "WebAssembly": noShared,
	"global": useGlobal,
	"print":  useLog,
	"path":   noRequire, "os": noRequire,
}

var notDefined = regexp.MustCompile(`^ReferenceError: (\w+) is not defined$`)

// hint returns the hint for an error of the script code, or "" if there is none. first is the
// first line of the error.
func hint(first string, code []byte) string {
	begin := bytes.TrimSpace(code)
	if bytes.HasPrefix(begin, []byte("```")) {
		return noFence
	}
	switch first {
	case "SyntaxError: Unexpected token ':'":
		if bytes.HasPrefix(begin, []byte("{")) {
			return noObject
		}
	case "SyntaxError: Invalid or unexpected token":
		if bytes.ContainsAny(code, "“”‘’") {
			return noQuotes
		}
	case "SyntaxError: Cannot use import statement outside a module":
		return noNesting
	case "SyntaxError: Cannot use 'import.meta' outside a module":
		return noMeta
	case "SyntaxError: Unexpected token 'export'":
		return noExports
	case "SyntaxError: Illegal return statement":
		return noReturn
	}
	if m := notDefined.FindStringSubmatch(first); m != nil {
		if strings.HasPrefix(m[1], "__wasm_") {
			return noModule
		}
		return missing[m[1]]
	}
	return ""
}

// withHint returns the error text with its hint at the end of the first line. If there is no
// hint, it returns text unchanged.
func withHint(text string, code []byte) string {
	first, rest, more := strings.Cut(text, "\n")
	add := hint(first, code)
	if add == "" {
		return text
	}
	if more {
		return first + "; " + add + "\n" + rest
	}
	return first + "; " + add
}
