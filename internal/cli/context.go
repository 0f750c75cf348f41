package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"daybook/internal/cli/terminal"
	"daybook/internal/web/client"
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

// contextOf returns the context that the arguments mean.
func (c contextArgs) contextOf(ctx context.Context, f clientFlags) (client.ContextOf, error) {
	if !c.Logical {
		return client.ContextOf{Session: c.Session}, nil
	}
	key, err := f.sessionKey(ctx, c.Session, "leave out --logical")
	return client.ContextOf{LogicalSession: key}, err
}

type contextGetCmd struct {
	clientFlags
	contextArgs
}

// Run prints the context as text.
func (c *contextGetCmd) Run(ctx context.Context, std *streams) error {
	of, err := c.contextOf(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	got, err := c.api().Context(ctx, of)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.WriteJSON(compact(got.JSON))
	}
	var set struct { // includes preferences that this version does not know
		Preferences map[string]any `json:"user_preferences"`
	}
	if err := json.Unmarshal(got.JSON, &set); err != nil {
		return err
	}
	answer := got.Body
	for _, w := range answer.Warnings {
		fmt.Fprintln(std.err, "warning:", w)
	}
	std.out.Printf("id:       %s\nbegan:    %s\nupdated:  %s\n", answer.SessionID, answer.CreatedAt, answer.LastUpdatedAt)
	for _, name := range slices.Sorted(maps.Keys(set.Preferences)) {
		std.out.Printf("prefers:  %s = %v\n", name, set.Preferences[name])
	}
	for _, name := range slices.Sorted(maps.Keys(answer.Custom)) {
		std.out.Printf("custom:   %s = %s\n", terminal.OneLine(name, 40), terminal.OneLine(string(answer.Custom[name]), 80))
	}
	std.out.Printf("read:     %s\n", terminal.CountNoun(len(answer.FetchedResources), "resource"))
	for line := range strings.Lines(answer.SummaryBeforeWindow) {
		std.out.Printf("earlier:  %s\n", terminal.OneLine(strings.TrimRight(line, "\n"), 100))
	}
	if len(answer.RecentToolCalls) == 0 {
		return nil
	}
	w := terminal.Table(std.out, "TIME", "TOOL", "RESULT")
	for _, call := range answer.RecentToolCalls {
		w.Row(call.CalledAt, call.Tool, terminal.OneLine(call.ResultSummary, 80))
	}
	return w.Flush()
}

type contextSetCmd struct {
	clientFlags
	contextArgs
	Values []string          `arg:"" optional:"" help:"Values as KEY=JSON, or KEY=TEXT if it is not JSON; KEY= removes a value." placeholder:"KEY=VALUE"`
	Prefer map[string]string `help:"Preferences: output_format (json, markdown, plain), max_results, language." placeholder:"NAME=VALUE"`
}

// Run sends all values in one patch.
func (c *contextSetCmd) Run(ctx context.Context, std *streams) error {
	patch := client.ContextPatch{Custom: map[string]any{}, UserPreferences: map[string]any{}}
	for _, pair := range c.Values {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return usageError{fmt.Errorf("%q: give values as KEY=VALUE", pair)}
		}
		patch.Custom[name] = jsonOrText(value)
	}
	for name, value := range c.Prefer {
		patch.UserPreferences[name] = jsonOrText(value)
	}
	if len(patch.Custom)+len(patch.UserPreferences) == 0 {
		return usageError{errors.New("nothing to set: give KEY=VALUE, --prefer NAME=VALUE or both")}
	}
	of, err := c.contextOf(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	answer, err := c.api().SetContext(ctx, of, patch)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
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
	of, err := c.contextOf(ctx, c.clientFlags)
	if err != nil {
		return err
	}
	answer, err := c.api().ClearContext(ctx, of)
	if err != nil {
		return err
	}
	if c.JSON {
		return std.out.PrintJSON(answer.JSON)
	}
	fmt.Fprintln(std.out, "Cleared. The recorded events stay.")
	return nil
}
