package frozen_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

// allTenants queries a server without tokens, which shows the events of all tenants.
func (q *inquiry) allTenants(list []events.Event) {
	q.Helper()
	const all = tenant("")
	last := list[len(list)-1].Seq
	for _, path := range []string{"/api/events", "/api/ledger/export", "/api/ledger/damage", "/api/ledger/anomalies", "/api/ledger/volumes", "/api/executions", "/api/sessions?kind=all"} {
		q.ask("alltenants", all, "", path)
	}
	q.ask("alltenants", all, "", fmt.Sprintf("/api/ledger/export?from=%d&to=%d", last-20, last-10))
	for index := range (last + 255) / 256 {
		for _, part := range []string{"", fmt.Sprintf(".p/%d", last%256)} {
			q.ask("alltenants", all, "", fmt.Sprintf("/api/ledger/tile/entries/%03d%s", index, part))
		}
	}
	for _, k := range membersIn(q.T, list, "output_heap", "sha256") {
		if k.of == acme && len(k.id) == 64 {
			q.ask("alltenants", all, "/api/ledger/blobs/{kind}/{hash}", "/api/ledger/blobs/heaps/"+k.id+"?tenant=acme")
		}
	}
}

// tenants are the tenants of the directory.
var tenants = []tenant{operator, acme}

// noID and noHash are an id and a hash that are not recorded.
const noID, noHash = "01990000-0000-7000-8000-00000000dead", "deaddeaddeaddeaddeaddeaddeaddeaddeaddeaddeaddeaddeaddeaddeaddead"

// ledger writes the whole ledger as embed.Follow returns it.
func (q *inquiry) ledger(list []events.Event) {
	q.Helper()
	for _, e := range list {
		q.put("ledger", struct {
			Seq                  uint64
			Type                 events.Type
			ID                   string
			Tenant, Time         string
			About, Subject       string
			Traceparent          string `json:",omitempty"`
			Skips, Removed, Lost uint64 `json:",omitempty"`
			Data                 any
		}{e.Seq, e.Type, e.ID, e.Tenant, e.Time.Format(time.RFC3339Nano), e.About(), "ledger.0001." + recordedOn(e), e.Traceparent, e.RemovedBefore, e.Removed, e.LostBefore, e.Data})
	}
}

// recordedOn returns the subject on which the version that wrote the directory recorded an event.
func recordedOn(e events.Event) string {
	switch e.Type {
	case events.TypeHeapTagged, events.TypeHeapCollected:
		return events.HeapBucketSubject(e.Tenant, e.About())
	default:
		return e.Subject()
	}
}

func (q *inquiry) lists() {
	q.Helper()
	const executions, heaps, sessions, logical = "/api/executions", "/api/heaps", "/api/sessions", "/api/logical-sessions"
	for _, of := range tenants {
		q.ask("lists", of, executions, executions)
		q.ask("lists", of, executions, executions, "Daybook-Min-Sequence", "1")
		q.pages("lists", of, executions, executions+"?limit=7")
		for _, status := range []string{"running", "completed", "failed", "timed_out", "cancelled", "unknown"} {
			q.ask("lists", of, executions, executions+"?status="+status)
		}
		q.pages("lists", of, executions, executions+"?status=completed&limit=5")
		for _, session := range []string{"counted", "private", "erased", "plan+a+trip", "analyse", "s0", "agent+session", "never+was"} {
			q.ask("lists", of, executions, executions+"?session="+session)
		}
		for _, text := range []string{"throw", "CITIES", "n+is", "secret", "main.ts%23", "nowhere"} {
			q.ask("lists", of, executions, executions+"?text="+text)
		}
		q.pages("lists", of, executions, executions+"?text=console&limit=3")
		for _, tag := range []string{"keep=yes", "by=agent", "about=erased", "about=private", "none=none", "malformed"} {
			escaped := url.QueryEscape(tag)
			q.ask("lists", of, executions, executions+"?tag="+escaped)
			q.ask("lists", of, heaps, heaps+"?tag="+escaped)
		}
		q.ask("lists", of, executions, executions+"?tag=keep%3Dyes&tag=round%3D2")
		q.ask("lists", of, executions, executions+"?since=2100-01-01T00:00:00Z")
		q.ask("lists", of, executions, executions+"?cursor=malformed")
		q.ask("lists", of, heaps, heaps)
		q.pages("lists", of, heaps, heaps+"?limit=5")
		q.pages("lists", of, heaps, heaps+"?tag=keep%3Dyes&limit=2")
		q.ask("lists", of, sessions, sessions)
		for _, kind := range []string{"all", "named", "logical", "acp", "unknown"} {
			q.ask("lists", of, sessions, sessions+"?kind="+kind)
			q.pages("lists", of, sessions, sessions+"?limit=3&kind="+kind)
		}
		q.pages("lists", of, sessions, sessions+"?limit=1")
		q.pages("lists", of, sessions, sessions+"?limit=3&kind=all&names=false")
		q.ask("lists", of, logical, logical)
		q.pages("lists", of, logical, logical+"?limit=1")
		q.ask("lists", of, "/api/webhooks", "/api/webhooks")
		q.ask("lists", of, "/api/modules", "/api/modules")
	}
}

