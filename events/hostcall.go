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
	// Fetch is set for the answer to a fetch; nil for that of a tool.
	Fetch *FetchRecord `json:"fetch,omitempty"`
	// Content holds the result.
	Content Content[HostReturnedContent] `json:"content"`
}

// HostReturnedContent is the erasable part of HostReturned.
type HostReturnedContent struct {
	// Result is the JSON text of the value when the outcome is ok, and otherwise a
	// message; nil where only hashes are stored.
	Result *Body `json:"result,omitempty"`
	// Requests are the requests of a fetch, one for each of the decisions in
	// FetchRecord.Decisions; nil for the call of a tool, and where only hashes are stored.
	Requests []FetchRequest `json:"requests,omitempty"`
}

// FetchServer and FetchTool are the names of a fetch in HostCalled. A tool server cannot
// have this name.
const (
	FetchServer = "daybook:http"
	FetchTool   = "fetch"
)

// FetchRecord is the part of a fetch that remains when its content is erased.
type FetchRecord struct {
	// Decisions are the decisions about the request of the script and about each redirect,
	// in order. A fetch ends at the first one that does not allow. It is empty for a request
	// that is malformed.
	Decisions []FetchDecision `json:"decisions,omitempty"`
	// RequestBody and ResponseBody are the bodies; nil without a body. The latter is the one
	// that the script received: decompressed, and without the secrets of added headers.
	RequestBody  *FetchBody `json:"request_body,omitempty"`
	ResponseBody *FetchBody `json:"response_body,omitempty"`
}

// FetchDecision is the decision of a policy about one request of a fetch.
type FetchDecision struct {
	// Allowed is whether the policy permitted the request.
	Allowed bool `json:"allowed"`
	// PolicySHA256 is the hash of the policy, and Rule the rule in it that decided. If several
	// policies decided together, they are the hash of the chain and all rules.
	PolicySHA256 string `json:"policy_sha256"`
	Rule         string `json:"rule"`
	// AddedHeaders are the names of the headers that the operator's rules added to the
	// request after the decision. Their values are recorded nowhere.
	AddedHeaders []string `json:"added_headers,omitempty"`
	// Status is the status of the response; 0 if there was none.
	Status int `json:"status,omitempty"`
}

// FetchBody is a body of a fetch.
type FetchBody struct {
	// SHA256 is the hash of the bytes. It is a keyed hash if the content of the execution is
	// encrypted.
	SHA256 string `json:"sha256"`
	// Size is the number of bytes.
	Size int64 `json:"size"`
}

// FetchRequest is one request of a fetch.
type FetchRequest struct {
	// Method is the method of the request.
	Method string `json:"method"`
	// URL is cut after 2 KiB.
	URL string `json:"url"`
	// Problem says why the policy did not decide, if so; the request is then denied.
	Problem string `json:"problem,omitempty"`
}
