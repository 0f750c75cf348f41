package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/projections"
)

// replay sends the whole conversation of a session to a client, as it was sent live.
func (c *client) replay(ctx context.Context, id string) error {
	prompts, err := c.server.opts.Queries.AgentPrompts(ctx, tenant, id)
	if err != nil {
		return err
	}
	for _, p := range prompts {
		if err := c.replayPrompt(ctx, id, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) replayPrompt(ctx context.Context, id string, p projections.AgentPrompt) error {
	if p.Blocks == "" {
		p.Blocks = `[{"type":"text","text":"// This prompt was shredded."}]`
	}
	var blocks []sdk.ContentBlock
	if err := json.Unmarshal([]byte(p.Blocks), &blocks); err != nil {
		return fmt.Errorf("read prompt %s: %w", p.PromptID, err)
	}
	a, err := readPrompt(blocks)
	if err != nil {
		return fmt.Errorf("read prompt %s: %w", p.PromptID, err)
	}
	r := rendering{prompt: p, parsed: a}
	list := append(userMessage(blocks, p.PromptID), r.startUpdates()...)
	if p.ExecutionID == "" {
		if p.Answer != nil {
			list = append(list, r.answerUpdates(*p.Answer)...)
		}
		return c.sendUpdates(ctx, id, list)
	}
	var mark projections.TraceMark
	for {
		t, err := c.server.opts.Queries.Trace(ctx, tenant, p.ExecutionID, mark)
		if errors.Is(err, events.ErrNotFound) {
			return c.sendUpdates(ctx, id, append(list, r.interruptedUpdates()...))
		}
		if err != nil {
			return err
		}
		mark = t.Next
		list = append(list, r.progressUpdates(t)...)
		if !t.More && t.Status.Terminal() {
			shown, err := c.artifactsOf(ctx, p.ExecutionID, t)
			if err != nil {
				return err
			}
			list = append(list, r.endUpdates(t, shown)...)
		}
		if err := c.sendUpdates(ctx, id, list); err != nil || !t.More {
			return err
		}
		list = nil
	}
}
