package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"daybook/internal/web/access"
)

const (
	// batchRevision is the only protocol revision with JSON-RPC batches.
	batchRevision = "2025-03-26"
	// maxBatch bounds the messages of a batch, and maxBatchBytes its size. A larger message
	// must be sent alone.
	maxBatch      = 100
	maxBatchBytes = 4 << 20
)

// isBatch reports whether a body starts like a JSON-RPC batch.
func isBatch(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && body[0] == '['
}

// isBatchRequest reports whether the body of a request is a batch. checkBody must have accepted
// the body.
func isBatchRequest(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	body, _ := readBody(r) // checkBody has handled the error
	return isBatch(body)
}

// refuseBatch answers a batch that the protocol does not allow. where names the
// transport or revision.
func refuseBatch(w http.ResponseWriter, where string) {
	rpcError(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest,
		fmt.Sprintf("%s has no JSON-RPC batches, which only revision %s has; send one message a request", where, batchRevision))
}

// admitBatch checks a batch and counts each of its messages as a request of the tenant.
// The HTTP server has already counted the request, which stands for the first message.
// Each call over the rate limit is answered with an error. It reports false after it has
// refused the whole batch.
func (s *Server) admitBatch(w http.ResponseWriter, r *http.Request) bool {
	id, _ := access.From(r.Context())
	session := r.Header.Get(transportSessionHeader)
	if session == "" {
		rpcError(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "a batch needs a session: send initialize alone first, and then the header Mcp-Session-Id")
		return false
	}
	if revision := s.forTenant(id.Tenant).revisionOf(session); revision != "" && revision != batchRevision || revision == "" && r.Header.Get(versionHeader) > batchRevision {
		refuseBatch(w, "the protocol revision of this session")
		return false
	}
	body, _ := readBody(r)
	batch, problem := splitBatch(body)
	if problem != nil {
		status := http.StatusBadRequest
		if len(batch) > maxBatch {
			status = http.StatusRequestEntityTooLarge
		}
		rpcError(w, status, problem.Code, problem.Message)
		return false
	}
	granted, err := s.opts.Quotas.CountRequests(id, len(batch)-1)
	over, limited := errors.AsType[*access.LimitError](err)
	if limited {
		w.Header().Set("Retry-After", strconv.Itoa(over.RetryAfterSeconds()))
	}
	carried, fits := rewriteBatch(batch, granted+1, over)
	if !fits {
		rpcError(w, http.StatusTooManyRequests, codeLimited, over.Error())
		return false
	}
	setBody(r, carried, nil)
	r.ContentLength = int64(len(carried))
	return true
}

// revisionOf returns the protocol revision that the client of a transport session
// requested, or an empty text.
func (s *Server) revisionOf(session string) string {
	for ss := range s.sdk.Sessions() {
		if ss.ID() != session {
			continue
		}
		if p := ss.InitializeParams(); p != nil {
			return p.ProtocolVersion
		}
	}
	return ""
}

var errBatchTooLarge = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
	Message: fmt.Sprintf("a batch may have up to %d messages and %d MiB; send the others in further requests", maxBatch, maxBatchBytes>>20)}

// splitBatch decodes the messages of a batch. It stops at the first message over
// maxBatch.
func splitBatch(body []byte) ([]json.RawMessage, *jsonrpc.Error) {
	unreadable := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body is not a JSON-RPC batch, or nested far too deep; send a list of JSON objects"}
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return nil, unreadable
	}
	var batch []json.RawMessage
	ids := map[string]bool{}
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, unreadable
		}
		if batch = append(batch, raw); len(batch) > maxBatch {
			return batch, errBatchTooLarge
		}
		var m struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
		}
		switch {
		case raw[0] != '{' || json.Unmarshal(raw, &m) != nil:
			return nil, unreadable
		case m.Method == "initialize":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "initialize must not be part of a batch; send it alone"}
		case m.Method == "" || len(m.ID) == 0:
		case ids[string(m.ID)]:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "two calls of the batch have the id " + clip(string(m.ID)) + "; give each its own"}
		default:
			ids[string(m.ID)] = true
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, unreadable
	}
	if d.More() || len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return nil, unreadable
	}
	if len(batch) == 0 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the batch is empty; send at least one message"}
	}
	return batch, nil
}

// codeLimited is the JSON-RPC error code for requests over a limit.
const codeLimited = -32000

// limitProblem returns the error for a call over the rate limit of its tenant.
func limitProblem(over *access.LimitError) *jsonrpc.Error {
	data, err := json.Marshal(object{{"limit", over.Limit}, {"retry_after_secs", over.RetryAfterSeconds()}})
	if err != nil {
		data = nil // a text and a number always encode
	}
	return &jsonrpc.Error{Code: codeLimited, Message: over.Error(), Data: data}
}

// rewriteBatch rewrites the messages of a batch for the SDK. granted is the number of
// messages that the rate limit permits. The messages without an answer use it first;
// rewriteBatch reports false if there are more of them. Calls beyond the rest are replaced
// by refusals.
func rewriteBatch(batch []json.RawMessage, granted int, over *access.LimitError) ([]byte, bool) {
	calls := make([]json.RawMessage, len(batch)) // the ids of calls
	for i, m := range batch {
		var head struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
		}
		if json.Unmarshal(m, &head) == nil && head.Method != "" && len(head.ID) > 0 && !isNull(head.ID) {
			calls[i] = head.ID
			continue
		}
		granted--
	}
	if granted < 0 {
		return nil, false
	}
	for i, m := range batch {
		if calls[i] == nil {
			batch[i], _ = replaceUnknownNotification(m)
			continue
		}
		if granted--; granted >= 0 {
			batch[i] = rewriteMessage(m)
		} else if raw, err := refusalMessage(calls[i], limitProblem(over)); err == nil {
			batch[i] = raw
		}
	}
	carried, err := encode(batch)
	return carried, err == nil
}
