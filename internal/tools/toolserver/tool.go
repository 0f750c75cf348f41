package toolserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool of a server.
type Tool struct {
	Server, Name string
	// Description is the server's description, at most 4 KiB.
	Description string
	// InputSchema and OutputSchema are JSON Schemas, at most 64 KiB each, or nil.
	InputSchema, OutputSchema json.RawMessage
	// ReadOnly reports that, according to the server, the tool changes nothing.
	// Destructive reports that the tool may destroy data. If the server gives no hint,
	// Destructive is true.
	ReadOnly, Destructive bool
}

// Limits of a list of tools.
const (
	maxTools       = 1000
	maxToolName    = 128
	maxDescription = 4 << 10
	maxSchema      = 64 << 10
	maxPages       = 100
)

// list reads the tools of a server: the first 1,000 with a name that can be called,
// ordered by name.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) ([]Tool, error) {
	var tools []Tool
	seen := map[string]bool{}
	params := &sdk.ListToolsParams{}
	skipped := 0
	for page := 0; ; page++ {
		if page == maxPages {
			return nil, fmt.Errorf("the list has more than %d pages", maxPages)
		}
		r, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range r.Tools {
			if t == nil || !isCallable(t.Name) || seen[t.Name] || len(tools) == maxTools {
				skipped++
				continue
			}
			seen[t.Name] = true
			readOnly, destructive := toolHints(t.Annotations)
			tools = append(tools, Tool{
				ReadOnly: readOnly, Destructive: destructive,
				Server: s.config.Name, Name: t.Name,
				Description: truncate(s.scrub.words.Replace(strings.ToValidUTF8(t.Description, "\ufffd")), maxDescription),
				InputSchema: schema(t.InputSchema), OutputSchema: schema(t.OutputSchema),
			})
		}
		if r.NextCursor == "" {
			break
		}
		if r.NextCursor == params.Cursor {
			return nil, errors.New("the server repeats a page of the list")
		}
		params = &sdk.ListToolsParams{Cursor: r.NextCursor}
	}
	if skipped > 0 {
		s.log.Warn("some tools of an MCP server are left out: at most 1,000 are kept, with names of 1 to 128 printable characters that differ", "left_out", skipped)
	}
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	return tools, nil
}

// toolHints returns the hints in the annotations of a tool, with the defaults of MCP.
func toolHints(a *sdk.ToolAnnotations) (readOnly, destructive bool) {
	if a == nil {
		return false, true
	}
	return a.ReadOnlyHint, !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
}

func isCallable(name string) bool {
	return name != "" && len(name) <= maxToolName && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func schema(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxSchema {
		return nil
	}
	return b
}
