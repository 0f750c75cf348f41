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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/dev/tier"
)

// quiet returns options under which a Daybook appends no event of its own, and answers
// the same on every machine.
func (d directory) quiet() embed.Options {
	return embed.Options{
		DataDir: d.data, TokenFile: d.tokenFile, NoRunner: true, NoSync: true, SealEvery: "never", SealBytes: -1, ScrubEvents: -1, DiskReserve: -1,
		MemoryMB: 256, Version: "frozen", Contexts: embed.ContextOptions{Idle: 100 * 365 * 24 * time.Hour},
	}
}

// TestAnswers compares what the frozen directory answers with the golden files. The
// first start builds the projections, which the archive does not hold. The answers
// must be the same from projections that embed.Rebuild wrote.
func TestAnswers(t *testing.T) {
	t.Parallel()
	dir := unpack(t)
	first := answersOf(t, dir)
	for _, group := range slices.Sorted(maps.Keys(first)) {
		golden(t, filepath.Join("answers", group+".jsonl"), first[group])
	}
	checkGroups(t, first)

	t.Run("Rebuild", func(t *testing.T) {
		if _, err := embed.Rebuild(within(t), dir.quiet()); err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, first, answersOf(t, dir))
	})
	if tier.Choose(true, false) {
		return
	}
	t.Run("Restart", func(t *testing.T) { sameAnswers(t, first, answersOf(t, dir)) })
	t.Run("Delete", func(t *testing.T) {
		removeProjections(t, dir)
		sameAnswers(t, first, answersOf(t, dir))
	})
}

func removeProjections(t *testing.T, dir directory) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir.data, "projections.db*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("projections %v, %v", list, err)
	}
	for _, path := range list {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func sameAnswers(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	for _, group := range slices.Sorted(maps.Keys(want)) {
		compare(t, group, want[group], got[group])
	}
}

// golden compares a text with a file below testdata, line by line, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := testdata(filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, name, want, got)
}

