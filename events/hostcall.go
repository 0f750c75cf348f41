package events

// HostCalled records that a script calls something outside: a tool of an MCP
// server. Attempts of an execution go on counting: what was called is not called
// again by a later one.
//
// Appended by the runner before the call leaves for its server, under the
// position of the execution's control subject: a runner that lost the run calls
// nothing.
type HostCalled struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt made the call.
	Attempt int `json:"attempt"`
	// Number counts the calls of the execution from 1.
	Number int `json:"number"`
	// Server and Tool name what is called.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// ArgumentsSHA256 is the hash of the arguments' JSON text.
	ArgumentsSHA256 string `json:"arguments_sha256"`
	// Content is the arguments.
	Content Content[HostCalledContent] `json:"content"`
}

// HostCalledContent is the erasable part of HostCalled.
type HostCalledContent struct {
	// Arguments is their JSON text; nil where only hashes are kept.
	Arguments *Body `json:"arguments,omitempty"`
}

// HostOutcome says how a call ended.
type HostOutcome string

// How host calls end.
const (
	// HostOK is a call that gave a value.
	HostOK HostOutcome = "ok"
	// HostError is a call that failed: the server said so, or could not be reached.
	HostError HostOutcome = "error"
	// HostTimeout is a call without an answer in time.
	HostTimeout HostOutcome = "timeout"
	// HostCancelled is a call that was given up because the run ended first. What
	// the server did is not known.
	HostCancelled HostOutcome = "cancelled"
)

// HostReturned records the answer to a call. Answers reach the script in the order
// of these events.
//
// Appended by the runner before the script gets the answer, under the position of
// the execution's control subject.
type HostReturned struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt got the answer; it is the attempt that made the call.
	Attempt int `json:"attempt"`
	// Number is the call.
	Number int `json:"number"`
	// Outcome says how the call ended.
	Outcome HostOutcome `json:"outcome"`
	// DurationMillis is how long the call took, in milliseconds.
	DurationMillis int64 `json:"duration_ms"`
	// AnsweredAt is the script's time of the answer: its clock moves there.
	AnsweredAt Instant `json:"answered_at"`
	// ResultSHA256 is the hash of the result's text.
	ResultSHA256 string `json:"result_sha256"`
	// Content is the result.
	Content Content[HostReturnedContent] `json:"content"`
}

// HostReturnedContent is the erasable part of HostReturned.
type HostReturnedContent struct {
	// Result is a value's JSON text when the outcome is ok, and otherwise a
	// message; nil where only hashes are kept.
	Result *Body `json:"result,omitempty"`
}
