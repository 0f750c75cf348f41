package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// tasksOnCall answers a tools/call with a task if the client asks for one or accepts
// one. It adds the support of tasks to the answers of initialize and tools/list.
func (s *Server) tasksOnCall(tools map[string]tool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if call, ok := req.(*sdk.CallToolRequest); ok {
				t := tools[call.Params.Name]
				begin, err := wantsTask(call, t)
				if err != nil {
					return nil, err
				}
				if begin {
					return s.beginTask(ctx, call, t)
				}
			}
			res, err := next(ctx, method, req)
			if err != nil {
				return res, err
			}
			switch res := res.(type) {
			case *sdk.InitializeResult:
				return announceTasks(res), nil
			case *sdk.ListToolsResult:
				res = filterTools(ctx, res, tools)
				ss, ok := req.GetSession().(*sdk.ServerSession)
				if ok && taskFormOf(ss, req.GetParams().GetMeta()) == coreTasks {
					return &toolsWithTasks{ListToolsResult: res, tools: tools}, nil
				}
				return res, nil
			}
			return res, nil
		}
	}
}

// wantsTask reports whether to answer a call with a task.
func wantsTask(call *sdk.CallToolRequest, t tool) (bool, error) {
	switch taskFormOf(call.Session, call.Params.Meta) {
	case coreTasks:
		if _, asked := call.Params.Meta[metaTask]; !asked {
			return false, nil
		}
		if t.name != "" && t.submit == nil {
			return false, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("%s cannot be called as a task, because it starts no run", t.name)}
		}
		return t.submit != nil, nil
	case extensionTasks:
		if t.submit == nil || acceptsTask(call) {
			return t.submit != nil, nil
		}
		if t.taskOnly {
			return false, undeclaredError()
		}
	}
	return false, nil
}

// acceptsTask reports whether the client of a call accepts a task as its answer. The SDK has
// checked the capabilities of a request that names its revision. To return them, it would
// encode and decode them again, with a buffer of 32 KiB.
func acceptsTask(call *sdk.CallToolRequest) bool {
	caps, ok := call.Params.Meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	if revision, _ := call.Params.Meta[sdk.MetaKeyProtocolVersion].(string); !ok || revision < statelessRevision {
		return declaresTasks(call.ClientCapabilities())
	}
	extensions, _ := caps["extensions"].(map[string]any)
	_, ok = extensions[tasksExtension]
	return ok
}

// declaresTasks reports whether a client accepts a task as an answer.
func declaresTasks(c *sdk.ClientCapabilities) bool {
	if c == nil {
		return false
	}
	_, ok := c.Extensions[tasksExtension]
	return ok
}

// undeclaredError returns the error that names the capability that a client must
// declare.
func undeclaredError() error {
	data, err := json.Marshal(object{{"requiredCapabilities", object{{"extensions", object{{tasksExtension, object{}}}}}}})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code: sdk.CodeMissingRequiredClientCapabilities, Data: data,
		Message: "tasks are for clients that declare the extension " + tasksExtension + " in the request's capabilities",
	}
}

type (
	// createTaskResult is the answer to a call with the extension.
	createTaskResult struct {
		sdk.ResultBase
		extensionTask
	}
	// createCoreTaskResult is the answer to a call in revision 2025-11-25.
	createCoreTaskResult struct {
		sdk.ResultBase
		Task coreTask `json:"task"`
	}
)

