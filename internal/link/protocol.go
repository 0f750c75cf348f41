package link

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Protocol describes which lines of a protocol set up a connection.
type Protocol struct {
	// keep returns the slot that a successful request or a notification changes, and the
	// line that restores the slot at another owner. Without a line, the slot is emptied.
	// Without a slot, the message changes nothing that is kept.
	keep func(m message, result json.RawMessage) (slot string, line []byte)
	// restored returns messages for the client after a line was sent to another owner
	// to restore the connection.
	restored func(m message) [][]byte
	// withdrawnID returns the id of the request that a notification cancels.
	withdrawnID func(m message) json.RawMessage
	// subject and about relate notifications to requests: a notification belongs to the
	// unanswered request for which subject returns the same text as about does for the
	// notification. Both return "" if there is no such text. The text is not a NATS
	// subject. Only a protocol that sends the same notifications each time a request is
	// repeated may use them.
	subject, about func(m message) string
}

func noSubject(message) string { return "" }

// MCP is the Model Context Protocol.
var MCP = Protocol{keep: keepMCP, restored: restoredMCP, withdrawnID: withdrawsMCP, subject: noSubject, about: noSubject}

func keepMCP(m message, _ json.RawMessage) (string, []byte) {
	var p struct {
		URI string `json:"uri"`
	}
	switch m.Method {
	case "initialize":
		return m.Method, stateLine(m.Method, m.Method, m.Params)
	case "notifications/initialized":
		return m.Method, encode(map[string]any{"jsonrpc": "2.0", "method": m.Method})
	case "logging/setLevel":
		return m.Method, stateLine(m.Method, m.Method, m.Params)
	case "resources/subscribe", "resources/unsubscribe":
		if json.Unmarshal(m.Params, &p) != nil {
			return "", nil
		}
		slot := resourceSlot(p.URI)
		if m.Method == "resources/unsubscribe" {
			return slot, nil
		}
		return slot, stateLine(slot, m.Method, m.Params)
	}
	return "", nil
}

// resourceSlot returns the slot of a subscription. It has a hash because a URI may be
// longer than the header of a frame.
func resourceSlot(uri string) string { return fmt.Sprintf("resource %x", sha256.Sum256([]byte(uri))) }

// restoredMCP reports watched resources as changed, because they may have changed
// between two owners.
func restoredMCP(m message) [][]byte {
	var p struct {
		URI string `json:"uri"`
	}
	if m.Method != "resources/subscribe" || json.Unmarshal(m.Params, &p) != nil {
		return nil
	}
	return [][]byte{encode(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]string{"uri": p.URI}})}
}

func withdrawsMCP(m message) json.RawMessage {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if m.Method != "notifications/cancelled" || json.Unmarshal(m.Params, &p) != nil {
		return nil
	}
	return p.RequestID
}

// Reattached is the member of _meta that marks a session/resume that a link sends to
// the next owner, for a client that had the session open when its owner ended.
const Reattached = "daybook/reattached"

// Announced is the member of _meta that marks an update that is sent when a session is
// opened and belongs to no prompt.
const Announced = "daybook/announced"

// ACP is the Agent Client Protocol. The updates of a prompt come only from recorded
// events, so the ones that the client already received can be counted and skipped.
var ACP = Protocol{
	keep:        keepACP,
	restored:    func(message) [][]byte { return nil },
	withdrawnID: func(message) json.RawMessage { return nil }, // a cancelled prompt is answered
	subject:     promptedACP,
	about:       updatedACP,
}

func keepACP(m message, result json.RawMessage) (string, []byte) {
	switch m.Method {
	case "initialize":
		return m.Method, stateLine(m.Method, m.Method, m.Params)
	case "session/new", "session/fork", "session/load", "session/resume", "session/close", "session/delete":
	default:
		return "", nil
	}
	id := sessionACP(m.Params)
	if m.Method == "session/new" || m.Method == "session/fork" {
		id = sessionACP(result)
	}
	if id == "" {
		return "", nil
	}
	slot := sessionSlot(id)
	if m.Method == "session/close" || m.Method == "session/delete" {
		return slot, nil
	}
	params := map[string]json.RawMessage{}
	if json.Unmarshal(m.Params, &params) != nil {
		return "", nil
	}
	meta := map[string]json.RawMessage{}
	_ = json.Unmarshal(params["_meta"], &meta) // stays empty without _meta
	meta[Reattached] = json.RawMessage("true")
	params["_meta"], params["sessionId"] = encode(meta), encode(id)
	return slot, stateLine(slot, "session/resume", encode(params))
}

func sessionSlot(id string) string { return "session " + id }

func sessionACP(params json.RawMessage) string {
	var p struct {
		SessionID string `json:"sessionId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return p.SessionID
}

func promptedACP(m message) string {
	if m.Method != "session/prompt" {
		return ""
	}
	return sessionACP(m.Params)
}

// updatedACP returns the session whose prompt an update belongs to. Updates of the
// session itself belong to no prompt.
func updatedACP(m message) string {
	var p struct {
		Meta      map[string]json.RawMessage `json:"_meta"`
		SessionID string                     `json:"sessionId"`
		Update    struct {
			Kind string `json:"sessionUpdate"`
		} `json:"update"`
	}
	if m.Method != "session/update" || json.Unmarshal(m.Params, &p) != nil || p.Meta[Announced] != nil ||
		slices.Contains([]string{"available_commands_update", "current_mode_update", "config_option_update"}, p.Update.Kind) {
		return ""
	}
	return p.SessionID
}

// stateLine returns a request that restores a slot on behalf of the client.
func stateLine(slot, method string, params json.RawMessage) []byte {
	m := map[string]any{"jsonrpc": "2.0", "id": "daybook restores " + slot, "method": method}
	if params != nil {
		m["params"] = params
	}
	return encode(m)
}

// encode encodes texts and decoded JSON, which cannot fail.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("encode a line of a connection's state: " + err.Error())
	}
	return text
}
