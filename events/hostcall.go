package events

// HostCalled records that a script calls a tool of an MCP server. Attempts share the
// numbering: a later attempt does not repeat a recorded call.
//
// Appended by the runner before it sends the call, with the last position on the control
// subject of the execution as the expected position: a runner that lost the execution
// calls nothing.
type HostCalled struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt made the call.
	Attempt int `json:"attempt"`
	// Number counts the calls of the execution from 1.
	Number int `json:"number"`
	// Server and Tool name the tool.
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// ArgumentsSHA256 is the hash of the JSON text of the arguments.
	ArgumentsSHA256 string `json:"arguments_sha256"`
	// Content holds the arguments.
	Content Content[HostCalledContent] `json:"content"`
}

// HostCalledContent is the erasable part of HostCalled.
type HostCalledContent struct {
	// Arguments is the JSON text of the arguments; nil where only hashes are stored.
	Arguments *Body `json:"arguments,omitempty"`
}

// HostOutcome is how a host call ended.
type HostOutcome string

// The outcomes of host calls.
const (
	// HostOK is a call that returned a value.
	HostOK HostOutcome = "ok"
	// HostError is a call that failed: the server returned an error, or could not be
	// reached.
	HostError HostOutcome = "error"
	// HostTimeout is a call without an answer in time.
	HostTimeout HostOutcome = "timeout"
	// HostCancelled is a call that was abandoned because the execution ended first. Its
	// effect on the server is unknown.
	HostCancelled HostOutcome = "cancelled"
)

// HostReturned records the answer to a host call. Answers reach the script in the order
// of these events.
//
// Appended by the runner before the script gets the answer, with the last position on
// the control subject of the execution as the expected position.
type HostReturned struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that made the call and got the answer.
	Attempt int `json:"attempt"`
	// Number is the number of the call.
	Number int `json:"number"`
	// Outcome is how the call ended.
	Outcome HostOutcome `json:"outcome"`
	// DurationMillis is the duration of the call, in milliseconds.
	DurationMillis int64 `json:"duration_ms"`
	// AnsweredAt is the time of the answer on the script's clock, which advances to it.
	AnsweredAt Instant `json:"answered_at"`
	// ResultSHA256 is the hash of the text of the result.
	ResultSHA256 string `json:"result_sha256"`
	// Content holds the result.
	Content Content[HostReturnedContent] `json:"content"`
}

// HostReturnedContent is the erasable part of HostReturned.
type HostReturnedContent struct {
	// Result is the JSON text of the value when the outcome is ok, and otherwise a
	// message; nil where only hashes are stored.
	Result *Body `json:"result,omitempty"`
}
