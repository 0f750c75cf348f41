package contextstore

import (
	"encoding/json"
	"strings"

	"daybook/events"
	"daybook/internal/redact"
	"daybook/projections"
)

// arguments makes those of a call fit to be kept, and returns their hash: of
// tool and arguments as they were, but without secrets, which must not be
// guessed from it.
func (s *Store) arguments(tool string, args map[string]any) (kept map[string]json.RawMessage, sha256 string) {
	whole := map[string]any{}
	for name, v := range args {
		whole[name] = plain(v)
	}
	whole = s.names().Hide(whole)
	raw, err := json.Marshal(map[string]any{"tool": tool, "args": whole})
	if err != nil {
		raw = []byte(tool) // cannot be: it was JSON
	}
	return redact.Excerpt(whole), events.Hash(raw)
}

// names are those of secrets.
func (s *Store) names() redact.Names { return redact.Names{More: s.opts.SecretKeys} }

// plain turns typed values into those of plain JSON.
func plain(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var p any
	if json.Unmarshal(raw, &p) != nil {
		return nil
	}
	return p
}

// hide leaves out of the calls that scripts made what only this server takes for
// secrets: what is folded from the record must not depend on that.
func (s *Store) hide(st *projections.ContextState) {
	if len(s.opts.SecretKeys) == 0 {
		return
	}
	for i := range st.Context.RecentToolCalls {
		call := &st.Context.RecentToolCalls[i]
		if !strings.HasPrefix(call.Tool, projections.HostToolPrefix) {
			continue
		}
		whole := make(map[string]any, len(call.Args))
		for name, v := range call.Args {
			whole[name] = plain(v)
		}
		call.Args = redact.Excerpt(s.names().Hide(whole))
	}
}
