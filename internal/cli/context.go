package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

type contextCmd struct {
	Get   contextGetCmd   `cmd:"" help:"Show the conversation context of a session."`
	Set   contextSetCmd   `cmd:"" help:"Set values and preferences of a session."`
	Clear contextClearCmd `cmd:"" help:"Clear the conversation context of a session."`
}

// contextArgs identify a conversation context by its session.
type contextArgs struct {
	Session string `arg:"" help:"Session name; with --logical the intent, ref or id of a logical session, or a unique prefix." placeholder:"SESSION"`
	Logical bool   `help:"Look up SESSION among the logical sessions."`
}

// path returns the REST path of the context.
func (c contextArgs) path(ctx context.Context, f clientFlags) (string, error) {
	if !c.Logical {
		return "/api/context" + query("session", c.Session), nil
	}
	key, err := f.sessionKey(ctx, c.Session, "leave out --logical")
	return "/api/context" + query("logical_session", key), err
}

type contextGetCmd struct {
	clientFlags
	contextArgs
}

// Run prints the context as text.
func (c *contextGetCmd) Run(ctx context.Context, std *streams) error {
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	return c.show(ctx, std.out, path, func(raw []byte) error {
		var answer struct {
			SessionID     string                     `json:"session_id"`
			CreatedAt     string                     `json:"created_at"`
			LastUpdatedAt string                     `json:"last_updated_at"`
			Preferences   map[string]any             `json:"user_preferences"`
			Custom        map[string]json.RawMessage `json:"custom"`
			Calls         []struct {
				Tool          string `json:"tool"`
				CalledAt      string `json:"called_at"`
				ResultSummary string `json:"result_summary"`
			} `json:"recent_tool_calls"`
			Resources []struct {
				ID string `json:"resource_id"`
			} `json:"fetched_resources"`
			Summary  string   `json:"summary_before_window"`
			Warnings []string `json:"warnings"`
		}
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		for _, w := range answer.Warnings {
			fmt.Fprintln(std.err, "warning:", w)
		}
		std.out.printf("id:       %s\nbegan:    %s\nupdated:  %s\n", answer.SessionID, answer.CreatedAt, answer.LastUpdatedAt)
		for _, name := range slices.Sorted(maps.Keys(answer.Preferences)) {
			std.out.printf("prefers:  %s = %v\n", name, answer.Preferences[name])
		}
		for _, name := range slices.Sorted(maps.Keys(answer.Custom)) {
			std.out.printf("custom:   %s = %s\n", oneLine(name, 40), oneLine(string(answer.Custom[name]), 80))
		}
		std.out.printf("read:     %s\n", countNoun(len(answer.Resources), "resource"))
		for line := range strings.Lines(answer.Summary) {
			std.out.printf("earlier:  %s\n", oneLine(strings.TrimRight(line, "\n"), 100))
		}
		if len(answer.Calls) == 0 {
			return nil
		}
		w := table(std.out, "TIME", "TOOL", "RESULT")
		for _, call := range answer.Calls {
			w.row(call.CalledAt, call.Tool, oneLine(call.ResultSummary, 80))
		}
		return w.Flush()
	})
}

type contextSetCmd struct {
	clientFlags
	contextArgs
	Values []string          `arg:"" optional:"" help:"Values as KEY=JSON, or KEY=TEXT if it is not JSON; KEY= removes a value." placeholder:"KEY=VALUE"`
	Prefer map[string]string `help:"Preferences: output_format (json, markdown, plain), max_results, language." placeholder:"NAME=VALUE"`
}

// Run sends all values in one patch.
func (c *contextSetCmd) Run(ctx context.Context, std *streams) error {
	patch := map[string]any{}
	if len(c.Values) > 0 {
		custom := map[string]any{}
		for _, pair := range c.Values {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return usageError{fmt.Errorf("%q: give values as KEY=VALUE", pair)}
			}
			custom[name] = jsonOrText(value)
		}
		patch["custom"] = custom
	}
	if len(c.Prefer) > 0 {
		prefer := map[string]any{}
		for name, value := range c.Prefer {
			prefer[name] = jsonOrText(value)
		}
		patch["user_preferences"] = prefer
	}
	if len(patch) == 0 {
		return usageError{errors.New("nothing to set: give KEY=VALUE, --prefer NAME=VALUE or both")}
	}
	var raw json.RawMessage
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	if err := c.call(ctx, http.MethodPatch, path, patch, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(raw)
	}
	fmt.Fprintln(std.out, "Set.")
	return nil
}

// jsonOrText returns the value for KEY=value: nil if it is empty, the value itself if
// it is JSON, else a string.
func jsonOrText(value string) any {
	switch {
	case value == "":
		return nil
	case json.Valid([]byte(value)):
		return json.RawMessage(value)
	default:
		return value
	}
}

type contextClearCmd struct {
	clientFlags
	contextArgs
}

// Run clears the context.
func (c *contextClearCmd) Run(ctx context.Context, std *streams) error {
	var raw json.RawMessage
	path, err := c.path(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	if err := c.call(ctx, http.MethodDelete, path, nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return std.out.printJSON(raw)
	}
	fmt.Fprintln(std.out, "Cleared. The recorded events stay.")
	return nil
}
