package acp

import (
	"bytes"
	"encoding/json"
)

// maxLine bounds a message of a client, in bytes; it is the limit of the SDK. The
// longest script that a ledger accepts does not fit into a message of this size.
const maxLine = 10<<20 - 1

// JSON-RPC and protocol error codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodUnknown  = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNotFound       = -32002
)

// envelope holds the members of a message that decide how and when it is handled.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
}

// session returns the session id in the parameters of a message, or "".
func (e envelope) session() string {
	var p struct {
		SessionID string `json:"sessionId"`
	}
	_ = json.Unmarshal(e.Params, &p) // the handler of the request reports malformed parameters
	return p.SessionID
}

// decodeLine parses a line as a message, or returns the error to answer it with.
func decodeLine(line []byte) (envelope, *problem) {
	var e envelope
	switch {
	case !json.Valid(line):
		return e, &problem{codeParse, "the line is not JSON; send one message a line"}
	case line[0] == '[':
		return e, &problem{codeInvalidRequest, "batches are not supported; send one message a line"}
	case line[0] != '{':
		return e, &problem{codeInvalidRequest, "the line is not a JSON-RPC message"}
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, &problem{codeInvalidRequest, "the line is not a JSON-RPC message: method must be a string"}
	}
	return e, nil
}

// problem is a JSON-RPC error.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// idKey returns the key of a request id: its JSON text, with strings encoded in one way. It
// returns false for a value that cannot be a request id.
func idKey(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return "", false
		}
		key, err := json.Marshal(s)
		return string(key), err == nil
	case c == '-' || c >= '0' && c <= '9':
		return string(raw), true
	}
	return "", false
}

// answerTo returns the key of the request that an outgoing line answers, and false for
// a line that is not an answer. An answer has an id and no method; the order and
// spacing of its members may vary.
func answerTo(line []byte) (key string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	for dec.More() {
		member, err := dec.Token()
		if err != nil || member == "method" {
			return "", false // most lines are updates and return here
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return "", false
		}
		if member == "id" {
			key, ok = idKey(value)
		}
	}
	return key, ok
}
