package prompt

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"daybook/internal/cli/terminal"
)

// Names holds the names that Tab completes: names of the language, names that inputs
// declared, and names that the runs in the lineage of the heap declared. It reads the
// code of these runs and runs nothing, so completion leaves no event in the ledger. It
// does not find names that code defines in other ways. It is safe for concurrent use.
type Names struct {
	commands    []string // of the program, completed at the beginning of a line
	lineageCode func(ctx context.Context, heap string, most int) []string

	mu    sync.Mutex
	known map[string]bool
	heap  string // the heap whose lineage the next Tab reads, or empty
}

const (
	// lineageWait is the maximum time that Tab waits for the server.
	lineageWait = 2 * time.Second
	// lineageRuns is the maximum number of runs of a lineage that are read.
	lineageRuns = 50
)

// languageNames are the globals and keywords that are completed.
var languageNames = strings.Fields(`Array ArrayBuffer BigInt Boolean DataView Date Error Float64Array Function Infinity Int32Array Intl JSON Map Math NaN Number Object Promise
	Proxy RangeError Reflect RegExp Set String Symbol SyntaxError TextDecoder TextEncoder TypeError URL Uint8Array WeakMap WeakSet async await break case catch class clearInterval
	clearTimeout console const continue crypto decodeURIComponent default delete encodeURIComponent export false finally function globalThis import instanceof isFinite isNaN null
	parseFloat parseInt performance queueMicrotask return setInterval setTimeout structuredClone switch this throw true typeof undefined while yield`)

// NewNames returns the names of the language and of the lineage of a heap; an empty heap is a
// fresh isolate. commands are completed at the beginning of a line. lineageCode returns the
// code of at most most runs in the lineage of a heap, newest first, as far as it can be read.
func NewNames(commands []string, lineageCode func(ctx context.Context, heap string, most int) []string, heap string) *Names {
	n := &Names{commands: commands, lineageCode: lineageCode, known: map[string]bool{}, heap: heap}
	for _, name := range languageNames {
		n.known[name] = true
	}
	return n
}

// StartFrom adds the names of the lineage of a heap at the next Tab.
func (n *Names) StartFrom(heap string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heap = heap
}

var declaration = regexp.MustCompile(`(?m)(?:\b(?:let|const|var|function|class)\s*\*?\s+|\bglobalThis\.|^\s*)([\p{L}_$][\p{L}\p{N}_$]*)(\s*(?:=[^=]|\(|\{|;|,|$|\s))`)

// Declare adds the names that a script declares or assigns.
func (n *Names) Declare(code string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(code)
}

func (n *Names) add(code string) {
	for _, m := range declaration.FindAllStringSubmatch(code, -1) {
		declared := regexp.MustCompile(`^\s*(?:let|const|var|function|class|globalThis)\b`).MatchString(m[0])
		assigned := strings.HasPrefix(strings.TrimSpace(m[2]), "=")
		if declared || assigned {
			n.known[m[1]] = true
		}
	}
}

// Complete lists the names that start with word. It calls lineageCode once per heap, and
// waits for it at most lineageWait.
func (n *Names) Complete(word string) []string {
	if strings.HasPrefix(word, ".") {
		return filterPrefix(n.commands, word)
	}
	if word == "" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.heap != "" {
		n.readLineage()
	}
	return filterPrefix(slices.Sorted(maps.Keys(n.known)), word)
}

func filterPrefix(list []string, word string) (found []string) {
	for _, name := range list {
		if strings.HasPrefix(name, word) && terminal.Visible(name, "") == name {
			found = append(found, name)
		}
	}
	return found
}

// readLineage reads the code of the newest runs in the lineage of the heap. It ignores
// errors, because completion is optional.
func (n *Names) readLineage() {
	ctx, stop := context.WithTimeout(context.Background(), lineageWait)
	defer stop()
	for _, code := range n.lineageCode(ctx, n.heap, lineageRuns) {
		n.add(code)
	}
	n.heap = ""
}
