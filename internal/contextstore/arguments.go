package contextstore

import (
	"encoding/json"
	"strings"

	"daybook/events"
	"daybook/internal/redact"
	"daybook/projections"
)

// recordedArguments returns the recorded form of a call's arguments, and the hash of the tool
// and the complete arguments. Secrets are removed before the hash is computed: a hash
// of a short secret could be guessed.
func (s *Store) recordedArguments(tool string, args map[string]any) (kept map[string]json.RawMessage, sha256 string) {
	whole := map[string]any{}
	for name, v := range args {
		whole[name] = toPlainJSON(v)
	}
	whole = s.secretNames().Hide(whole)
	raw, err := json.Marshal(map[string]any{"tool": tool, "args": whole})
	if err != nil {
		raw = []byte(tool) // cannot happen: the arguments were decoded from JSON
	}
	return redact.Excerpt(whole), events.Hash(raw)
}

func (s *Store) secretNames() redact.Names { return redact.Names{More: s.opts.SecretKeys} }

// toPlainJSON converts typed values to the values that encoding/json decodes to.
func toPlainJSON(v any) any {
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

// hideSecrets removes secrets that Options.SecretKeys names from recorded host calls. The
// projection cannot remove them: its rows must not depend on the options of a server.
func (s *Store) hideSecrets(st *projections.ContextState) {
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
			whole[name] = toPlainJSON(v)
		}
		call.Args = redact.Excerpt(s.secretNames().Hide(whole))
	}
}
