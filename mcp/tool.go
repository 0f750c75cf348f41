package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/ledger"
)

// tool is one row of the tool table.
type tool struct {
	name        string
	title       string
	description string
	// input lists the arguments. output is the schema of the answer.
	input  []property
	output object
	// Hints for clients: the tool changes nothing; it can delete or replace data; repeating
	// a call has no further effect.
	readOnly, destructive, idempotent bool
	// An openWorld tool can reach systems outside the server.
	openWorld bool

	call func(ctx context.Context, c caller, a arguments) (answer, error)

	// A tool that starts an execution can be called as a task. It has submit and finish and
	// no call. submit records the request. finish answers a call that is not a task.
	submit func(ctx context.Context, c caller, a arguments) (ledger.Receipt, error)
	finish func(ctx context.Context, c caller, a arguments, r ledger.Receipt) (answer, error)
	// A taskOnly tool refuses the calls of a client whose revision has the tasks extension
	// but that does not declare the extension. For clients of core tasks, tools/list says
	// that the tool requires a task.
	taskOnly bool

	// Calls of a tool with skipContext are not noted in the conversation context.
	skipContext bool
	// A heavy tool reads far more than its answer shows. See package reads.
	heavy bool
	// A tool with reportsRepeats says in its answer if it returned the same answer for the
	// same arguments before.
	reportsRepeats bool
}

// do performs a call that is not a task.
func (t tool) do(ctx context.Context, c caller, a arguments) (answer, error) {
	if t.submit == nil {
		return t.call(ctx, c, a)
	}
	r, err := t.submit(ctx, c, a)
	if err != nil {
		return answer{}, err
	}
	dropCode(ctx, a)
	return t.finish(ctx, c, a, r)
}

// answer is the successful result of a call.
type answer struct {
	// value encodes to a JSON object that satisfies the tool's output schema.
	value any
	// seq is the position of the event that a command recorded; 0 for a read.
	seq uint64
	// failed marks an answer that reports a failure in its documented form.
	failed bool
	// links address the complete texts that the answer shows only in part.
	links []*sdk.ResourceLink
	// blocks is further content.
	blocks []sdk.Content
	// meta holds further members of the result's _meta.
	meta sdk.Meta
}

// metaSequence is the key in a result's _meta for the position of the event that a
// command recorded.
const metaSequence = "daybook/sequence"

// answerWait bounds the time that a call waits for its conversation context and until
// events are readable. It bounds neither the work of the call nor a wait for the end of a
// run. With it, the client usually has the answer within 5 s. contextWait is the part of
// answerWait for the conversation context.
const answerWait, contextWait = 4500 * time.Millisecond, 2 * time.Second

// timeLeft returns how long the next wait of a call may take: the rest of answerWait, but
// at least 1 s.
func timeLeft(began time.Time) time.Duration {
	return max(answerWait-time.Since(began), time.Second)
}

func (t tool) declaration() *sdk.Tool {
	return &sdk.Tool{
		Name:         t.name,
		Title:        t.title,
		Description:  t.description,
		InputSchema:  inputSchema(t.input),
		OutputSchema: t.output,
		Annotations: &sdk.ToolAnnotations{
			Title:           t.title,
			ReadOnlyHint:    t.readOnly,
			DestructiveHint: &t.destructive,
			IdempotentHint:  t.idempotent,
			OpenWorldHint:   &t.openWorld,
		},
	}
}

// handler adapts a tool to the SDK. Each call returns a result that the client can act
// on, also after an error or a panic.
func (s *Server) handler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
		// A panic in one call must not end the process, which also holds the ledger and the
		// connections of other clients.
		defer func() {
			if v := recover(); v != nil {
				res, err = s.refuse(ctx, t.name, fmt.Errorf("panic: %v\n%s", v, debug.Stack())), nil
			}
		}()
		ctx, stop := s.untilClose(ctx)
		defer stop()
		if err := checkScope(ctx, t); err != nil {
			return s.refuse(ctx, t.name, err), nil
		}
		if s.opts.Unanswerable != nil {
			if err := s.opts.Unanswerable(); err != nil {
				return s.refuse(ctx, t.name, err), nil
			}
		}
		a, err := s.arguments(t, req.Params.Arguments)
		if err != nil {
			return s.refuse(ctx, t.name, err), nil
		}
		if t.heavy {
			if err := takePermit(ctx); err != nil {
				return s.refuse(ctx, t.name, err), nil
			}
		}
		c := s.callerOf(ctx, req)
		began := time.Now()
		use := s.beginContextUse(ctx, c, t, a)
		asked := ctx
		if t.submit == nil {
			asked = ledger.WithRequestTime(ctx, began)
		}
		ans, err := t.do(asked, c, a)
		if err != nil {
			return s.refuse(ctx, t.name, err), nil
		}
		body, err := encode(ans.value)
		if err != nil {
			return s.refuse(ctx, t.name, err), nil
		}
		res = resultOf(ans, s.endContextUse(ctx, use, t, a, ans, body), use.format())
		if ans.seq != 0 {
			s.awaitReadable(ctx, ans.seq, timeLeft(began))
		}
		return res, nil
	}
}

// result converts an answer to the protocol's form.
func result(ans answer) (*sdk.CallToolResult, error) {
	body, err := encode(ans.value)
	if err != nil {
		return nil, err
	}
	return resultOf(ans, body, ""), nil
}

// resultOf converts an answer that is already encoded as body. format is the client's
// preferred text format.
func resultOf(ans answer, body []byte, format string) *sdk.CallToolResult {
	res := &sdk.CallToolResult{
		IsError:           ans.failed,
		Content:           []sdk.Content{&sdk.TextContent{Text: formatted(body, format)}},
		StructuredContent: json.RawMessage(body),
	}
	for _, link := range ans.links {
		res.Content = append(res.Content, link)
	}
	res.Content = append(res.Content, ans.blocks...)
	if ans.seq != 0 || ans.meta != nil {
		res.Meta = sdk.Meta{}
		maps.Copy(res.Meta, ans.meta)
	}
	if ans.seq != 0 {
		res.Meta[metaSequence] = ans.seq
	}
	return res
}

// untilClose cancels the context of a call when the server closes. The cause errClosing
// distinguishes this from a cancellation by the client.
func (s *Server) untilClose(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.serverCtx, func() { cancel(errClosing) })
	return ctx, func() { stop(); cancel(nil) }
}

// awaitReadable waits until the event at seq is readable, so that the next read of the
// client includes it. It waits no longer than most. A timeout is only logged, because the
// event is recorded.
func (s *Server) awaitReadable(ctx context.Context, seq uint64, most time.Duration) {
	wait, stop := context.WithTimeout(ctx, most)
	defer stop()
	if err := s.opts.Queries.Wait(wait, seq); err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "waiting for the projections", "seq", seq, "err", err)
	}
}

// encode returns an answer as JSON without HTML escapes: <, > and & stay as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
