package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// dialogue is what a Relay has to know of a client's to carry it on with
// another server. Lines are JSON-RPC messages without their ends.
type dialogue struct {
	mu          sync.Mutex
	initialize  json.RawMessage   // the params of the handshake that succeeded, or nil
	initialized []byte            // the client's line after it
	level       json.RawMessage   // the params of the last logging/setLevel
	watched     map[string]string // resource address to the params it was subscribed with
	open        map[string]*call  // what the client has asked, by id
	asked       map[string]bool   // what this server has asked, by id
	count       int               // of calls, and of our own ones
	resumed     chan json.RawMessage
	ours        map[string]bool // ids of what we asked in the client's name
}

// call is a request of the client that has no answer yet.
type call struct {
	number int
	id     json.RawMessage
	method string
	params json.RawMessage
	line   []byte // nil when it must not be sent twice
}

// message is what of a JSON-RPC message matters here.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  json.RawMessage `json:"error"`
}

func newDialogue() *dialogue {
	return &dialogue{watched: map[string]string{}, open: map[string]*call{}, asked: map[string]bool{}, ours: map[string]bool{}}
}

// begin forgets what concerned the server before.
func (c *dialogue) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.asked)
	clear(c.ours)
	c.resumed = nil
}

// fromClient notes a line of the client's, and tells whether it is for the
// server there is now. note undoes it, by forget.
func (c *dialogue) fromClient(line []byte) (pass bool, note string) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return true, "" // the server says what is wrong with it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idText(m.ID)
	switch {
	case m.Method == "" && id != "": // an answer: to this server, or to one before it
		pass = c.asked[id]
		delete(c.asked, id)
		return pass, ""
	case id != "":
		c.count++
		open := &call{number: c.count, id: m.ID, method: m.Method, params: m.Params}
		if canRepeat(m) {
			open.line = line
		}
		c.open[id] = open
		return true, id
	case m.Method == "notifications/initialized":
		c.initialized = line
	case m.Method == "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			if open := c.open[idText(p.RequestID)]; open != nil {
				open.method, open.line = m.Method, nil // nobody waits for it
			}
		}
	}
	return true, ""
}

// forget takes back a request that could not be passed on.
func (c *dialogue) forget(note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, note)
}

// fromServer notes a line of the server's, and tells whether it is for the
// client.
func (c *dialogue) fromServer(line []byte) (pass bool) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := idText(m.ID)
	switch {
	case id == "":
	case m.Method != "":
		c.asked[id] = true
	case c.ours[id]:
		delete(c.ours, id)
		if c.resumed != nil {
			c.resumed <- m.Error
			c.resumed = nil
		}
		return false
	default:
		if open := c.open[id]; open != nil {
			delete(c.open, id)
			if m.Error == nil {
				c.learn(open)
			}
		}
	}
	return true
}

// learn remembers what a request that succeeded has set. c.mu is held.
func (c *dialogue) learn(done *call) {
	var p struct {
		URI string `json:"uri"`
	}
	switch done.method {
	case "initialize":
		c.initialize = done.params
	case "logging/setLevel":
		c.level = done.params
	case "resources/subscribe":
		if json.Unmarshal(done.params, &p) == nil {
			c.watched[p.URI] = string(done.params)
		}
	case "resources/unsubscribe":
		if json.Unmarshal(done.params, &p) == nil {
			delete(c.watched, p.URI)
		}
	}
}

// handshake is the client's, to be sent to another server; nil when there was
// none. answer yields the error it is answered with, or nil.
func (c *dialogue) handshake() (line []byte, answer <-chan json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.initialize == nil {
		return nil, nil
	}
	c.resumed = make(chan json.RawMessage, 1)
	return c.ask("initialize", c.initialize), c.resumed
}

// settings are the lines that follow the handshake.
func (c *dialogue) settings() (lines [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.initialized != nil {
		lines = append(lines, c.initialized)
	}
	if c.level != nil {
		lines = append(lines, c.ask("logging/setLevel", c.level))
	}
	for _, uri := range slices.Sorted(maps.Keys(c.watched)) {
		lines = append(lines, c.ask("resources/subscribe", json.RawMessage(c.watched[uri])))
	}
	return lines
}

// ask makes a request of our own. c.mu is held.
func (c *dialogue) ask(method string, params json.RawMessage) []byte {
	c.count++
	id := fmt.Sprintf("daybook-resumes-%d", c.count)
	c.ours[idText(mustEncode(id))] = true
	return mustEncode(object{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}})
}

// unanswered are the requests that the server before left open: those to ask
// again, and for all others the answers to give, and with them the news that
// may have been missed of watched resources.
func (c *dialogue) unanswered() (again, answers [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range slices.SortedFunc(maps.Values(c.open), func(a, b *call) int { return cmp.Compare(a.number, b.number) }) {
		if open.line != nil {
			again = append(again, open.line)
			continue
		}
		delete(c.open, idText(open.id))
		if open.method != "notifications/cancelled" {
			answers = append(answers, unknownFate(open))
		}
	}
	if c.initialize != nil {
		for _, uri := range slices.Sorted(maps.Keys(c.watched)) {
			answers = append(answers, mustEncode(object{{"jsonrpc", "2.0"}, {"method", "notifications/resources/updated"}, {"params", object{{"uri", uri}}}}))
		}
	}
	return again, answers
}

// unknownFate answers a call that a server took with it.
func unknownFate(open *call) []byte {
	const text = "The Daybook process that worked on this call has ended, and another has taken over. Whether the call was recorded is not known here: look with list_executions or get_heap_tags before you repeat it. Runs on record go on."
	if open.method == "tools/call" {
		content := []object{{{"type", "text"}, {"text", text}}}
		return mustEncode(object{{"jsonrpc", "2.0"}, {"id", open.id}, {"result", object{{"content", content}, {"isError", true}}}})
	}
	return mustEncode(object{{"jsonrpc", "2.0"}, {"id", open.id}, {"error", object{{"code", -32603}, {"message", text}}}})
}

// repeatable are the methods that change nothing, or nothing the second time.
var repeatable = []string{
	"initialize", "ping", "server/discover", "logging/setLevel", "completion/complete", "subscriptions/listen",
	"tasks/get", "tasks/list", "tasks/result", "tools/list",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
}

// canRepeat tells whether a request may reach two servers.
func canRepeat(m message) bool {
	if m.Method != "tools/call" {
		return slices.Contains(repeatable, m.Method)
	}
	var p struct {
		Name      string `json:"name"`
		Arguments struct {
			IdempotencyKey string `json:"idempotency_key"`
		} `json:"arguments"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return true // the server refuses it
	}
	return slices.Contains(readOnlyTools, p.Name) || p.Arguments.IdempotencyKey != ""
}

// readOnlyTools are the names of the tools that only look.
var readOnlyTools = func() (names []string) {
	for _, t := range new(Server).tools() {
		if t.readOnly {
			names = append(names, t.name)
		}
	}
	return names
}()

// idText is the one form of an id: 1 and 1.0 are the same, and so are two ways
// to write a text. It is empty when there is none.
func idText(id json.RawMessage) string {
	var v any
	if json.Unmarshal(id, &v) != nil || v == nil {
		return ""
	}
	return string(mustEncode(v))
}

// mustEncode encodes what cannot fail to: texts, and JSON that was read.
func mustEncode(v any) []byte {
	data, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", strings.ToValidUTF8(fmt.Sprint(v), "?"), err))
	}
	return data
}
