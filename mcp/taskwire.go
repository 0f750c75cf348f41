package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/internal/web"
	"daybook/ledger"
)

// metaTask is the key in _meta for the member "task" of a call inside this process,
// because the SDK has no member for it.
const metaTask = "daybook/task"

const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// rewriteMessage rewrites a message for the SDK. A message that the SDK would answer
// with internal details becomes a refusal, and the member "task" moves into _meta.
func rewriteMessage(message []byte) []byte {
	if id, problem := checkParams(message, true); problem != nil {
		if answered, err := refusalMessage(id, problem); err == nil {
			return answered
		}
	}
	return carryTask(message)
}

// carryTask moves the member "task" of a tools/call into its _meta. It returns any other
// message unchanged.
func carryTask(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"task"`)) {
		return message
	}
	var m, params map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || string(m["method"]) != `"tools/call"` || json.Unmarshal(m["params"], &params) != nil {
		return message
	}
	asked, ok := params["task"]
	if !ok || isNull(asked) {
		return message
	}
	meta := map[string]json.RawMessage{}
	if raw, ok := params["_meta"]; ok && !isNull(raw) && json.Unmarshal(raw, &meta) != nil {
		return message
	}
	meta[metaTask] = asked
	delete(params, "task")
	var err error
	if params["_meta"], err = encode(meta); err != nil {
		return message
	}
	if m["params"], err = encode(params); err != nil {
		return message
	}
	if moved, err := encode(m); err == nil {
		return moved
	}
	return message
}

// heldBody is the body of a request that was read and can be read again.
type heldBody struct {
	io.Reader
	io.Closer
	body []byte
	err  error // why reading stopped before the end
}

// readBody reads the body of a request up to its limit and puts it back. The limit is
// maxBatchBytes for a batch and maxMessageBytes otherwise. A result of one byte above
// the limit means that the body is longer.
func readBody(r *http.Request) ([]byte, error) {
	if held, ok := r.Body.(*heldBody); ok {
		setBody(r, held.body, held.err)
		return held.body, held.err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBatchBytes+1))
	if err == nil && len(body) > maxBatchBytes && !isBatch(body) {
		// The memory for the complete body is accounted for by now.
		buf := bytes.NewBuffer(body)
		buf.Grow(int(max(min(r.ContentLength, maxMessageBytes)-int64(len(body)), 0)) + bytes.MinRead)
		_, err = buf.ReadFrom(io.LimitReader(r.Body, maxMessageBytes-maxBatchBytes))
		body = buf.Bytes()
	}
	setBody(r, body, err)
	return body, err
}

// setBody replaces the body of a request. A reader gets body, and after that err or, if
// the body exceeds its limit, the rest of it.
func setBody(r *http.Request, body []byte, err error) {
	var rest io.Reader = r.Body
	var from io.Closer = r.Body
	if held, ok := r.Body.(*heldBody); ok {
		from = held.Closer
		rest = http.NoBody
	}
	if err != nil {
		rest = failingReader{err}
	}
	r.Body = &heldBody{Reader: io.MultiReader(bytes.NewReader(body), rest), Closer: from, body: body, err: err}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// rewriteRequest applies rewriteMessage and replaceUnknownNotification to the body of a
// request.
func rewriteRequest(r *http.Request) *http.Request {
	if r.Method != http.MethodPost {
		return r
	}
	body, err := readBody(r)
	if err == nil && len(body) <= maxMessageBytes && !isBatch(body) {
		body, _ = replaceUnknownNotification(rewriteMessage(body))
		r.ContentLength = int64(len(body))
		setBody(r, body, nil)
	}
	return r
}

// rewriteStateless applies replaceUnknownNotification to the body of a request without a
// transport session, and to its header Mcp-Method if that names the same method.
func rewriteStateless(r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	body, _ := readBody(r) // checkBody has handled the error
	carried, method := replaceUnknownNotification(body)
	if method == "" || method != r.Header.Get(methodHeader) {
		return
	}
	r.Header.Set(methodHeader, ignoredNotification)
	r.ContentLength = int64(len(carried))
	setBody(r, carried, nil)
}

// ignoredNotification is a notification that the SDK accepts and this server ignores.
const ignoredNotification = "notifications/roots/list_changed"

// knownNotifications are the notifications that the SDK accepts.
var knownNotifications = []string{"notifications/initialized", "notifications/cancelled", "notifications/progress", ignoredNotification}

// replaceUnknownNotification replaces a notification that the SDK does not know by
// ignoredNotification, and returns the replaced method. JSON-RPC has no answer to a
// notification; over HTTP the SDK refuses an unknown one, and the batch that contains
// it.
func replaceUnknownNotification(message []byte) (carried []byte, method string) {
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if json.Unmarshal(message, &m) != nil || m.JSONRPC != "2.0" || len(m.ID) > 0 || m.Method == "" || slices.Contains(knownNotifications, m.Method) {
		return message, ""
	}
	if _, request := paramForms[m.Method]; request { // a request without its id
		return message, ""
	}
	return []byte(`{"jsonrpc":"2.0","method":"` + ignoredNotification + `"}`), m.Method
}

// checkBody refuses a body that is not a message; the SDK would repeat all of it. It
// reports false after it has refused the request.
func checkBody(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	body, err := readBody(r)
	if isBatch(body) && len(body) > maxBatchBytes {
		rpcError(w, http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, errBatchTooLarge.Message)
		return false
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || len(body) > maxMessageBytes {
		http.Error(w, ledger.ErrRequestTooLarge.Message, http.StatusRequestEntityTooLarge)
		return false
	}
	if len(body) == 0 {
		return true // the SDK refuses it
	}
	if web.TooManyValues(body) && json.Valid(body) {
		rpcError(w, http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, web.ErrTooManyValues.Message)
		return false
	}
	if isBatch(body) && json.Valid(body) {
		return true // admitBatch checks batches
	}
	body = bytes.TrimSpace(body)
	var m struct { // members with the same type in every message
		JSONRPC string          `json:"jsonrpc"`
		Method  string          `json:"method"`
		ID      json.RawMessage `json:"id"`
	}
	if len(body) > 0 && body[0] == '{' && json.Unmarshal(body, &m) == nil && (len(m.ID) == 0 || !strings.ContainsAny(string(m.ID[:1]), "{[tf")) {
		return true
	}
	rpcError(w, http.StatusBadRequest, jsonrpc.CodeParseError, "the body is not a JSON-RPC message, or nested far too deep; send one as a JSON object")
	return false
}

// checkRequest refuses a request whose params do not have their form. It reports false
// after it has refused the request.
func checkRequest(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	body, _ := readBody(r) // checkBody has handled the error
	id, problem := checkParams(body, false)
	if problem == nil {
		return true
	}
	status := http.StatusBadRequest
	if problem.Code == jsonrpc.CodeMethodNotFound {
		status = http.StatusNotFound
	}
	rpcAnswer(w, status, id, problem.Code, problem.Message)
	return false
}

// checkTaskRequest compares a request about a task with its headers, by which gateways
// route it. It refuses methods that only the older form has. It reports false after it
// has refused the request.
func checkTaskRequest(w http.ResponseWriter, r *http.Request) bool {
	method := r.Header.Get(methodHeader)
	if r.Method != http.MethodPost || !strings.HasPrefix(method, "tasks/") {
		return true
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			TaskID string `json:"taskId"`
		} `json:"params"`
	}
	if body, _ := readBody(r); json.Unmarshal(body, &m) != nil || m.Method != method {
		return true // the SDK answers with the reason
	}
	switch method {
	case "tasks/list", "tasks/result":
		rpcAnswer(w, http.StatusNotFound, m.ID, jsonrpc.CodeMethodNotFound, method+" is not a method of this protocol revision; tasks/get brings the result")
		return false
	case "tasks/get", "tasks/update", "tasks/cancel":
		if name := r.Header.Get(nameHeader); name != m.Params.TaskID {
			rpcAnswer(w, http.StatusBadRequest, m.ID, sdk.CodeHeaderMismatch,
				fmt.Sprintf("the header Mcp-Name is %s; it must be the taskId of the request, %s", quote(name), quote(m.Params.TaskID)))
			return false
		}
	}
	return true
}