// known is an id that an event names, of an execution, a heap or a session.
type known struct {
	of tenant
	id string
}

// collect returns the ids in events, in the order of the first event that names each.
func collect(list []events.Event, ids func(e events.Event) []string) []known {
	var found []known
	for _, e := range list {
		for _, id := range ids(e) {
			if k := (known{tenant(e.Tenant), id}); id != "" && e.Tenant != events.LedgerTenant && !slices.Contains(found, k) {
				found = append(found, k)
			}
		}
	}
	return found
}

var executionForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// executionsIn returns the executions that events belong to.
func executionsIn(list []events.Event) []known {
	return collect(list, func(e events.Event) []string {
		if !strings.HasPrefix(string(e.Type), "daybook.execution.") {
			return nil
		}
		return []string{e.About()}
	})
}

// membersIn returns the values of members in the payloads of events, at any depth.
func membersIn(t *testing.T, list []events.Event, names ...string) []known {
	return collect(list, func(e events.Event) (found []string) {
		raw, err := json.Marshal(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		var data any
		if err := json.Unmarshal(raw, &data); err != nil {
			t.Fatal(err)
		}
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case []any:
				for _, each := range v {
					walk(each)
				}
			case map[string]any:
				for _, name := range slices.Sorted(maps.Keys(v)) {
					if text, ok := v[name].(string); ok && slices.Contains(names, name) {
						found = append(found, text)
					}
					walk(v[name])
				}
			}
		}
		walk(data)
		return found
	})
}

const (
	ofJSON   = "application/json"
	ofStream = "text/event-stream"
)

func (q *inquiry) executions(list []events.Event) {
	q.Helper()
	all := append(executionsIn(list), known{operator, noID}, known{operator, "malformed"})
	for _, k := range all {
		const at = "/api/executions/{id}"
		path := "/api/executions/" + k.id
		q.ask("executions", k.of, at, path)
		q.ask("executions", k.of, at, path+"?wait=0")
		q.ask("executions", k.of, at+"/calls", path+"/calls")
		q.ask("executions", k.of, at+"/artifacts", path+"/artifacts")
		q.ask("executions", k.of, at+"/artifacts/{name}", path+"/artifacts/note")
		q.ask("executions", k.of, at+"/artifacts/{name}", path+"/artifacts/note?number=1")
		q.ask("history", k.of, at+"/events", path+"/events")
		q.ask("history", k.of, at+"/events", path+"/events?after=10&limit=2")
		for _, text := range []string{"code", "result", "error"} {
			q.ask("executions", k.of, at+"/texts/{text}", path+"/texts/"+text)
		}
		q.ask("output", k.of, at+"/output", path+"/output")
		q.ask("output", k.of, at+"/output", path+"/output?line_offset=2&line_limit=3")
		q.ask("output", k.of, at+"/output", path+"/output?byte_offset=0")
		q.ask("output", k.of, at+"/output", path+"/output?byte_offset=5&byte_limit=100000")
		if !q.isRunning(k) { // otherwise a stream of its output would not end
			q.ask("output", k.of, at+"/output", path+"/output", "Accept", ofStream)
			q.ask("output", k.of, at+"/output", path+"/output", "Accept", ofStream, "Last-Event-ID", "1")
		}
	}
	// An object of one tenant does not exist for the other.
	for _, of := range tenants {
		for _, k := range all {
			if k.of != of && executionForm.MatchString(k.id) {
				q.ask("executions", of, "", "/api/executions/"+k.id)
				break
			}
		}
		for _, query := range []string{"kind=execution&id=@last", "kind=heap&id=@last", "kind=heap&id=@last&session=counted", "kind=execution&id=@last&session=plan+a+trip"} {
			q.ask("executions", of, "/api/resolve", "/api/resolve?"+query)
		}
	}
	q.ask("executions", operator, "/api/resolve", "/api/resolve?kind=execution&id="+all[0].id[:8])
	q.ask("executions", operator, "/api/resolve", "/api/resolve?kind=execution&id="+all[0].id[:23])
}

