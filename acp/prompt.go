package acp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/link"
	"daybook/ledger"
	"daybook/projections"
)

// promptRequest is a session/prompt request with the JSON text of its blocks, which is
// recorded.
type promptRequest struct {
	sdk.PromptRequest
	blocks json.RawMessage
}

// UnmarshalJSON decodes the request, and its blocks as raw JSON.
func (p *promptRequest) UnmarshalJSON(b []byte) error {
	var raw struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	p.blocks = raw.Prompt
	return json.Unmarshal(b, &p.PromptRequest)
}

var (
	endTurnResponse   = sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn}
	cancelledResponse = sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}
)

func (c *client) prompt(ctx context.Context, p promptRequest) (sdk.PromptResponse, error) {
	id := string(p.SessionId)
	n, err := c.session(ctx, id)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	a, err := readPrompt(p.Prompt)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	t := c.turnOf(id)
	if t == nil {
		return cancelledResponse, nil // the connection is ending
	}
	// $/cancel_request cancels ctx, and the turn with it.
	stop := context.AfterFunc(ctx, t.cancel)
	defer stop()
	select {
	case <-n.announced:
	case <-t.ctx.Done():
	}
	if t.ctx.Err() != nil {
		return cancelledResponse, nil
	}
	asking := ledger.AgentPrompt{Tenant: tenant, Session: id, Blocks: string(p.blocks), Actor: c.actor(), Traceparent: traceparent(p.Meta)}
	if !a.runsNothing() {
		globals, err := a.globals()
		if err != nil {
			return sdk.PromptResponse{}, err
		}
		asking.Run = run(a.code, globals, n.settings())
		asking.Run.Context = c.contextOf(ctx, id)
		if !n.hasTitle() {
			asking.Title = a.title
		}
	}
	earlier, err := c.earlierPrompt(ctx, id, t.delivery, &asking)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	// From here on, the prompt is recorded to its end, whatever happens to the request. A
	// client that disconnects cancels only the turn.
	ctx = context.WithoutCancel(ctx)
	done, err := c.server.opts.Commands.Prompt(ctx, asking)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	if asking.Title != "" {
		n.setTitle()
	}
	if err := c.server.opts.Queries.Wait(ctx, done.Seq); err != nil {
		return sdk.PromptResponse{}, err
	}
	r := rendering{parsed: a, prompt: projections.AgentPrompt{
		PromptID: done.PromptID, At: events.FormatTime(done.At.Time), Blocks: asking.Blocks, Title: asking.Title, ExecutionID: done.ExecutionID,
	}}
	if earlier != nil {
		r.prompt = *earlier
	}
	if err := c.sendUpdates(ctx, id, r.startUpdates()); err != nil {
		return sdk.PromptResponse{}, err
	}
	if earlier != nil && earlier.Answer != nil {
		return endTurnResponse, c.sendUpdates(ctx, id, r.answerUpdates(*earlier.Answer))
	}
	if a.runsNothing() {
		return c.command(ctx, n, r)
	}
	return c.follow(ctx, n, t, r)
}

// earlierPrompt sets the id of a prompt that came over a link. If an earlier owner
// recorded the prompt, it sets p.Recorded and returns the recorded prompt.
func (c *client) earlierPrompt(ctx context.Context, session string, d link.Delivery, p *ledger.AgentPrompt) (*projections.AgentPrompt, error) {
	if d.Key == "" {
		return nil, nil
	}
	p.ID = events.DerivedID(tenant, "acp-"+d.Key)
	if !d.Again {
		return nil, nil
	}
	recorded, err := c.server.opts.Queries.AgentPrompts(ctx, tenant, session)
	if err != nil {
		return nil, err
	}
	for _, one := range recorded {
		if one.PromptID == p.ID {
			p.Recorded = true
			return &one, nil
		}
	}
	return nil, nil
}

func run(code string, globals map[string]json.RawMessage, config events.AgentConfig) *ledger.Submission {
	s := &ledger.Submission{Code: code, Globals: globals, FileName: "prompt.ts"}
	if config.HeapMemoryMaxMB != 0 {
		s.HeapMemoryMaxMB = &config.HeapMemoryMaxMB
	}
	if config.ExecutionTimeoutSecs != 0 {
		s.ExecutionTimeoutSecs = &config.ExecutionTimeoutSecs
	}
	return s
}

// contextOf returns the reference to the conversation context of a session, which
// shows the runs of the session to its other clients. If there is an error, contextOf
// logs it and returns nil, because a prompt can run without a conversation context.
func (c *client) contextOf(ctx context.Context, session string) *events.ContextRef {
	if c.server.opts.Contexts == nil {
		return nil
	}
	ref, err := c.server.opts.Contexts.Ref(ctx, contextstore.Key{Tenant: tenant, Kind: events.ContextLogical, ID: session})
	if err != nil {
		if ctx.Err() == nil {
			c.server.opts.Logger.WarnContext(ctx, "get the conversation context of an ACP session", "session", session, "err", err)
		}
		return nil
	}
	return &ref
}

func traceparent(meta map[string]any) string {
	s, _ := meta["traceparent"].(string)
	return s
}

func (n *session) hasTitle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.titleSet
}

func (n *session) setTitle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.titleSet = true
}

func (c *client) sendUpdates(ctx context.Context, session string, list []sdk.SessionUpdate) error {
	for _, u := range list {
		if err := c.sendUpdate(ctx, session, u); err != nil {
			return err
		}
	}
	return nil
}

// follow sends the updates of a run until the run has ended. If the turn is cancelled,
// follow cancels the run.
func (c *client) follow(ctx context.Context, n *session, t *turn, r rendering) (sdk.PromptResponse, error) {
	execution := r.prompt.ExecutionID
	changed, stop := c.server.opts.Queries.Watch(tenant, execution)
	defer stop()
	var mark projections.TraceMark
	stopped := t.ctx.Done()
	var late <-chan time.Time
	for {
		trace, err := c.server.opts.Queries.Trace(ctx, tenant, execution, mark)
		if err != nil {
			return sdk.PromptResponse{}, err
		}
		mark = trace.Next
		// If the client cannot be written to, its connection ends and cancels the turn.
		_ = c.sendUpdates(ctx, n.id, r.progressUpdates(trace))
		if !trace.More && trace.Status.Terminal() {
			shown, err := c.artifactsOf(ctx, execution, trace)
			if err != nil {
				return sdk.PromptResponse{}, err
			}
			if err := c.sendUpdates(ctx, n.id, r.endUpdates(trace, shown)); err != nil {
				return sdk.PromptResponse{}, err
			}
			if stopped == nil {
				return cancelledResponse, nil
			}
			return endTurnResponse, nil
		}
		if trace.More && (stopped == nil || t.ctx.Err() == nil) && !c.isDetached() {
			continue
		}
		select {
		case <-changed:
		case <-c.detached:
			return sdk.PromptResponse{}, ErrDetached
		case <-stopped:
			stopped = nil
			timer := time.NewTimer(endTimeout)
			defer timer.Stop()
			late = timer.C
			seq, err := c.server.opts.Commands.Cancel(ctx, tenant, execution, c.actor())
			switch {
			case err == nil:
				err = c.server.opts.Queries.Wait(ctx, seq)
			case ledger.CodeOf(err) == ledger.CodeConflict:
				err = nil // the run has ended meanwhile
			}
			if err != nil {
				return sdk.PromptResponse{}, err
			}
		case <-late:
			return sdk.PromptResponse{}, errors.New("the run was cancelled, and its end cannot be read")
		}
	}
}
