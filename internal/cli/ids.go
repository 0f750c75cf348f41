package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

var (
	wholeExecution = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	wholeHeap      = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

const (
	// lastID means the newest execution or heap.
	lastID        = "@last"
	executionHelp = "Execution id, a unique prefix, or @last."
	heapHelp      = "Heap key, a unique prefix, or @last."
)

// execution returns the id that a text on the command line means: the text itself, the
// only id with this prefix, or the newest one for @last.
func (f clientFlags) execution(ctx context.Context, text string) (string, error) {
	if wholeExecution.MatchString(text) {
		return text, nil
	}
	return f.resolve(ctx, "execution", text, "")
}

// heapKey is the same as execution, for heaps.
func (f clientFlags) heapKey(ctx context.Context, text string) (string, error) {
	if wholeHeap.MatchString(text) {
		return text, nil
	}
	return f.resolve(ctx, "heap", text, "")
}

// resolve asks the server for the id that a text means.
func (f clientFlags) resolve(ctx context.Context, kind, text, session string) (string, error) {
	if text == "" {
		return "", usageError{fmt.Errorf("the %s is empty: give its id, a unique prefix of it, or %s", kind, lastID)}
	}
	return f.api().Resolve(ctx, kind, text, session)
}

// uniqueByPrefix returns the only id that starts with a text.
func uniqueByPrefix(what, text string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		switch {
		case id == text:
			return id, nil
		case text != "" && strings.HasPrefix(id, text):
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", usageError{fmt.Errorf("no %s has an id that begins with %q", what, text)}
	case 1:
		return found[0], nil
	default:
		return "", usageError{fmt.Errorf("the ids of %d %ss begin with %q: %s", len(found), what, text, strings.Join(found, ", "))}
	}
}

// oneExecution is embedded in commands about one execution.
type oneExecution struct {
	ID string `arg:"" help:"${execution_help}" placeholder:"ID"`
}

// oneHeap is embedded in commands about one heap.
type oneHeap struct {
	Heap string `arg:"" help:"${heap_help}" placeholder:"HASH"`
}