// isRunning reports whether an execution has no end.
func (q *inquiry) isRunning(k known) bool {
	var e executionResult
	a := q.dir.tokens.ask(q.T, q.book, k.of, http.MethodGet, "/api/executions/"+k.id, "")
	return a.status == http.StatusOK && json.Unmarshal(a.body, &e) == nil && e.Status == string(events.StatusRunning)
}

func (q *inquiry) heaps(list []events.Event) {
	q.Helper()
	found := membersIn(q.T, list, "heap", "input_heap", "output_heap", "hash", "head", "previous_heap", "sha256")
	var hashes []known
	for _, k := range append(found, known{operator, noHash}) {
		if len(k.id) == 64 {
			hashes = append(hashes, k)
		}
	}
	for _, k := range append(hashes, known{operator, "malformed"}) {
		const at = "/api/heaps/{heap}"
		path := "/api/heaps/" + k.id
		if a := q.ask("heaps", k.of, at, path); a.status == http.StatusNotFound && k.id != noHash {
			continue // a text, or the hash of something else
		}
		q.ask("heaps", k.of, at+"/lineage", path+"/lineage")
		q.ask("heaps", k.of, at+"/tags", path+"/tags")
		q.ask("heaps", k.of, at+"/tags", path+"/tags?history=1")
		q.pages("heaps", k.of, at+"/tags", path+"/tags?history=1&limit=1")
		q.ask("heaps", k.of, "/api/resolve", "/api/resolve?kind=heap&id="+k.id[:min(len(k.id), 12)])
	}
	for _, k := range hashes {
		for _, kind := range []string{"heaps", "texts"} {
			const at = "/api/ledger/blobs/{kind}/{hash}"
			a := q.dir.tokens.ask(q.T, q.book, k.of, http.MethodGet, "/api/ledger/blobs/"+kind+"/"+k.id, "")
			if a.status == http.StatusNotFound && k.id != noHash {
				continue // as above
			}
			q.ask("blobs", k.of, at, "/api/ledger/blobs/"+kind+"/"+k.id)
		}
	}
}

func (q *inquiry) sessions(list []events.Event) {
	q.Helper()
	names := membersIn(q.T, list, "session", "session_id", "intent")
	names = append(names, known{operator, "s0"}, known{operator, "never was"}, known{operator, "c"}, known{operator, "plan"})
	for _, k := range names {
		const at = "/api/sessions/{name}"
		name := url.PathEscape(k.id)
		path := "/api/sessions/" + name
		var detail struct{ Kind events.SessionKind }
		if a := q.ask("sessions", k.of, at, path); a.status == http.StatusOK {
			if err := json.Unmarshal(a.body, &detail); err != nil {
				q.Fatal(err)
			}
		}
		q.ask("sessions", k.of, at+"/entries", path+"/entries")
		if len(k.id) == 64 {
			q.ask("sessions", k.of, "/api/logical-sessions/{id}", "/api/logical-sessions/"+name)
			q.ask("contexts", k.of, "/api/context", "/api/context?logical_session="+name)
			if detail.Kind != events.SessionACP {
				continue // it has a name or an intent, or is not a session
			}
		}
		q.ask("sessions", k.of, at+"/entries", path+"/entries?fields=index,execution_id,status")
		q.ask("sessions", k.of, at+"/entries", path+"/entries?limit=1&cursor=1")
		q.ask("sessions", k.of, at+"/turns", path+"/turns")
		q.ask("sessions", k.of, at+"/turns", path+"/turns?last=2&max_bytes=10")
		q.ask("replays", k.of, at+"/replay", path+"/replay?speed=max")
		q.ask("replays", k.of, at+"/replay", path+"/replay?speed=max", "Accept", ofStream)
		q.ask("replays", k.of, at+"/replay", path+"/replay?speed=max&from_entry=1&to_entry=2")
		q.ask("replays", k.of, at+"/replay", path+"/replay?speed=max&from=20&to=80&max_pause=1ms", "Accept", ofStream, "Last-Event-ID", "30")
		q.ask("contexts", k.of, "/api/context", "/api/context?session="+url.QueryEscape(k.id))
	}
}

