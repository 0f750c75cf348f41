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

// taskParams are the params of all methods for tasks.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
	Cursor string `json:"cursor"`

	actor events.Actor // the actor of the request
}

// The results of the methods.
type (
	emptyAck struct {
		sdk.ResultBase
		ResultType string `json:"resultType"`
	}
	getTaskResult struct {
		sdk.ResultBase
		extensionTask
	}
	getCoreTaskResult struct {
		sdk.ResultBase
		coreTask
	}
	listTasksResult struct {
		sdk.ResultBase
		Tasks      []coreTask `json:"tasks"`
		NextCursor string     `json:"nextCursor,omitempty"`
	}
)

// taskMethod is a method of one form of tasks or of both.
type taskMethod struct {
	name            string
	core, extension func(context.Context, *taskParams) (sdk.Result, error)
}

func (s *Server) taskMethods() []taskMethod {
	return []taskMethod{
		{"tasks/get", s.getCoreTask, s.getTask},
		{"tasks/cancel", s.cancelCoreTask, s.cancelTask},
		{"tasks/update", nil, s.updateTask},
		{"tasks/result", s.taskResult, nil},
		{"tasks/list", s.listTasks, nil},
	}
}

// addTaskMethods registers the methods with the SDK.
func (s *Server) addTaskMethods() {
	for _, m := range s.taskMethods() {
		// AddReceivingCustomMethod fails only for names of the protocol's own methods.
		if err := sdk.AddReceivingCustomMethod(s.sdk, m.name, s.taskHandler(m)); err != nil {
			panic(err)
		}
	}
}

// taskHandler selects the form by the request's revision.
func (s *Server) taskHandler(m taskMethod) func(context.Context, *sdk.ServerSession, *taskParams) (sdk.Result, error) {
	return func(ctx context.Context, ss *sdk.ServerSession, p *taskParams) (res sdk.Result, err error) {
		if p == nil {
			p = &taskParams{}
		}
		defer func() {
			if v := recover(); v != nil {
				res, err = nil, s.protocolError(ctx, m.name, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		var do func(context.Context, *taskParams) (sdk.Result, error)
		how := taskFormOf(ss, p.Meta)
		switch how {
		case coreTasks:
			do = m.core
		case extensionTasks:
			do = m.extension
		}
		if do == nil {
			return nil, methodNotFound(m.name)
		}
		if how == extensionTasks && !requestDeclaresTasks(p.Meta) {
			return nil, undeclaredError()
		}
		if p.TaskID == "" && m.name != "tasks/list" {
			return nil, invalidParams("%s needs taskId, the id of a task", m.name)
		}
		p.actor = actorOf(ctx)
		p.actor.Client = clientName(ss, p.Meta)
		ctx, stop := s.untilClose(ctx)
		defer stop()
		if res, err = do(ctx, p); err != nil {
			return nil, s.taskFault(ctx, m.name, p.TaskID, err)
		}
		return res, nil
	}
}

func methodNotFound(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: name + " is not a method of this protocol revision"}
}

// requestDeclaresTasks reports whether a request's own capabilities name the extension.
func requestDeclaresTasks(meta sdk.Meta) bool {
	raw, err := json.Marshal(meta[sdk.MetaKeyClientCapabilities])
	if err != nil {
		return false
	}
	var c sdk.ClientCapabilities
	return json.Unmarshal(raw, &c) == nil && declaresTasks(&c)
}

func (s *Server) getTask(ctx context.Context, p *taskParams) (sdk.Result, error) {
	d, err := s.execution(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	t := &getTaskResult{extensionTask: showExtensionTask(d, "complete")}
	if t.Status == taskCompleted {
		if t.Result, err = s.outcome(ctx, d); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (s *Server) getCoreTask(ctx context.Context, p *taskParams) (sdk.Result, error) {
	d, err := s.execution(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	return &getCoreTaskResult{coreTask: showCoreTask(d)}, nil
}

// updateTask accepts answers to questions of a script. Scripts ask none, so the answers
// are ignored.
func (s *Server) updateTask(ctx context.Context, p *taskParams) (sdk.Result, error) {
	if _, err := s.execution(ctx, p.TaskID); err != nil {
		return nil, err
	}
	return &emptyAck{ResultType: "complete"}, nil
}

// cancelTask cancels the execution. It also succeeds if the execution has already ended;
// tasks/get then returns how it ended.
func (s *Server) cancelTask(ctx context.Context, p *taskParams) (sdk.Result, error) {
	if err := s.cancelRun(ctx, p); err != nil && codeOf(err) != ledger.CodeConflict {
		return nil, err
	}
	return &emptyAck{ResultType: "complete"}, nil
}

// cancelCoreTask cancels the execution and returns the ended task.
func (s *Server) cancelCoreTask(ctx context.Context, p *taskParams) (sdk.Result, error) {
	if err := s.cancelRun(ctx, p); err != nil {
		return nil, err
	}
	d, err := s.execution(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	return &getCoreTaskResult{coreTask: showCoreTask(d)}, nil
}

// cancelRun cancels an execution and waits until the end is readable.
func (s *Server) cancelRun(ctx context.Context, p *taskParams) error {
	seq, err := s.opts.Commands.Cancel(ctx, s.tenant, p.TaskID, p.actor)
	if codeOf(err) == ledger.CodeNotFound {
		return events.ErrNotFound
	}
	if err != nil {
		return err
	}
	wait, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	return s.opts.Queries.Wait(wait, seq)
}

// taskResult waits for the end of the execution without a time limit.
func (s *Server) taskResult(ctx context.Context, p *taskParams) (sdk.Result, error) {
	d, err := s.awaitEnd(ctx, ledger.Receipt{ExecutionID: p.TaskID}, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.outcome(ctx, d)
	if err != nil {
		return nil, err
	}
	res.Meta[relatedTask] = object{{"taskId", p.TaskID}}
	return res, nil
}

func (s *Server) listTasks(ctx context.Context, p *taskParams) (sdk.Result, error) {
	page, err := s.opts.Queries.Executions(ctx, s.tenant, projections.ExecutionFilter{Limit: tasksPerPage, Cursor: p.Cursor})
	if err != nil {
		return nil, err
	}
	list := &listTasksResult{Tasks: make([]coreTask, 0, len(page.Executions)), NextCursor: page.NextCursor}
	for _, e := range page.Executions {
		d, err := s.execution(ctx, e.ExecutionID)
		if err != nil {
			return nil, err
		}
		list.Tasks = append(list.Tasks, showCoreTask(d))
	}
	return list, nil
}
