package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/tools/toolserver"
)

// Call is a tool call by the run of a prompt.
type Call struct {
	// Session is the session of the prompt, Execution the id of its run.
	Session, Execution string
	// Number is the 1-based number of the call in its run.
	Number       int
	Server, Tool string
	// Arguments is a JSON object.
	Arguments []byte
}

func failedCall(format string, args ...any) toolserver.Result {
	return toolserver.Result{Outcome: toolserver.Failed, Text: fmt.Appendf(nil, format, args...)}
}

// Servers returns the names of the tools that the runs of a session may call, by
// server. They are tools of the tool servers that the client named when it opened the
// session in this process.
func (s *Server) Servers(ctx context.Context, session string) map[string][]string {
	names := map[string][]string{}
	n := s.session(session)
	if n == nil || n.tools == nil {
		return names
	}
	for server := range n.tools.Status() {
		names[server] = []string{}
	}
	offered := n.tools.Tools(ctx, tenant)
	n.mu.Lock()
	n.offeredTools = offered
	n.mu.Unlock()
	for _, t := range offered {
		names[t.Server] = append(names[t.Server], t.Name)
	}
	return names
}

// Call calls a tool of a session if the mode of the session allows it. In mode ask it
// asks the user before it calls a destructive tool. ctx is done when the run ends. The
// result of a refused or failed call has another outcome than toolserver.OK.
func (s *Server) Call(ctx context.Context, call Call) toolserver.Result {
	n := s.session(call.Session)
	if n == nil || n.tools == nil {
		return failedCall("the process that runs this script is not connected to MCP servers of its session; they are connected while a client has the session open in that process")
	}
	if refused := n.permit(ctx, call); refused != "" {
		return failedCall("%s", refused)
	}
	return n.tools.Call(ctx, tenant, call.Server, call.Tool, call.Arguments)
}

// decisionUnrecorded refuses a call for which no decision could be recorded.
const decisionUnrecorded = "not called: the decision about it could not be recorded"

// permit decides whether a call is allowed, and returns the reason if it is not.
func (n *session) permit(ctx context.Context, call Call) (refused string) {
	mode := n.settings().Mode
	tool := n.offeredTool(call)
	switch {
	case mode == events.AgentModeAuto, tool.ReadOnly:
		return ""
	case mode == events.AgentModeReadOnly:
		if err := n.recordDecision(ctx, call, "forbidden", mode); err != nil {
			return decisionUnrecorded
		}
		return "not called: the session is read-only, and the tool does not say that it changes nothing"
	case !tool.Destructive:
		return ""
	}
	key := toolKey{call.Server, call.Tool}
	n.mu.Lock()
	allowed, known := n.decisions[key]
	n.mu.Unlock()
	outcome := outcomes[sdk.PermissionOptionKindAllowAlways]
	switch {
	case !known:
		outcome = n.askUser(ctx, call)
	case !allowed:
		outcome = outcomes[sdk.PermissionOptionKindRejectAlways]
	}
	n.mu.Lock()
	switch outcome {
	case outcomes[sdk.PermissionOptionKindAllowAlways]:
		n.decisions[key] = true
	case outcomes[sdk.PermissionOptionKindRejectAlways]:
		n.decisions[key] = false
	}
	n.mu.Unlock()
	if err := n.recordDecision(ctx, call, outcome, mode); err != nil {
		return decisionUnrecorded
	}
	if strings.HasPrefix(outcome, "allowed") {
		return ""
	}
	return "not called: its user did not allow it"
}

// offeredTool returns the tool of a call. A tool that is not offered any more counts as
// destructive.
func (n *session) offeredTool(call Call) toolserver.Tool {
	n.mu.Lock()
	tools := n.offeredTools
	n.mu.Unlock()
	at := slices.IndexFunc(tools, func(t toolserver.Tool) bool { return t.Server == call.Server && t.Name == call.Tool })
	if at < 0 {
		return toolserver.Tool{Server: call.Server, Name: call.Tool, Destructive: true}
	}
	return tools[at]
}