// beginTask submits the execution of a call and returns its task. The execution is
// readable on return.
func (s *Server) beginTask(ctx context.Context, call *sdk.CallToolRequest, t tool) (res sdk.Result, err error) {
	how := taskFormOf(call.Session, call.Params.Meta)
	// A client of revision 2025-11-25 expects a task or a JSON-RPC error, and no result of a
	// tool.
	refuse := func(err error) (sdk.Result, error) {
		if how == coreTasks {
			return nil, s.protocolError(ctx, t.name, err)
		}
		return s.refuse(ctx, t.name, err), nil
	}
	defer func() {
		if v := recover(); v != nil {
			res, err = refuse(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	ctx, stop := s.untilClose(ctx)
	defer stop()
	if err := checkScope(ctx, t); err != nil {
		return refuse(err)
	}
	a, err := s.arguments(t, call.Params.Arguments)
	if err != nil {
		return refuse(err)
	}
	c := s.callerOf(ctx, call)
	r, err := t.submit(ctx, c, a)
	if err != nil {
		return refuse(err)
	}
	d, err := s.awaitReadableExecution(ctx, r)
	if err != nil {
		return refuse(fmt.Errorf("the run was accepted as execution %s and can not be read yet: %w", r.ExecutionID, err))
	}
	d = projections.ExecutionDetail{
		Execution:   projections.Execution{ExecutionID: d.ExecutionID, Status: events.StatusRunning},
		RequestedAt: d.RequestedAt, Queued: true, // a new task has this state, even if the run has progressed
	}
	meta := sdk.ResultBase{Meta: sdk.Meta{metaSequence: r.Seq}}
	if how == coreTasks {
		s.notifyTaskOutput(c.listener, r)
		return &createCoreTaskResult{ResultBase: meta, Task: showCoreTask(d)}, nil
	}
	return &createTaskResult{ResultBase: meta, extensionTask: showExtensionTask(d, "task")}, nil
}

// awaitReadableExecution waits up to answerWait until an accepted execution is readable,
// and returns it.
func (s *Server) awaitReadableExecution(ctx context.Context, r ledger.Receipt) (projections.ExecutionDetail, error) {
	wait, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	if err := s.opts.Queries.Wait(wait, r.Seq); err != nil {
		return projections.ExecutionDetail{}, err
	}
	return s.execution(ctx, r.ExecutionID)
}

// announceTasks rewrites the answer to initialize, which only revisions with sessions
// use. There tasks are a capability of one revision, and not an extension.
func announceTasks(res *sdk.InitializeResult) sdk.Result {
	plain := *res
	caps := *res.Capabilities
	caps.Extensions = nil // no extension of this server applies to sessions
	plain.Capabilities = &caps
	if res.ProtocolVersion != coreTasksRevision {
		return &plain
	}
	return &initializeWithTasks{InitializeResult: &plain}
}

type initializeWithTasks struct{ *sdk.InitializeResult }

// MarshalJSON adds the capability, for which the SDK has no member.
func (r *initializeWithTasks) MarshalJSON() ([]byte, error) {
	caps, err := addMember(r.Capabilities, "tasks", object{
		{"list", object{}}, {"cancel", object{}},
		{"requests", object{{"tools", object{{"call", object{}}}}}},
	})
	if err != nil {
		return nil, err
	}
	return addMember(r.InitializeResult, "capabilities", json.RawMessage(caps))
}

type toolsWithTasks struct {
	*sdk.ListToolsResult
	tools map[string]tool
}

// MarshalJSON adds to each tool whether it can be called as a task.
func (r *toolsWithTasks) MarshalJSON() ([]byte, error) {
	list := make([]json.RawMessage, 0, len(r.Tools))
	for _, t := range r.Tools {
		known := r.tools[t.Name]
		var raw []byte
		var err error
		switch {
		case known.submit == nil:
			raw, err = encode(t)
		case known.taskOnly:
			raw, err = addMember(t, "execution", object{{"taskSupport", "required"}})
		default:
			raw, err = addMember(t, "execution", object{{"taskSupport", "optional"}})
		}
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	return addMember(r.ListToolsResult, "tools", list)
}

// addMember encodes an object with one member added or replaced.
func addMember(v any, name string, member any) ([]byte, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	var o map[string]json.RawMessage
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("add %s to an answer: %w", name, err)
	}
	if o[name], err = encode(member); err != nil {
		return nil, err
	}
	return encode(o)
}
