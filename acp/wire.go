package acp

import (
	"bytes"
	"encoding/json"
)

// maxLine bounds a message of a client, in bytes; the SDK takes no longer ones.
// The longest script a ledger takes does not fit: editors send prompts.
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

// envelope is what the order of messages is decided by.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
}

// session is the session that a message is about, or empty.
func (e envelope) session() string {
	var p struct {
		SessionID string `json:"sessionId"`
	}
	_ = json.Unmarshal(e.Params, &p) // what is wrong with it is said by who handles it
	return p.SessionID
}

// decodeLine reads a line as a message, or says what is wrong with it.
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

// problem is an error of JSON-RPC.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// idKey is the form under which an id is known. It reports false for what cannot
// be the id of a request.
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

// answerTo returns the key of the request that a line of ours answers, and false
// for a line that is no answer. An answer has an id and no method, whatever the
// order and the spacing of its members.
func answerTo(line []byte) (key string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", false
	}
	for dec.More() {
		member, err := dec.Token()
		if err != nil || member == "method" {
			return "", false // most lines are updates and end here
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
