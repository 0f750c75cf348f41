package link

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Protocol is what a link knows of the protocol it carries: which lines set up a
// connection.
type Protocol struct {
	// keep returns the slot that a request which succeeded, or a notification, sets,
	// and the line that sets it for another owner; no line empties the slot, and no
	// slot leaves all as it is.
	keep func(m message, result json.RawMessage) (slot string, line []byte)
	// restored returns messages for the client after a line was sent to another
	// owner.
	restored func(m message) [][]byte
	// withdraws returns the id of the request that a notification takes back.
	withdraws func(m message) json.RawMessage
	// subject is what a request's notifications are about, and about the subject of
	// a notification; empty for none. Only protocols whose notifications are the
	// same whenever they are made have any.
	subject, about func(m message) string
}

func none(message) string { return "" }

// MCP is the Model Context Protocol.
var MCP = Protocol{keep: keepMCP, restored: restoredMCP, withdraws: withdrawsMCP, subject: none, about: none}

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

// resourceSlot names the slot of a subscription. A URI may be longer than the
// header of a frame.
func resourceSlot(uri string) string { return fmt.Sprintf("resource %x", sha256.Sum256([]byte(uri))) }

// restoredMCP reports watched resources as changed: nothing watched them between
// two owners.
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

// Reattached is the member of _meta that marks a session/resume for a client that
// has the session open already, and whose owner has ended.
const Reattached = "daybook/reattached"

// Announced is the member of _meta that marks an update which is made when a session
// is opened, and belongs to no prompt.
const Announced = "daybook/announced"

// ACP is the Agent Client Protocol. The updates of a prompt are made of recorded
// events alone, so that those the client has received can be counted off.
var ACP = Protocol{
	keep:      keepACP,
	restored:  func(message) [][]byte { return nil },
	withdraws: func(message) json.RawMessage { return nil }, // a cancelled prompt is answered
	subject:   promptedACP,
	about:     updatedACP,
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
	_ = json.Unmarshal(params["_meta"], &meta) // without any it stays empty
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

// updatedACP is the session whose prompt an update belongs to. Updates of the
// session itself belong to none.
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

// stateLine is a request in the client's name.
func stateLine(slot, method string, params json.RawMessage) []byte {
	m := map[string]any{"jsonrpc": "2.0", "id": "daybook restores " + slot, "method": method}
	if params != nil {
		m["params"] = params
	}
	return encode(m)
}

// encode encodes texts and JSON that was read, which cannot fail.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("encode a line of a connection's state: " + err.Error())
	}
	return text
}
