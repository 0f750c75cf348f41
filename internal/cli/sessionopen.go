package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

type sessionOpenCmd struct {
	clientFlags
	Intent string   `arg:"" help:"Purpose of the session; the same text opens the same session." placeholder:"INTENT"`
	Seed   []string `help:"APIs for code: an id such as builtin.console, or a source such as builtin; may be repeated." default:"builtin" placeholder:"ID"`
}

// Run prints the id of the session to stdout, for "daybook run --in", and the
// declarations that are new to the session to stderr.
func (c *sessionOpenCmd) Run(ctx context.Context, std *streams) error {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodPost, "/api/logical-sessions", map[string]any{"intent": c.Intent, "seeds": c.Seed}, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(raw)
	}
	var answer struct {
		SessionID    string  `json:"session_id"`
		Broken       *string `json:"broken"`
		StateLost    bool    `json:"state_lost"`
		Declarations string  `json:"declarations"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if answer.StateLost && answer.Broken != nil {
		std.err.printf("The state of this session could not be restored (%s): it starts from a fresh isolate.\n", *answer.Broken)
	}
	fmt.Fprint(std.err, answer.Declarations)
	fmt.Fprintln(std.out, answer.SessionID)
	return nil
}
