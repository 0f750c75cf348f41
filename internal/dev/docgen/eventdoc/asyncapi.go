package eventdoc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// asyncAPI returns an AsyncAPI 3 document of the messages that NATS subscribers receive.
func (c *catalog) asyncAPI() ([]byte, error) {
	schemas, messages, channels, operations := node{}, node{}, node{}, node{}
	for _, e := range c.Events {
		name := string(e.Type)
		schemas[e.Body.Name] = c.schema(e.Body, "#/components/schemas/", schemas)
		messages[name] = node{
			"name": name, "title": name, "summary": joinParagraphs(e.Meaning), "description": joinParagraphs(append(slices.Clone(e.Meaning), e.Appended)),
			"contentType": "application/json",
			"headers":     node{"allOf": []any{node{"$ref": "#/components/schemas/Headers"}, node{"type": "object", "properties": node{"ce-type": node{"const": name}}}}},
			"payload":     node{"$ref": "#/components/schemas/" + e.Body.Name},
			"examples":    []any{node{"name": "recorded", "headers": e.Example.Headers, "payload": e.Example.Body}},
		}
		for _, r := range e.Routes {
			key := channelKey(r.Live)
			channel, ok := channels[key].(node)
			if !ok {
				channel = r.channel()
				channels[key] = channel
				operations["receive-"+key] = node{
					"action": "send", "summary": "Daybook publishes an event here once it is recorded.",
					"channel": node{"$ref": "#/channels/" + key}, "messages": []any{},
				}
			}
			channel["messages"].(node)[name] = node{"$ref": "#/components/messages/" + name}
			op := operations["receive-"+key].(node)
			op["messages"] = append(op["messages"].([]any), node{"$ref": "#/channels/" + key + "/messages/" + name})
		}
	}
	schemas["Headers"] = headersSchema()
	return encode(node{
		"asyncapi": "3.0.0",
		"info": node{
			"title": "Daybook events", "version": "1.0.0",
			"description": "Each recorded event is published under events.>, at most once to each subscriber. An event that the ledger refused is not published. " +
				"A subscriber that must receive all events reads the streams LEDGER-0001, LEDGER-0002 and so on through consumers, or /api/events, and resumes by position. Generated from the Go types; do not edit.",
			"license": node{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"defaultContentType": "application/json",
		"servers": node{"local": node{
			"host": "127.0.0.1:4222", "protocol": "nats",
			"description": "The server that is part of \"daybook serve\". It prints its address. The command \"daybook nats credentials\" creates credentials for the events of a tenant; a server without --auth creates one for the tenant default: nats/default.creds in its data directory.",
			"security":    []any{node{"$ref": "#/components/securitySchemes/subscriber"}},
		}},
		"channels":   channels,
		"operations": operations,
		"components": node{
			"messages": messages, "schemas": schemas,
			"securitySchemes": node{"subscriber": node{"type": "asymmetricEncryption", "description": "A NATS credentials file (an nkey with which the client signs the server's nonce). Read-only, for the events of one tenant."}},
		},
	})
}

func (r route) channel() node {
	ch := node{
		"address": strings.NewReplacer("<", "{", ">", "}").Replace(r.Live), "messages": node{},
		"description": fmt.Sprintf("Recorded under %s.", r.Subject),
		"servers":     []any{node{"$ref": "#/servers/local"}},
	}
	if len(r.Params) == 0 {
		return ch
	}
	params := node{}
	for _, p := range r.Params {
		params[p.Name] = node{"description": paramMeaning(p.Name), "examples": []string{p.Example}}
	}
	ch["parameters"] = params
	return ch
}

// meanings describes the variable tokens.
var meanings = map[string]string{
	"tenant":    "Owner of the event.",
	"pool":      "Group of runners that may take the run.",
	"execution": "Id of the execution.",
	"bucket":    "First byte of a hash in hex. Many objects share the subject.",
	"session":   "Key of the session.",
	"webhook":   "Id of the webhook.",
	"intent":    "Hash of the tenant and the intent of a logical session.",
	"holder":    "Key of the connection, session name or principal that a short name belongs to.",
	"context":   "Key of the conversation context.",
}

func paramMeaning(name string) string {
	if m, ok := meanings[name]; ok {
		return m
	}
	return "Part of the subject."
}

// channelKey returns the key of a channel: the fixed tokens of its subject.
func channelKey(live string) string {
	var fixed []string
	for part := range strings.SplitSeq(live, ".") {
		if !strings.HasPrefix(part, "<") {
			fixed = append(fixed, strings.Trim(part, "@"))
		}
	}
	return strings.Join(fixed, "-")
}

// header is a header that every event has, unless it is optional.
type header struct{ name, doc, example string }

var headers = []header{
	{"ce-specversion", "Version of CloudEvents; always 1.0.", "1.0"},
	{"ce-id", "Globally unique. All deliveries of one event have the same id.", "019ab3c4-6a3e-7c51-8f0e-000000000000"},
	{"ce-source", "Always daybook.", "daybook"},
	{"ce-type", "Kind and version of the event.", "daybook.execution.requested.v1"},
	{"ce-subject", "What the event concerns: an execution id, heap key, session key or the like.", "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3"},
	{"ce-time", "Time of the event: RFC 3339, UTC, milliseconds.", "2026-11-21T09:30:00.125Z"},
	{"ce-tenant", "Owner of the event.", "default"},
	{"ce-traceparent", "W3C trace context of the request that caused the event; absent if the request had none.", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	{"ce-recordversion", "Version of the record by which proofs cover the event; absent for version 1, which earlier builds recorded.", "2"},
	{"content-type", "Always application/json.", "application/json"},
}

// optional holds the headers that an event may lack.
var optional = []string{"ce-traceparent", "ce-recordversion"}

// natsHeaders are the headers that the server adds to live events.
var natsHeaders = []header{
	{"Nats-Stream", "Stream that holds the event.", "LEDGER-0001"},
	{"Nats-Subject", "Subject that the event is stored under.", "ledger.0001.default.exec.019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3"},
	{"Nats-Sequence", "Position in the ledger.", "1041"},
	{"Nats-Last-Sequence", "Position of the previous event on the same subject; 0 if there is none.", "1037"},
	{"Nats-Time-Stamp", "Time when the event was stored.", "2026-11-21T09:30:00.131Z"},
}

func headersSchema() node {
	properties, required := node{}, []string{}
	for _, h := range headers {
		properties[h.name] = node{"type": "string", "description": h.doc, "examples": []string{h.example}}
		if !slices.Contains(optional, h.name) {
			required = append(required, h.name)
		}
	}
	for _, h := range natsHeaders {
		properties[h.name] = node{"type": "string", "description": h.doc, "examples": []string{h.example}}
	}
	return node{"type": "object", "description": "CloudEvents attributes, and the headers that the NATS server adds to live events.", "properties": properties, "required": required}
}

// joinParagraphs joins paragraphs to one text.
func joinParagraphs(list []string) string {
	return strings.TrimSpace(strings.Join(list, " "))
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
