package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// A task is an execution: its id is the execution's, and its state is read from the
// projections. So every execution is a task, however it was submitted. The package
// stores nothing for tasks, and a task outlives its connection and its process.
//
// Execution ids have 74 random bits, so that they cannot be guessed. A task returns to a
// caller no more than list_executions and get_execution do.

// taskForm is the form of tasks in a client's protocol revision.
type taskForm int

const (
	// noTasks is for revisions before 2025-11-25.
	noTasks taskForm = iota
	// coreTasks is for revision 2025-11-25: the client asks for a task with a member of the
	// call, and reads the result with tasks/result.
	coreTasks
	// extensionTasks is for revisions from 2026-07-28 on: the client declares that it
	// accepts a task as an answer, and tasks/get returns the result.
	extensionTasks
)

const (
	coreTasksRevision = "2025-11-25"
	// tasksExtension is the name of the extension.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// relatedTask is the key in _meta that names the task of a message in revision
	// 2025-11-25.
	relatedTask = "io.modelcontextprotocol/related-task"
	// taskPollMillis is the recommended time between two tasks/get of a client, in
	// milliseconds.
	taskPollMillis = 500
	// tasksPerPage is the length of a page of tasks/list.
	tasksPerPage = 50
)

// taskFormOf returns the form of tasks for a request. In revisions without sessions,
// each request names its revision.
func taskFormOf(ss *sdk.ServerSession, meta sdk.Meta) taskForm {
	revision, _ := meta[sdk.MetaKeyProtocolVersion].(string)
	if p := ss.InitializeParams(); revision == "" && p != nil {
		revision = p.ProtocolVersion
	}
	switch {
	case revision >= statelessRevision:
		return extensionTasks
	case revision == coreTasksRevision:
		return coreTasks
	default:
		return noTasks
	}
}

// task has the members that both forms have.
type task struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
}

// The statuses of tasks.
const (
	taskWorking   = "working"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// showTask describes an execution as a task. In revision 2025-11-25 a script that throws
// is a failed task. The extension uses failed only for calls that ended with a protocol
// error; they have no execution.
func showTask(d projections.ExecutionDetail, how taskForm) task {
	t := task{TaskID: d.ExecutionID, CreatedAt: d.RequestedAt, LastUpdatedAt: d.RequestedAt}
	if !d.Queued {
		t.LastUpdatedAt = d.StartedAt
	}
	if d.CompletedAt != nil {
		t.LastUpdatedAt = *d.CompletedAt
	}
	switch d.Status {
	case events.StatusCompleted:
		t.Status = taskCompleted
	case events.StatusCancelled:
		t.Status = taskCancelled
	case events.StatusFailed, events.StatusTimedOut:
		t.Status = taskFailed
		if how == extensionTasks {
			t.Status = taskCompleted
		}
	default:
		t.Status, t.StatusMessage = taskWorking, runningMessage(d)
	}
	if d.Error != nil {
		t.StatusMessage, _, _ = strings.Cut(*d.Error, "\n")
		t.StatusMessage = clip(t.StatusMessage)
	}
	return t
}

// runningMessage describes the state of a run that has not ended.
func runningMessage(d projections.ExecutionDetail) string {
	switch {
	case d.Queued:
		return "queued"
	case d.TotalLines == 1:
		return "running, 1 line of output"
	case d.TotalLines > 1:
		return fmt.Sprintf("running, %d lines of output", d.TotalLines)
	default:
		return "running"
	}
}

// coreTask is a task in revision 2025-11-25. TTL is null: recorded executions do not
// expire.
type coreTask struct {
	task
	TTL          *int64 `json:"ttl"`
	PollInterval int    `json:"pollInterval,omitempty"`
}

func showCoreTask(d projections.ExecutionDetail) coreTask {
	t := coreTask{task: showTask(d, coreTasks)}
	if t.Status == taskWorking {
		t.PollInterval = taskPollMillis
	}
	return t
}

// extensionTask is a task in the extension, with the result after the end.
type extensionTask struct {
	ResultType string `json:"resultType"`
	task
	TTLMs          *int64              `json:"ttlMs"`
	PollIntervalMs int                 `json:"pollIntervalMs,omitempty"`
	Result         *sdk.CallToolResult `json:"result,omitempty"`
}

func showExtensionTask(d projections.ExecutionDetail, resultType string) extensionTask {
	t := extensionTask{ResultType: resultType, task: showTask(d, extensionTasks)}
	if t.Status == taskWorking {
		t.PollIntervalMs = taskPollMillis
	}
	return t
}

// outcome returns the result that the call would have had if it had waited for the end
// of the execution.
func (s *Server) outcome(ctx context.Context, d projections.ExecutionDetail) (*sdk.CallToolResult, error) {
	if s.opts.Stateless {
		out, err := s.allOutput(ctx, d.ExecutionID)
		if err != nil {
			return nil, err
		}
		return result(answer{value: outputAnswer{Output: out, Result: d.Result, Error: d.Error}, seq: d.Seq})
	}
	ans, err := s.fullAnswerOf(ctx, d)
	if err != nil {
		return nil, err
	}
	ans.failed = d.Status != events.StatusCompleted
	return result(ans)
}

// taskFault returns the JSON-RPC error for a request about a task.
func (s *Server) taskFault(ctx context.Context, method, id string, err error) error {
	if errors.Is(err, events.ErrNotFound) {
		return invalidParams("Task '%s' not found; take taskId from the task that a tools/call was answered with", ledger.Excerpt(id))
	}
	return s.protocolError(ctx, method, err)
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