// outcomes are the recorded names of the user's choices.
var outcomes = map[sdk.PermissionOptionKind]string{
	sdk.PermissionOptionKindAllowOnce:    "allowed",
	sdk.PermissionOptionKindAllowAlways:  "allowed_always",
	sdk.PermissionOptionKindRejectOnce:   "rejected",
	sdk.PermissionOptionKindRejectAlways: "rejected_always",
}

// askUser asks the user for permission and returns the outcome to record.
func (n *session) askUser(ctx context.Context, call Call) (outcome string) {
	const cancelled = "cancelled"
	turn := n.client.turnOf(n.id)
	if turn == nil {
		return cancelled
	}
	// Cancelling the prompt cancels the question.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(turn.ctx, cancel)
	defer stop()
	title, kind, status := callText(call.Server, call.Tool), sdk.ToolKindOther, sdk.ToolCallStatusPending
	answer, err := sdk.SendRequest[sdk.RequestPermissionResponse](n.client.rpc, ctx, sdk.ClientMethodSessionRequestPermission, sdk.RequestPermissionRequest{
		SessionId: sdk.SessionId(n.id),
		ToolCall: sdk.ToolCallUpdate{
			ToolCallId: callID(call.Execution, call.Number), Title: &title, Kind: &kind, Status: &status,
			RawInput: rawJSON(&events.Body{Text: string(call.Arguments)}),
		},
		Options: []sdk.PermissionOption{
			{OptionId: "allow", Name: "Allow", Kind: sdk.PermissionOptionKindAllowOnce},
			{OptionId: "allow_always", Name: "Allow in this session", Kind: sdk.PermissionOptionKindAllowAlways},
			{OptionId: "reject", Name: "Reject", Kind: sdk.PermissionOptionKindRejectOnce},
			{OptionId: "reject_always", Name: "Reject in this session", Kind: sdk.PermissionOptionKindRejectAlways},
		},
	})
	switch {
	case err != nil && ctx.Err() == nil:
		n.client.server.opts.Logger.Warn("ask an ACP client for permission", "session", n.id, "error", err)
		return outcomes[sdk.PermissionOptionKindRejectOnce]
	case err != nil:
		return cancelled
	case answer.Outcome.Selected == nil:
		// The client answers "cancelled" when it cancels the prompt.
		turn.cancel()
		return cancelled
	}
	switch answer.Outcome.Selected.OptionId {
	case "allow":
		return outcomes[sdk.PermissionOptionKindAllowOnce]
	case "allow_always":
		return outcomes[sdk.PermissionOptionKindAllowAlways]
	case "reject_always":
		return outcomes[sdk.PermissionOptionKindRejectAlways]
	default:
		return outcomes[sdk.PermissionOptionKindRejectOnce]
	}
}

// recordDecision records a decision, also if the run has ended meanwhile.
func (n *session) recordDecision(ctx context.Context, call Call, outcome string, mode events.AgentMode) error {
	_, err := n.client.server.opts.Commands.DecidePermission(context.WithoutCancel(ctx), tenant, events.AgentPermissionDecided{
		SessionID: n.id, ExecutionID: call.Execution, Server: call.Server, Tool: call.Tool, Outcome: outcome, Mode: mode, Actor: n.client.actor(),
	})
	if err != nil {
		n.client.server.opts.Logger.Error("record a decision about a call", "session", n.id, "error", err)
	}
	return err
}

// callID returns the id of a tool call of a run. The id is unique in the session.
func callID(execution string, number int) sdk.ToolCallId {
	return sdk.ToolCallId(fmt.Sprintf("%s/%d", execution, number))
}

// rawJSON returns a recorded JSON text for the raw members of a tool call: the value,
// or the beginning of a long text.
func rawJSON(b *events.Body) any {
	switch {
	case b == nil:
		return nil
	case b.Blob != nil:
		return map[string]any{"size": b.Blob.Size, "preview": b.Blob.Preview}
	case len(b.Text) <= rawBytes && json.Valid([]byte(b.Text)):
		return json.RawMessage(b.Text)
	default:
		return truncate(b.Text, rawBytes)
	}
}
