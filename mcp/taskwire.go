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

// metaTask is where the member "task" of a call travels inside this process:
// the SDK has no place for it.
const metaTask = "daybook/task"

const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// rewriteMessage makes a message fit for the SDK: what it would answer with its insides
// is answered by us, and what it has no place for gets one.
func rewriteMessage(message []byte) []byte {
	if id, problem := checkParams(message, true); problem != nil {
		if answered, err := refusalMessage(id, problem); err == nil {
			return answered
		}
	}
	return carryTask(message)
}

// carryTask moves the member "task" of a tools/call into its _meta. Everything
// else is returned as it is.
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

// readBody reads the body of a request up to its bound, which for a batch is
// maxBatchBytes, and puts it back. The result can be one byte above the bound: the
// body is longer then.
func readBody(r *http.Request) ([]byte, error) {
	if held, ok := r.Body.(*heldBody); ok {
		setBody(r, held.body, held.err)
		return held.body, held.err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBatchBytes+1))
	if err == nil && len(body) > maxBatchBytes && !isBatch(body) {
		// The memory for the whole body is accounted for by now.
		buf := bytes.NewBuffer(body)
		buf.Grow(int(max(min(r.ContentLength, maxMessageBytes)-int64(len(body)), 0)) + bytes.MinRead)
		_, err = buf.ReadFrom(io.LimitReader(r.Body, maxMessageBytes-maxBatchBytes))
		body = buf.Bytes()
	}
	setBody(r, body, err)
	return body, err
}

// setBody replaces the body of a request. A reader of the new body meets err after
// it, or the rest of a body that is too long.
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

// rewriteRequest does what carry and replaceUnknownNotification do with the body of a request.
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

// rewriteStateless does what replaceUnknownNotification does with the body of a request without a
// transport session, and with its header Mcp-Method if that names the same method.
func rewriteStateless(r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	body, _ := readBody(r) // checkBody has seen how that ended
	carried, method := replaceUnknownNotification(body)
	if method == "" || method != r.Header.Get(methodHeader) {
		return
	}
	r.Header.Set(methodHeader, ignoredNotification)
	r.ContentLength = int64(len(carried))
	setBody(r, carried, nil)
}

// ignoredNotification is a notification that the SDK takes and this server ignores.
const ignoredNotification = "notifications/roots/list_changed"

// knownNotifications are those that the SDK takes.
var knownNotifications = []string{"notifications/initialized", "notifications/cancelled", "notifications/progress", ignoredNotification}

// replaceUnknownNotification replaces a notification that the SDK does not know by one that
// is ignored, and returns the method that was replaced. JSON-RPC has no answer to a
// notification; the SDK refuses an unknown one over HTTP, and the batch that it is in.
func replaceUnknownNotification(message []byte) (carried []byte, method string) {
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if json.Unmarshal(message, &m) != nil || m.JSONRPC != "2.0" || len(m.ID) > 0 || m.Method == "" || slices.Contains(knownNotifications, m.Method) {
		return message, ""
	}
	if _, request := paramForms[m.Method]; request { // its id is missing
		return message, ""
	}
	return []byte(`{"jsonrpc":"2.0","method":"` + ignoredNotification + `"}`), m.Method
}

// checkBody answers a body that is no message, of which the SDK would repeat
// all. It reports false after having answered.
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
		return true // the SDK says so
	}
	if web.TooManyValues(body) && json.Valid(body) {
		rpcError(w, http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, web.ErrTooManyValues.Message)
		return false
	}
	if isBatch(body) && json.Valid(body) {
		return true // batches have rules of their own
	}
	body = bytes.TrimSpace(body)
	var m struct { // what has a type in every message
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

// checkRequest answers a request whose params do not have their form. It
// reports false after having answered.
func checkRequest(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	body, _ := readBody(r) // checkBody has seen how that ended
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

// checkTaskRequest holds a request about tasks against its headers, by which
// gateways route it, and answers for methods that only the older form has. It
// reports false after having answered.
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
		return true // the SDK says what is wrong
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
