package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// requiredMembers are the members that every answer of a type has in every version of the
// server. An answer without them is from another program. "list[].member" means that each
// element of the list has the member.
var requiredMembers = map[reflect.Type][]string{
	reflect.TypeFor[Receipt]():        {"execution_id"},
	reflect.TypeFor[OK]():             {"ok"},
	reflect.TypeFor[Execution]():      {"execution_id", "status"},
	reflect.TypeFor[Replayed]():       {"execution_id", "verdict"},
	reflect.TypeFor[WhatIf]():         {"execution_id", "executed", "equal"},
	reflect.TypeFor[ExecutionPage]():  {"executions[].execution_id", "executions[].status"},
	reflect.TypeFor[OutputPage]():     {"data", "next_byte_offset", "has_more"},
	reflect.TypeFor[Calls]():          {"calls[].number"},
	reflect.TypeFor[Artifacts]():      {"artifacts[].number"},
	reflect.TypeFor[HeapPage]():       {"results[].heap"},
	reflect.TypeFor[Heap]():           {"heap"},
	reflect.TypeFor[MigratedHeap]():   {"heap", "verdict"},
	reflect.TypeFor[Globals]():        {"globals[].name", "globals[].sha256"},
	reflect.TypeFor[Lineage]():        {"lineage[].heap"},
	reflect.TypeFor[Tags]():           {"tags"},
	reflect.TypeFor[resolved]():       {"id"},
	reflect.TypeFor[Collection]():     {"collected", "dry_run"},
	reflect.TypeFor[SessionList]():    {"items[].session_id"},
	reflect.TypeFor[Session]():        {"session_id", "kind"},
	reflect.TypeFor[SessionLog]():     {"entries[].execution_id"},
	reflect.TypeFor[Turns]():          {"session", "moments"},
	reflect.TypeFor[Opened]():         {"session_id", "new"},
	reflect.TypeFor[Reset]():          {"session_id"},
	reflect.TypeFor[Shredded]():       {"executions", "heaps"},
	reflect.TypeFor[Context]():        {"session_id"},
	reflect.TypeFor[Cleared]():        {"message"},
	reflect.TypeFor[Volumes]():        {"volumes[].volume"},
	reflect.TypeFor[Volume]():         {"volume", "last"},
	reflect.TypeFor[RemovedVolume]():  {"volume", "last"},
	reflect.TypeFor[SignerList]():     {"origin", "keys", "statements[].note"},
	reflect.TypeFor[SignerChange]():   {"statement"},
	reflect.TypeFor[RotatedKey]():     {"key"},
	reflect.TypeFor[Damage]():         {"damaged", "read_only"},
	reflect.TypeFor[Scrub]():          {"position", "end"},
	reflect.TypeFor[Signing]():        {"status"},
	reflect.TypeFor[Anomalies]():      {"rule_broken", "unknown_type"},
	reflect.TypeFor[Webhooks]():       {"webhooks[].id"},
	reflect.TypeFor[AddedWebhook]():   {"id", "secret"},
	reflect.TypeFor[DeadLetters]():    {"dead_letters[].event_id"},
	reflect.TypeFor[Retried]():        {"retrying"},
	reflect.TypeFor[Modules]():        {"modules[].name"},
	reflect.TypeFor[RemovedModules](): {"removed"},
}

// decode decodes an answer that has the required members. Its errors name no Go types.
func decode(text []byte, into any, required []string) error {
	err := json.Unmarshal(text, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return foreignError{fmt.Errorf("it is a JSON %s", wrong.Value)}
		}
		return foreignError{fmt.Errorf("its member %q is a JSON %s", wrong.Field, wrong.Value)}
	}
	if err != nil {
		return err
	}
	for _, member := range required {
		if missing := missingMember(text, member); missing != "" {
			return foreignError{fmt.Errorf("it has no member %q", missing)}
		}
	}
	return nil
}

// missingMember returns an empty text if a JSON object has a member, else the part of the
// member that is missing; see requiredMembers.
func missingMember(text []byte, member string) string {
	name, rest, inList := strings.Cut(member, "[].")
	var members map[string]json.RawMessage
	_ = json.Unmarshal(text, &members) // an answer that is no object has no members
	value, ok := members[name]
	if !ok || inList && string(value) == "null" { // the server writes an empty list as []
		return name
	}
	if !inList {
		return ""
	}
	var list []json.RawMessage
	_ = json.Unmarshal(value, &list) // decode has checked that it is a list
	for _, element := range list {
		if missingMember(element, rest) != "" {
			return member
		}
	}
	return ""
}

// foreignError is the error for a JSON answer that another program may have sent.
type foreignError struct{ error }

// unusable returns the error for an answer that cannot be read or decoded. err is the cause,
// method and path are those of the request.
func (c *Client) unusable(ctx context.Context, method, path string, err error) error {
	if errors.Is(err, ErrNoServer) || ctx.Err() != nil {
		return err
	}
	if _, ok := errors.AsType[foreignError](err); !ok {
		return noServer(ctx, fmt.Errorf("read the server's answer: %w", err))
	}
	path, _, _ = strings.Cut(path, "?")
	return noServer(ctx, fmt.Errorf("the answer of %s to %s %s is not from a Daybook server, or from one of another version: %w", c.opts.Name, method, path, err))
}