// compare reports the first lines that differ.
func compare(t *testing.T, name string, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	is, were := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	const most = 5
	shown := 0
	for i := range max(len(is), len(were)) {
		var a, b string
		if i < len(were) {
			a = were[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a == b {
			continue
		}
		if shown++; shown > most {
			break
		}
		from := 0
		for from < min(len(a), len(b)) && a[from] == b[from] {
			from++
		}
		from = max(0, from-200)
		t.Errorf("%s, line %d, from byte %d:\nwant %.1000s\n got %.1000s", name, i+1, from, a[from:], b[from:])
		if len(is) != len(were) {
			t.Errorf("%s has %d lines, want %d", name, len(is), len(were))
			break
		}
	}
}

// checkGroups fails for golden files that no group of questions writes any more.
func checkGroups(t *testing.T, groups map[string][]byte) {
	t.Helper()
	list, err := filepath.Glob(testdata("answers", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if _, ok := groups[strings.TrimSuffix(filepath.Base(path), ".jsonl")]; !ok {
			t.Errorf("no question writes %s", path)
		}
	}
}

// inquiry asks questions and keeps the answers.
type inquiry struct {
	*testing.T
	dir    directory
	book   *embed.Daybook
	groups map[string]*bytes.Buffer
	// times are those of the events, in milliseconds since 1970.
	times map[int64]bool
	// asked are the routes of the OpenAPI document that were asked, with the names
	// of the parameters that were used.
	asked map[string]map[string]bool
}

// answersOf starts a Daybook on the directory, asks everything and closes it.
func answersOf(t *testing.T, dir directory) map[string][]byte {
	t.Helper()
	q := &inquiry{T: t, dir: dir, groups: map[string]*bytes.Buffer{}, asked: map[string]map[string]bool{}}
	q.book = start(t, dir.quiet())
	list := ledgerOf(t, q.book)
	q.awaitWebhooks(list[len(list)-1].Seq)
	q.times = map[int64]bool{}
	for _, e := range list {
		q.times[e.Time.UnixMilli()] = true
	}
	q.ledger(list)
	q.lists()
	q.executions(list)
	q.heaps(list)
	q.sessions(list)
	q.events(list)
	q.integrity(list)
	q.service()
	closeBook(t, q.book)

	opts := dir.quiet()
	opts.TokenFile = ""
	q.book = start(t, opts)
	q.allTenants(list)
	q.everyRoute()
	if again := ledgerOf(t, q.book); len(again) != len(list) {
		t.Errorf("the start or the questions appended events: %d, then %d", len(list), len(again))
	}
	closeBook(t, q.book)
	groups := map[string][]byte{}
	for name, b := range q.groups {
		groups[name] = b.Bytes()
	}
	return groups
}

// awaitWebhooks waits until the webhooks have come to the last event: their lists show
// how far they are.
func (q *inquiry) awaitWebhooks(last uint64) {
	q.Helper()
	for ctx := within(q.T); ; {
		behind := 0
		for _, of := range tenants {
			var list struct {
				Webhooks []struct{ State, Position string }
			}
			q.dir.tokens.must(q.T, q.book, of, http.MethodGet, "/api/webhooks", "", &list)
			for _, h := range list.Webhooks {
				if h.State == "active" && h.Position != strconv.FormatUint(last, 10) {
					behind++
				}
			}
		}
		if behind == 0 {
			return
		}
		select {
		case <-ctx.Done():
			q.Fatalf("%d webhooks do not come to event %d", behind, last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// line is a question and its answer in a golden file.
type line struct {
	Tenant tenant          `json:"tenant"`
	URL    string          `json:"url"`
	Accept string          `json:"accept,omitempty"`
	Status int             `json:"status"`
	Header fields          `json:"header,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Text   string          `json:"text,omitempty"`
	SHA256 string          `json:"sha256,omitempty"`
	Length int             `json:"length,omitempty"`
}

// comparedHeaders are those headers of an answer that do not depend on the process.
var comparedHeaders = []string{"Content-Type", "Cache-Control", "Etag", "Location", "Daybook-Last-Sequence", "Retry-After"}

// mostText bounds the bodies that golden files hold as they are, and mostPart those
// of groups whose answers repeat what other groups hold.
const mostText, mostPart = 4000, 400

// parts are the groups of mostPart.
var parts = []string{"alltenants", "events", "history", "output", "proofs", "replays"}

// put writes a line of a golden file.
func (q *inquiry) put(group string, l any) {
	q.Helper()
	b := q.groups[group]
	if b == nil {
		b = new(bytes.Buffer)
		q.groups[group] = b
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		q.Fatal(err)
	}
}

// ask sends a question, of which route is the pattern in the OpenAPI document, or
// empty.
func (q *inquiry) ask(group string, of tenant, route, target string, header ...string) answer {
	q.Helper()
	if route != "" {
		q.used(route, target, header)
	}
	a := q.dir.tokens.ask(q.T, q.book, of, http.MethodGet, target, "", header...)
	l := line{Tenant: of, URL: target, Status: a.status, Header: fields{}}
	for pair := range slices.Chunk(header, 2) {
		if l.Accept = pair[1]; pair[0] != "Accept" {
			l.Accept = pair[0] + ": " + pair[1]
		}
	}
	for _, name := range comparedHeaders {
		if v := a.header.Get(name); v != "" {
			l.Header[name] = v
		}
	}
	body, most := q.normal(route, a.body), mostText
	if slices.Contains(parts, group) {
		most = mostPart
	}
	switch {
	case len(body) == 0:
	case !utf8.Valid(body) || len(body) > most:
		sum := sha256.Sum256(body)
		l.SHA256, l.Length = hex.EncodeToString(sum[:]), len(body)
	case json.Valid(body) && bytes.Count(body, []byte("\n")) <= 1:
		l.Body = bytes.TrimSpace(body)
	default:
		l.Text = string(body)
	}
	q.put(group, l)
	if a.status >= 500 && a.status != http.StatusServiceUnavailable {
		q.Errorf("%s: %d %.300s", target, a.status, a.body)
	}
	return answer{a.status, a.header, body}
}

// used notes a question to a route, and its parameters.
func (q *inquiry) used(route, target string, header []string) {
	u, err := url.Parse(target)
	if err != nil {
		q.Fatal(err)
	}
	if q.asked[route] == nil {
		q.asked[route] = map[string]bool{}
	}
	for name := range u.Query() {
		q.asked[route][name] = true
	}
	for pair := range slices.Chunk(header, 2) {
		q.asked[route][pair[0]] = true
	}
}

// pages follows a list to its end.
func (q *inquiry) pages(group string, of tenant, route, target string) {
	q.Helper()
	const most = 500
	join := "?"
	if strings.Contains(target, "?") {
		join = "&"
	}
	at := target
	for range most {
		var page struct {
			Next string `json:"next_cursor"`
		}
		a := q.ask(group, of, route, at)
		if err := json.Unmarshal(a.body, &page); err != nil {
			q.Fatalf("%s: %v in %s", at, err, a.body)
		}
		if page.Next == "" {
			return
		}
		at = target + join + "cursor=" + url.QueryEscape(page.Next)
	}
	q.Errorf("%s has more than %d pages", target, most)
}

// allTenants asks a server without tokens, which shows the events of all tenants.
func (q *inquiry) allTenants(list []events.Event) {
	q.Helper()
	const all = tenant("")
	last := list[len(list)-1].Seq
	for _, path := range []string{"/api/events", "/api/ledger/export", "/api/ledger/damage", "/api/ledger/volumes", "/api/executions", "/api/sessions?kind=all"} {
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

// tenants are those whose data the directory holds.
var tenants = []tenant{operator, acme}

// noID and noHash are not recorded.
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
		}{e.Seq, e.Type, e.ID, e.Tenant, e.Time.Format(time.RFC3339Nano), e.About(), "ledger.0001." + e.Subject(), e.Traceparent, e.Skips, e.Removed, e.Lost, e.Data})
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
		q.ask("lists", of, logical, logical)
		q.pages("lists", of, logical, logical+"?limit=1")
		q.ask("lists", of, "/api/webhooks", "/api/webhooks")
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

// executionsIn are the executions that events are about.
func executionsIn(list []events.Event) []known {
	return collect(list, func(e events.Event) []string {
		if !strings.HasPrefix(string(e.Type), "daybook.execution.") {
			return nil
		}
		return []string{e.About()}
	})
}

// membersIn are the values of members of the payloads of events, at any depth.
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
		q.ask("history", k.of, at+"/events", path+"/events")
		for _, text := range []string{"code", "result", "error"} {
			q.ask("executions", k.of, at+"/texts/{text}", path+"/texts/"+text)
		}
		q.ask("output", k.of, at+"/output", path+"/output")
		q.ask("output", k.of, at+"/output", path+"/output?line_offset=2&line_limit=3")
		q.ask("output", k.of, at+"/output", path+"/output?byte_offset=0")
		q.ask("output", k.of, at+"/output", path+"/output?byte_offset=5&byte_limit=100000")
		if !q.isRunning(k) { // else a stream of its output would not end
			q.ask("output", k.of, at+"/output", path+"/output", "Accept", ofStream)
			q.ask("output", k.of, at+"/output", path+"/output", "Accept", ofStream, "Last-Event-ID", "1")
		}
	}
	// What one tenant has is not there for the other.
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
	var e ran
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
				continue // it has a name or an intent, or is no session
			}
		}
		q.ask("sessions", k.of, at+"/entries", path+"/entries?fields=index,execution_id,status")
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
		// Each event, as REST shows it.
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

// integrity asks for the proofs, the tiles, the exports and the volumes.
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
	for _, path := range []string{"/api/ledger/volumes", "/api/ledger/damage", "/api/ledger/scrub"} {
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

// notAsked are the routes and parameters without a question, and why.
var notAsked = map[string]string{
	"/api/version": "names versions of this build",
	// Where the answer has to be that of the newest position it changes nothing.
	"Daybook-Min-Sequence": "waits; it is asked once",
}

// everyRoute checks that each GET route of the OpenAPI document was asked, with each
// of its parameters.
func (q *inquiry) everyRoute() {
	q.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	q.dir.tokens.must(q.T, q.book, operator, http.MethodGet, "/openapi.json", "", &doc)
	gets := 0
	for path, item := range doc.Paths {
		get, ok := item["get"]
		if !ok || notAsked[path] != "" {
			continue
		}
		gets++
		if q.asked[path] == nil {
			q.Errorf("GET %s is not asked: add a question to this test, or a reason to notAsked", path)
			continue
		}
		for _, p := range get.Parameters {
			if p.In != "path" && !q.asked[path][p.Name] && notAsked[p.Name] == "" {
				q.Errorf("GET %s is not asked with %s (%s): add a question to this test, or a reason to notAsked", path, p.Name, p.In)
			}
		}
	}
	if gets < 25 {
		q.Errorf("the document has %d GET routes", gets)
	}
	for path := range q.asked {
		if _, ok := doc.Paths[path]["get"]; !ok {
			q.Errorf("GET %s is asked and not in the document", path)
		}
	}
}

// normal replaces what cannot be equal in two answers of one directory: the id and
// the times of an unused context that did not begin with an event: each process creates
// it on demand.
func (q *inquiry) normal(route string, body []byte) []byte {
	if route != "/api/context" {
		return body
	}
	var c struct {
		ID      string `json:"session_id"`
		Created string `json:"created_at"`
		Updated string `json:"last_updated_at"`
	}
	if json.Unmarshal(body, &c) != nil || c.Created != c.Updated {
		return body
	}
	created, err := time.Parse(time.RFC3339, c.Created)
	if err != nil || q.times[created.UnixMilli()] {
		return body
	}
	for _, value := range []string{c.ID, c.Created, c.Updated} {
		body = bytes.ReplaceAll(body, []byte(strconv.Quote(value)), []byte(`"OF THIS PROCESS"`))
	}
	return body
}
