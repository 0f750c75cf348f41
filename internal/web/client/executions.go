package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"daybook/httpapi"
	"daybook/projections"
)

// Execution is an execution with all its fields.
type Execution = projections.ExecutionDetail

// Fetch is the part of a host call about a fetch.
type Fetch = projections.Fetch

// LastReplay is the newest verdict about the replay of an execution.
type LastReplay = projections.LastReplay

// ExecutionSummary is an execution in a list.
type ExecutionSummary = projections.ExecutionSummary

// ExecutionPage is a page of executions.
type ExecutionPage = projections.ExecutionPage

// OutputPage is a part of the output of an execution.
type OutputPage = projections.OutputPage

// OutputLine is a line of the output of an execution.
type OutputLine = projections.OutputLine

// Run is a script to run. Zero members take the defaults of the server.
type Run struct {
	Code     string `json:"code"`
	FileName string `json:"file_name,omitempty"`
	// Heap is the key of the heap to restore. With RequireHeap an unknown heap is an error;
	// otherwise the run starts from a fresh isolate.
	Heap        string `json:"heap,omitempty"`
	RequireHeap bool   `json:"require_heap,omitempty"`
	// Session is the name of the session to log the run under. LogicalSession is the id
	// of the session to run in.
	Session        string            `json:"session,omitempty"`
	LogicalSession string            `json:"logical_session,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	// Files are the sources of other files, by path.
	Files map[string]string `json:"files,omitempty"`
	// ExecutionTimeoutSecs is in seconds, HeapMemoryMaxMB in MiB.
	ExecutionTimeoutSecs *int `json:"execution_timeout_secs,omitempty"`
	HeapMemoryMaxMB      *int `json:"heap_memory_max_mb,omitempty"`
	// Key is the idempotency key; empty for none.
	Key string `json:"-"`
}

// Receipt is the answer to a run that was recorded.
type Receipt struct {
	ExecutionID string `json:"execution_id"`
}

// Submit requests a run. It returns once the request is recorded.
func (c *Client) Submit(ctx context.Context, r Run) (Answer[Receipt], error) {
	return call[Receipt](ctx, c, http.MethodPost, "/api/exec", r, keyHeader(r.Key)...)
}

func executionPath(id string) string { return "/api/executions/" + url.PathEscape(id) }

// Execution returns an execution.
func (c *Client) Execution(ctx context.Context, id string) (Answer[Execution], error) {
	return call[Execution](ctx, c, http.MethodGet, executionPath(id), nil)
}

// maxWait is the longest time that Await accepts.
const maxWait = 60 * time.Second

// Await returns an execution once it has ended. If it has not ended after the time most,
// Await returns its current state. most is cut to whole seconds, and MUST NOT be longer
// than 60 s.
func (c *Client) Await(ctx context.Context, id string, most time.Duration) (Answer[Execution], error) {
	return call[Execution](ctx, c, http.MethodGet, executionPath(id)+query("wait", strconv.Itoa(int(most/time.Second))), nil)
}

// Wait returns an execution once it has ended.
func (c *Client) Wait(ctx context.Context, id string) (Answer[Execution], error) {
	for {
		a, err := c.Await(ctx, id, maxWait)
		if err != nil || a.Body.Status.Terminal() {
			return a, err
		}
	}
}

// Cancel cancels an execution. It returns once the cancellation is recorded.
func (c *Client) Cancel(ctx context.Context, id string) (Answer[OK], error) {
	return call[OK](ctx, c, http.MethodPost, executionPath(id)+"/cancel", nil)
}

// Replayed is the verdict of a replay.
type Replayed = httpapi.Replayed

// TimelineStep is a step of a replay.
type TimelineStep = httpapi.TimelineStep

// ReplayExecution executes an ended run again and returns the recorded verdict, with timeline
// also the steps of the replay. That can take longer than the run took.
func (c *Client) ReplayExecution(ctx context.Context, id string, timeline bool) (Answer[Replayed], error) {
	var body any
	if timeline {
		body = map[string]bool{"timeline": true}
	}
	return call[Replayed](ctx, c, http.MethodPost, executionPath(id)+"/replay", body)
}

// WhatIf is the difference between a recorded run and another script with its inputs.
type WhatIf = httpapi.WhatIf

// ScriptEnd is the end of one of the two scripts of a WhatIf.
type ScriptEnd = httpapi.ScriptEnd

// GlobalsDiff is the part of a WhatIf about the globals.
type GlobalsDiff = httpapi.GlobalsDiff

// WhatIf executes other code with the recorded inputs of an ended run. fileName is its name in
// stack traces; empty for that of the run.
func (c *Client) WhatIf(ctx context.Context, id, code, fileName string) (Answer[WhatIf], error) {
	body := map[string]string{"code": code}
	if fileName != "" {
		body["file_name"] = fileName
	}
	return call[WhatIf](ctx, c, http.MethodPost, executionPath(id)+"/what-if", body)
}

// ExecutionFilter selects executions. Zero members select all.
type ExecutionFilter struct {
	Status  string
	Session string
	// Since is a time in RFC 3339.
	Since string
	// Text is part of the source.
	Text string
	// Tags are KEY=VALUE pairs of the output heap.
	Tags []string
	// Limit is the maximum size of the page; 0 for the default of the server. Cursor is
	// that of the page before.
	Limit  int
	Cursor string
}

// Executions returns a page of executions, newest first.
func (c *Client) Executions(ctx context.Context, f ExecutionFilter) (Answer[ExecutionPage], error) {
	params := []string{"status", f.Status, "session", f.Session, "since", f.Since, "text", f.Text, "limit", number(f.Limit), "cursor", f.Cursor}
	return call[ExecutionPage](ctx, c, http.MethodGet, "/api/executions"+query(withTags(params, f.Tags)...), nil)
}

func withTags(params, tags []string) []string {
	for _, t := range tags {
		params = append(params, "tag", t)
	}
	return params
}

// Text opens a text of an execution: code, result, error or files. The caller MUST close it.
func (c *Client) Text(ctx context.Context, id, name string) (io.ReadCloser, error) {
	resp, err := c.Send(ctx, http.MethodGet, executionPath(id)+"/texts/"+url.PathEscape(name), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Calls are the host calls of an execution.
type Calls struct {
	Calls []projections.Call `json:"calls"`
}

// Calls returns the host calls of an execution.
func (c *Client) Calls(ctx context.Context, id string) (Answer[Calls], error) {
	return call[Calls](ctx, c, http.MethodGet, executionPath(id)+"/calls", nil)
}

// Artifact describes an artifact.
type Artifact = projections.Artifact

// Artifacts are the artifacts of an execution.
type Artifacts struct {
	Artifacts []Artifact `json:"artifacts"`
}

// Artifacts returns the artifacts of an execution, without their bytes.
func (c *Client) Artifacts(ctx context.Context, id string) (Answer[Artifacts], error) {
	return call[Artifacts](ctx, c, http.MethodGet, executionPath(id)+"/artifacts", nil)
}

// Artifact opens the bytes of an artifact: the last one with the name, or the one with the
// number if it is not 0. The caller MUST close it.
func (c *Client) Artifact(ctx context.Context, id, name string, artifact int) (io.ReadCloser, error) {
	segment := url.PathEscape(name)
	if strings.Trim(segment, ".") == "" { // a step in a path
		segment = strings.ReplaceAll(segment, ".", "%2E")
	}
	resp, err := c.Send(ctx, http.MethodGet, executionPath(id)+"/artifacts/"+segment+query("number", number(artifact)), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Output returns output of an execution, starting at the byte offset, which counts from 0.
// most is the maximum number of bytes.
func (c *Client) Output(ctx context.Context, id string, offset, most int64) (Answer[OutputPage], error) {
	window := "?byte_offset=" + strconv.FormatInt(offset, 10) + "&byte_limit=" + strconv.FormatInt(most, 10)
	return call[OutputPage](ctx, c, http.MethodGet, executionPath(id)+"/output"+window, nil)
}

// Truncated says that a part of the output of an execution was not stored.
type Truncated struct {
	ExecutionID string `json:"execution_id"`
	// TotalLines and TotalBytes count the stored output. WrittenLines and WrittenBytes count
	// all output that the script wrote, and SHA256 is its hash. They are nil if that output
	// was not counted to its end.
	TotalLines   int64   `json:"total_lines"`
	TotalBytes   int64   `json:"total_bytes"`
	WrittenLines *int64  `json:"written_lines"`
	WrittenBytes *int64  `json:"written_bytes"`
	SHA256       *string `json:"sha256"`
}

// Output is a message of FollowOutput: a line, or Truncated after the last one.
type Output struct {
	Line      OutputLine
	Truncated *Truncated
	// JSON is the text that Line or Truncated was decoded from.
	JSON json.RawMessage
}

// FollowOutput reads the lines of an execution until it has ended. A broken connection is
// replaced; no line is missing or comes twice.
func (c *Client) FollowOutput(ctx context.Context, id string) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		for m, err := range c.follow(ctx, executionPath(id)+"/output") {
			if err != nil {
				yield(Output{}, err)
				return
			}
			o := Output{JSON: json.RawMessage(m.data)}
			switch m.name {
			case "end":
				return
			case "truncated":
				o.Truncated = new(Truncated)
				err = decode(o.JSON, o.Truncated, nil)
			default:
				err = decode(o.JSON, &o.Line, []string{"text"})
			}
			if err != nil {
				err = c.unusable(ctx, http.MethodGet, executionPath(id)+"/output", err)
			}
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// ExecutionEvents reads the events of an execution, oldest first.
func (c *Client) ExecutionEvents(ctx context.Context, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		resp, err := c.Send(ctx, http.MethodGet, executionPath(id)+"/events", nil, "Accept", "application/json")
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		body := limit(resp.Body)
		in := json.NewDecoder(body)
		begin, err := in.Token()
		if err == nil && begin != json.Delim('[') {
			err = foreignError{errors.New("it is no list")}
		}
		for err == nil && in.More() {
			body.left = maxAnswer
			var e Event
			if err = in.Decode(&e.JSON); err == nil {
				err = decode(e.JSON, &e.CloudEvent, []string{"type", "sequence"})
			}
			if err == nil && !yield(e, nil) {
				return
			}
		}
		if err == nil {
			_, err = in.Token() // the end of the list
		}
		if err != nil {
			yield(Event{}, c.unusable(ctx, http.MethodGet, executionPath(id)+"/events", err))
		}
	}
}
