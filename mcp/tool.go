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

// tool is one row of the table.
type tool struct {
	name        string
	title       string
	description string
	// input lists the arguments; output is the schema of the answer.
	input  []property
	output object
	// How a client may treat the tool: whether it changes anything, whether
	// what it changes is lost, and whether doing it twice is doing it once.
	readOnly, destructive, idempotent bool
	// openWorld tools reach something outside of the server.
	openWorld bool

	call func(ctx context.Context, c caller, a arguments) (answer, error)

	// A tool that begins an execution can be called as a task: submit begins
	// it, and the rest is the task's. Then call is nil, and finish makes the
	// answer for who did not ask for a task.
	submit func(ctx context.Context, c caller, a arguments) (ledger.Receipt, error)
	finish func(ctx context.Context, c caller, a arguments, r ledger.Receipt) (answer, error)
	// taskOnly refuses calls from clients that do not know tasks.
	taskOnly bool

	// skipContext calls leave nothing in their context.
	skipContext bool
	// heavy calls cost far more than the message: see package reads.
	heavy bool
	// reportsRepeats tells whoever calls the tool again with the same arguments so.
	reportsRepeats bool
}

// do calls the tool, not as a task.
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

// answer is what a tool has to say.
type answer struct {
	// value encodes to a JSON object that satisfies the tool's output schema.
	value any
	// seq is the position of the event a command recorded; 0 for a question.
	seq uint64
	// failed marks an answer that tells of a failure in its documented form.
	failed bool
	// links lead to what the answer shows only a part of; none when it shows all.
	links []*sdk.ResourceLink
	// meta is what is told beside the answer, under keys of its own.
	meta sdk.Meta
}

// metaSequence is the key in a result's _meta under which a command tells the
// position of what it recorded.
const metaSequence = "daybook/sequence"

// answerWait is how long a call may take that does not wait for the end of a run: the
// client has the answer within 5 s. contextWait is the part of it in which the call waits
// for its context.
const answerWait, contextWait = 4500 * time.Millisecond, 2 * time.Second

// timeLeft is how long what remains to be done of a call may take.
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

// handler adapts a tool to the SDK. Whatever happens inside a call, the client
// gets a result it can act on.
func (s *Server) handler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (res *sdk.CallToolResult, err error) {
		// A fault in one call must not end the process, which also holds the
		// ledger and other clients' connections.
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

// result puts an answer into the protocol's form.
func result(ans answer) (*sdk.CallToolResult, error) {
	body, err := encode(ans.value)
	if err != nil {
		return nil, err
	}
	return resultOf(ans, body, ""), nil
}

// resultOf does so with an answer that is encoded already, and written in a
// format for people.
func resultOf(ans answer, body []byte, format string) *sdk.CallToolResult {
	res := &sdk.CallToolResult{
		IsError:           ans.failed,
		Content:           []sdk.Content{&sdk.TextContent{Text: formatted(body, format)}},
		StructuredContent: json.RawMessage(body),
	}
	for _, link := range ans.links {
		res.Content = append(res.Content, link)
	}
	if ans.seq != 0 || ans.meta != nil {
		res.Meta = sdk.Meta{}
		maps.Copy(res.Meta, ans.meta)
	}
	if ans.seq != 0 {
		res.Meta[metaSequence] = ans.seq
	}
	return res
}

// untilClose bounds a call by the life of the server, keeping the cause apart
// from the client's own cancellation.
func (s *Server) untilClose(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.serverCtx, func() { cancel(errClosing) })
	return ctx, func() { stop(); cancel(nil) }
}

// awaitReadable waits for a time until what a command recorded can be read, so that the
// next question of the same client sees it. A read side that lags does not
// undo what is on record.
func (s *Server) awaitReadable(ctx context.Context, seq uint64, most time.Duration) {
	wait, stop := context.WithTimeout(ctx, most)
	defer stop()
	if err := s.opts.Queries.Wait(wait, seq); err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "waiting for the projections", "seq", seq, "err", err)
	}
}

// encode writes an answer as JSON that people and models can read: <, > and &
// stay as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
