package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// callStatements are the statements about host calls.
type callStatements struct{ call, lastCall, answer, blankCalls *statement }

func (s *callStatements) queries() []statementDef {
	return []statementDef{
		{&s.call, `INSERT OR IGNORE INTO calls (execution, number, seq, attempt, server, tool, arguments_sha256, arguments, called_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.lastCall, `SELECT coalesce(max(number), 0) FROM calls WHERE execution = ?`},
		{&s.answer, `UPDATE calls SET returned_seq = ?3, outcome = ?4, duration = ?5, result_sha256 = ?6, result = ?7, returned_at = ?8, fetch = ?9, requests = ?10 WHERE execution = ?1 AND number = ?2 AND returned_seq IS NULL`},
		{&s.blankCalls, `UPDATE calls SET arguments = NULL, result = NULL, requests = NULL WHERE execution IN (SELECT execution FROM sealed_runs WHERE tenant = ?1 AND key_id = ?2)`},
	}
}

func (a *applier) applyCalled(e *events.Event, d *events.HostCalled) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	var last int
	if err := a.queryRow(a.s.lastCall, st.id).Scan(&last); err != nil {
		return err
	}
	if d.Number != last+1 {
		return a.recordAnomaly(e, "call %d of execution %s follows call %d", d.Number, d.ExecutionID, last)
	}
	if err := a.exec(a.s.call, st.id, d.Number, e.Seq, d.Attempt, d.Server, d.Tool, d.ArgumentsSHA256, bodyJSON(d.Content.Value().Arguments), e.Time.UnixMilli()); err != nil {
		return err
	}
	if err := a.noteCallInContext(e, d); err != nil {
		return err
	}
	return a.touch(e, st)
}

func (a *applier) applyReturned(e *events.Event, d *events.HostReturned) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	content := d.Content.Value()
	var fetch, requests any
	if d.Fetch != nil {
		fetch = asJSON(d.Fetch)
	}
	if content.Requests != nil {
		requests = asJSON(content.Requests)
	}
	added, err := a.execCount(a.s.answer, st.id, d.Number, e.Seq, string(d.Outcome), d.DurationMillis, d.ResultSHA256, bodyJSON(content.Result), e.Time.UnixMilli(), fetch, requests)
	if err != nil {
		return err
	}
	if added == 0 {
		return a.recordAnomaly(e, "an answer to call %d of execution %s, which is not pending", d.Number, d.ExecutionID)
	}
	if err := a.noteReturnInContext(e, d); err != nil {
		return err
	}
	return a.touch(e, st)
}

// touch marks an event as the newest about an execution.
func (a *applier) touch(e *events.Event, st *executionState) error {
	st.lastSeq = e.Seq
	if st.row != nil {
		return nil
	}
	return a.exec(a.s.touch, st.id, e.Seq)
}

// Call is a host call: a call of a script to a tool server.
type Call struct {
	Number  int    `json:"number" doc:"Counts the calls of the execution from 1."`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Attempt int    `json:"attempt" doc:"The attempt that made the call."`
	// ArgumentsSHA256 and ResultSHA256 are the hashes of the texts.
	ArgumentsSHA256 string       `json:"arguments_sha256"`
	Arguments       *events.Body `json:"arguments" doc:"The arguments as JSON text; null where only hashes are kept. Long ones are a blob with a preview."`
	CalledAt        string       `json:"called_at"`
	// Outcome is nil while the call is pending.
	Outcome      *string      `json:"outcome" doc:"ok, error, timeout or cancelled; null while the call is pending, or when nobody knows what became of it."`
	DurationMS   *int64       `json:"duration_ms"`
	ResultSHA256 *string      `json:"result_sha256"`
	Result       *events.Body `json:"result" doc:"A value as JSON text if the outcome is ok, otherwise a message."`
	ReturnedAt   *string      `json:"returned_at"`
	// Fetch is nil for the call of a tool, and for a fetch that is pending.
	Fetch *Fetch `json:"fetch,omitempty" doc:"Requests of a fetch, which is a call of the server daybook:http; absent for the call of a tool, and while the fetch is pending."`
}

// Fetch describes a fetch that has ended.
type Fetch struct {
	Requests     []FetchRequest    `json:"requests" doc:"The request of the script and the redirects that it followed, in order. The last one may be denied. Empty for a malformed request."`
	RequestBody  *events.FetchBody `json:"request_body,omitempty" doc:"Hash and size of the body of the request; absent without a body."`
	ResponseBody *events.FetchBody `json:"response_body,omitempty" doc:"Hash and size of the body that the script received; absent without a body."`
}

// FetchRequest is one request of a fetch, with the decision about it.
type FetchRequest struct {
	Method       string   `json:"method,omitempty" doc:"Absent where only hashes are kept, and if the content is erased."`
	URL          string   `json:"url,omitempty" doc:"Cut after 2 KiB. Absent where only hashes are kept, and if the content is erased."`
	Allowed      bool     `json:"allowed" doc:"Whether the policy permitted the request."`
	Problem      string   `json:"problem,omitempty" doc:"Why the policy did not decide; the request is then denied."`
	PolicySHA256 string   `json:"policy_sha256" doc:"Hash of the policy."`
	Rule         string   `json:"rule" doc:"Rule of the policy that decided."`
	AddedHeaders []string `json:"added_headers,omitempty" doc:"Names of the headers that the operator's rules added."`
	Status       int      `json:"status,omitempty" doc:"Status of the response; absent if there was none."`
}

// fetchOf returns a fetch from its two columns.
func fetchOf(record, requests sql.NullString) (*Fetch, error) {
	if !record.Valid {
		return nil, nil
	}
	var r events.FetchRecord
	var list []events.FetchRequest
	if err := json.Unmarshal([]byte(record.String), &r); err != nil {
		return nil, err
	}
	if requests.Valid {
		if err := json.Unmarshal([]byte(requests.String), &list); err != nil {
			return nil, err
		}
	}
	f := &Fetch{Requests: make([]FetchRequest, len(r.Decisions)), RequestBody: r.RequestBody, ResponseBody: r.ResponseBody}
	for i, d := range r.Decisions {
		f.Requests[i] = FetchRequest{Allowed: d.Allowed, PolicySHA256: d.PolicySHA256, Rule: d.Rule, AddedHeaders: d.AddedHeaders, Status: d.Status}
		if i < len(list) {
			f.Requests[i].Method, f.Requests[i].URL, f.Requests[i].Problem = list[i].Method, list[i].URL, list[i].Problem
		}
	}
	return f, nil
}

// Calls returns the host calls of an execution by number. It returns events.ErrNotFound
// for an unknown execution, and an *events.RemovedError for a removed one.
func (s *Store) Calls(ctx context.Context, tenant, id string) ([]Call, error) {
	wrapErr := func(err error) error { return fmt.Errorf("read the calls of execution %s: %w", id, err) }
	rows, err := s.reader.QueryContext(ctx, `SELECT c.number, c.server, c.tool, c.attempt, c.arguments_sha256, c.arguments, c.called_at,
			c.outcome, c.duration, c.result_sha256, c.result, c.returned_at, c.fetch, c.requests
		FROM executions e LEFT JOIN calls c ON c.execution = e.id WHERE e.tenant = ? AND e.execution_id = ? ORDER BY c.number`, tenant, id)
	if err != nil {
		return nil, wrapErr(err)
	}
	defer rows.Close()
	calls, exists := []Call{}, false
	for rows.Next() {
		exists = true
		var number sql.NullInt64
		var server, tool, argumentsHash, arguments, result, fetch, requests sql.NullString
		var attempt, called, returned sql.NullInt64
		var c Call
		if err := rows.Scan(&number, &server, &tool, &attempt, &argumentsHash, &arguments, &called, &c.Outcome, &c.DurationMS, &c.ResultSHA256, &result, &returned, &fetch, &requests); err != nil {
			return nil, wrapErr(err)
		}
		if !number.Valid {
			continue // the execution made no call
		}
		if err := budget.Take(ctx, 512+len(arguments.String)+len(result.String)+2*len(fetch.String)+len(requests.String)); err != nil {
			return nil, err
		}
		c.Number, c.Server, c.Tool, c.Attempt, c.ArgumentsSHA256 = int(number.Int64), server.String, tool.String, int(attempt.Int64), argumentsHash.String
		c.CalledAt = formatMillis(called.Int64)
		if returned.Valid {
			at := formatMillis(returned.Int64)
			c.ReturnedAt = &at
		}
		if c.Fetch, err = fetchOf(fetch, requests); err != nil {
			return nil, wrapErr(err)
		}
		for _, field := range []struct {
			text sql.NullString
			into **events.Body
		}{{arguments, &c.Arguments}, {result, &c.Result}} {
			if !field.text.Valid {
				continue
			}
			if err := json.Unmarshal([]byte(field.text.String), field.into); err != nil {
				return nil, wrapErr(err)
			}
		}
		calls = append(calls, c)
	}
	if err := rows.Err(); err != nil {
		return nil, wrapErr(err)
	}
	if !exists {
		return nil, executionNotFound(ctx, s.reader, id)
	}
	return calls, nil
}
