package acp

import (
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/projections"
)

// rendering renders the recorded events of a prompt as updates. Live updates and
// replays both use it, and are therefore equal.
type rendering struct {
	prompt projections.AgentPrompt
	parsed parsedPrompt
}

// Limits of one update.
const (
	// chunkBytes is the longest text of a chunk. Longer texts are sent as several
	// chunks.
	chunkBytes = 256 << 10
	// detailBytes bounds a text in the content of a tool call.
	detailBytes = 4 << 10
	// rawBytes bounds a value in the raw input or output of a tool call.
	rawBytes = 64 << 10
)

// userMessage returns the prompt as a message, for a client that loads the session.
func userMessage(blocks []sdk.ContentBlock, id string) []sdk.SessionUpdate {
	list := make([]sdk.SessionUpdate, 0, len(blocks))
	for _, b := range blocks {
		list = append(list, sdk.SessionUpdate{UserMessageChunk: &sdk.SessionUpdateUserMessageChunk{Content: b, MessageId: &id}})
	}
	return list
}

// startUpdates returns the updates for the start of a prompt.
func (r rendering) startUpdates() []sdk.SessionUpdate {
	var list []sdk.SessionUpdate
	if r.prompt.Title != "" {
		list = append(list, sdk.SessionUpdate{SessionInfoUpdate: &sdk.SessionSessionInfoUpdate{Title: &r.prompt.Title, UpdatedAt: &r.prompt.At}})
	}
	if r.prompt.ExecutionID == "" {
		return list
	}
	return append(list, sdk.SessionUpdate{ToolCall: &sdk.SessionUpdateToolCall{
		ToolCallId: sdk.ToolCallId(r.prompt.ExecutionID), Title: r.parsed.title, Kind: sdk.ToolKindExecute, Status: sdk.ToolCallStatusInProgress,
		RawInput: map[string]any{"code": r.parsed.code},
	}})
}

// progressUpdates returns the updates for the output and the tool calls of a run.
func (r rendering) progressUpdates(t projections.RunTrace) []sdk.SessionUpdate {
	var list []sdk.SessionUpdate
	for _, step := range t.Steps {
		switch {
		case step.Line != nil:
			list = append(list, chunks(r.prompt.ExecutionID, step.Line.Text+"\n")...)
		case step.Call != nil:
			c := step.Call
			list = append(list, sdk.SessionUpdate{ToolCall: &sdk.SessionUpdateToolCall{
				ToolCallId: callID(r.prompt.ExecutionID, c.Number), Title: callText(c.Server, c.Tool), Kind: sdk.ToolKindOther,
				Status: sdk.ToolCallStatusInProgress, RawInput: rawJSON(c.Arguments),
			}})
		case step.Answer != nil:
			list = append(list, r.callResultUpdate(step.Answer))
		}
	}
	return list
}

// callResultUpdate returns the update for the result of a tool call.
func (r rendering) callResultUpdate(c *projections.TracedCall) sdk.SessionUpdate {
	status := sdk.ToolCallStatusFailed
	if c.Outcome == events.HostOK {
		status = sdk.ToolCallStatusCompleted
	}
	return sdk.SessionUpdate{ToolCallUpdate: &sdk.SessionToolCallUpdate{
		ToolCallId: callID(r.prompt.ExecutionID, c.Number), Status: &status, RawOutput: map[string]any{"outcome": c.Outcome, "result": rawJSON(c.Result)},
	}}
}

// endUpdates returns the updates for the end of a run with its artifacts.
func (r rendering) endUpdates(t projections.RunTrace, shown shownArtifacts) []sdk.SessionUpdate {
	status := sdk.ToolCallStatusFailed
	raw := map[string]any{"execution_id": r.prompt.ExecutionID, "status": t.Status}
	said := ""
	switch {
	case t.Status == events.StatusCompleted:
		status = sdk.ToolCallStatusCompleted
		if t.Result != nil {
			said = *t.Result
		}
	case t.Error != nil:
		said = *t.Error
		if note, ok := r.parsed.explain(t.Reason, said); ok {
			said = note
		}
	}
	if t.OutputHeap != "" {
		raw["heap"] = t.OutputHeap
	}
	if t.Reason != "" {
		raw["reason"] = t.Reason
	}
	if t.OutputTruncated || t.ResultTruncated {
		raw["truncated"] = true
	}
	if len(shown.entries) > 0 {
		raw["artifacts"] = shown.entries
	}
	done := sdk.SessionToolCallUpdate{ToolCallId: sdk.ToolCallId(r.prompt.ExecutionID), Status: &status, RawOutput: raw}
	// A result or an error is the answer to the prompt and is shown once, as a
	// message. A cancelled prompt has no answer.
	if said != "" && t.Status == events.StatusCancelled {
		done.Content = []sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(truncate(said, detailBytes)))}
		said = ""
	}
	done.Content = append(done.Content, shown.content...)
	return append([]sdk.SessionUpdate{{ToolCallUpdate: &done}}, chunks(r.answerID(), said)...)
}

// interruptedUpdates returns the updates for a prompt whose run was not requested, because
// the process ended after it had recorded the prompt.
func (r rendering) interruptedUpdates() []sdk.SessionUpdate {
	why := "The prompt was interrupted before it was run. Send it again."
	return r.endUpdates(projections.RunTrace{Status: events.StatusFailed, Error: &why, Reason: "interrupted"}, shownArtifacts{})
}

// answerUpdates returns the updates for the answer to a command.
func (r rendering) answerUpdates(text string) []sdk.SessionUpdate {
	if text == "" {
		return nil
	}
	return chunks(r.answerID(), text)
}

// answerID returns the id of the message that answers the prompt. The message with the
// output of the run has another id, that of the run.
func (r rendering) answerID() string {
	return events.DerivedID(tenant, "acp answer "+r.prompt.PromptID)
}

// chunks returns a text as the parts of a message.
func chunks(message, s string) []sdk.SessionUpdate {
	var list []sdk.SessionUpdate
	for s != "" {
		part := s
		if len(part) > chunkBytes {
			end := chunkBytes
			for !utf8.RuneStart(s[end]) {
				end--
			}
			part = s[:end]
		}
		s = s[len(part):]
		list = append(list, sdk.SessionUpdate{AgentMessageChunk: &sdk.SessionUpdateAgentMessageChunk{Content: sdk.TextBlock(part), MessageId: &message}})
	}
	return list
}

// truncate cuts a text after at most n bytes and appends a note with its full length.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("… (%d bytes in all)", len(s))
}