func (q *inquiry) events(list []events.Event) {
	q.Helper()
	const at = "/api/events"
	for _, of := range tenants {
		q.ask("events", of, at, at)
		q.ask("events", of, at, at, "Accept", ofStream)
		q.ask("events", of, at, at+"?after=0")
		q.ask("events", of, at, at+"?after=40&limit=5")
		q.ask("events", of, at, at+"?after=40&limit=5", "Accept", ofStream, "Last-Event-ID", "60")
		for _, session := range []string{"counted", "plan+a+trip", "erased", "private"} {
			q.ask("events", of, at, at+"?session="+session)
		}
		q.ask("events", of, at, at+"?follow=true&limit=3")
		// Each event over REST.
		for raw := range bytes.Lines(q.dir.tokens.ask(q.T, q.book, of, http.MethodGet, at, "").body) {
			var e struct {
				Sequence string `json:"sequence"`
				Type     string `json:"type"`
			}
			if err := json.Unmarshal(raw, &e); err != nil {
				q.Fatal(err)
			}
			sum := sha256.Sum256(raw)
			q.put("cloudevents", struct {
				Tenant   tenant `json:"seen_by"`
				Sequence string `json:"sequence"`
				Type     string `json:"type"`
				SHA256   string `json:"sha256"`
			}{of, e.Sequence, e.Type, hex.EncodeToString(sum[:])})
		}
	}
	var types []string
	for _, e := range list {
		if !slices.Contains(types, string(e.Type)) {
			types = append(types, string(e.Type))
		}
	}
	for _, typ := range append(types, "daybook.unknown.v1") {
		q.ask("events", operator, at, at+"?type="+typ)
	}
	q.ask("events", operator, at, at+"?type="+types[0]+"&type="+types[1])
	for _, k := range executionsIn(list)[:3] {
		q.ask("events", k.of, at, at+"?execution="+k.id)
	}
	for _, k := range membersIn(q.T, list, "webhook_id") {
		q.ask("lists", k.of, "/api/webhooks/{id}/dead-letters", "/api/webhooks/"+k.id+"/dead-letters")
	}
}

// integrity requests the proofs, the tiles, the exports and the volumes.
func (q *inquiry) integrity(list []events.Event) {
	q.Helper()
	const checkpoint, proof, export = "/api/ledger/checkpoint", "/api/ledger/proof", "/api/ledger/export"
	a := q.ask("integrity", operator, checkpoint, checkpoint, "Accept", ofJSON)
	var signed struct {
		Size json.RawMessage `json:"size"`
	}
	err := json.Unmarshal(a.body, &signed)
	if err != nil {
		q.Fatal(err)
	}
	size, err := strconv.ParseUint(strings.Trim(string(signed.Size), `"`), 10, 64)
	if err != nil {
		q.Fatalf("%v in %s", err, a.body)
	}
	q.ask("integrity", operator, checkpoint, checkpoint)
	q.ask("integrity", acme, checkpoint, checkpoint)
	q.ask("integrity", operator, checkpoint, checkpoint+"?fresh=true")
	for _, e := range list {
		q.ask("proofs", tenantOf(e), proof, fmt.Sprintf("%s?seq=%d", proof, e.Seq))
	}
	for _, from := range []uint64{1, 2, size / 2, size - 1, size} {
		q.ask("proofs", operator, proof, fmt.Sprintf("%s?from=%d&to=%d", proof, from, size))
	}
	q.ask("proofs", operator, proof, fmt.Sprintf("%s?seq=%d&size=%d", proof, size/2, size-1))
	q.ask("proofs", operator, proof, fmt.Sprintf("%s?seq=%d", proof, size+1000))
	for level, width := 0, size; width > 0; level, width = level+1, width/256 {
		for index := range (width + 255) / 256 {
			part := ""
			if left := width - index*256; left < 256 {
				part = fmt.Sprintf(".p/%d", left)
			}
			q.ask("tiles", operator, "", fmt.Sprintf("/api/ledger/tile/%d/%03d%s", level, index, part))
			if level == 0 {
				for _, of := range tenants {
					q.ask("tiles", of, "", fmt.Sprintf("/api/ledger/tile/entries/%03d%s", index, part))
				}
			}
		}
	}
	for _, of := range tenants {
		q.ask("integrity", of, export, export)
		q.ask("integrity", of, export, export+"?session=counted")
	}
	last := list[len(list)-1].Seq
	for _, query := range []string{
		"?size=" + fmt.Sprint(size-1), "?from=1", fmt.Sprintf("?from=%d&to=%d", last-20, last-10), fmt.Sprintf("?after=%d", last-10),
		"?execution=" + executionsIn(list)[0].id, "?since=2100-01-01T00:00:00Z", "?until=2100-01-01T00:00:00Z",
	} {
		q.ask("integrity", operator, export, export+query)
	}
	for _, path := range []string{"/api/ledger/volumes", "/api/ledger/damage", "/api/ledger/scrub", "/api/ledger/anomalies"} {
		for _, of := range tenants {
			q.ask("integrity", of, path, path)
		}
	}
}

func tenantOf(e events.Event) tenant {
	if e.Tenant == string(acme) {
		return acme
	}
	return operator
}

func (q *inquiry) service() {
	q.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		q.ask("integrity", operator, path, path)
	}
}
