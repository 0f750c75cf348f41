package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"daybook/httpapi"
	"daybook/ledger"
)

const (
	someID   = "01890000-0000-7000-8000-000000000000"
	someHeap = "a3f8b2c1d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f0a1"
)

// The response to an invalid request is a problem document whose message names the
// field and the rule, and the ledger is unchanged.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.submit(`{"code":"1"}`)
	before := s.lastSeq()

	jsonType := []string{"Content-Type", "application/json"}
	long := strings.Repeat("<", 100_000)
	plain := []string{"Content-Type", "text/plain"}
	for _, tc := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		field                    string
		text                     string // part of the message
	}{
		// Submissions as JSON.
		{"no body", "POST", "/api/exec", "", nil, 400, "", "no body"},
		{"not JSON", "POST", "/api/exec", "1+1", jsonType, 400, "", "not JSON"},
		{"script without type", "POST", "/api/exec", "let x = 1", nil, 400, "", "Content-Type: text/plain"},
		{"cut JSON", "POST", "/api/exec", `{"code":"1"`, jsonType, 400, "", "ends too early"},
		{"more than JSON", "POST", "/api/exec", `{"code":"1"} {}`, jsonType, 400, "", "continues after"},
		{"array", "POST", "/api/exec", `["1"]`, jsonType, 422, "", "must be a JSON object, not an array"},
		{"string", "POST", "/api/exec", `"1"`, jsonType, 422, "", "not a string"},
		{"no code", "POST", "/api/exec", `{}`, jsonType, 422, "code", "code is missing"},
		{"null code", "POST", "/api/exec", `{"code":null}`, jsonType, 422, "code", "code is missing"},
		{"code is a number", "POST", "/api/exec", `{"code":1}`, jsonType, 422, "code", "code must be a string, not a number"},
		{"unknown field", "POST", "/api/exec", `{"code":"1","timeout":5}`, jsonType, 422, "timeout", `unknown field "timeout"`},
		{"long unknown field", "POST", "/api/exec", `{"` + long + `":1}`, jsonType, 422, long[:200] + "...", "unknown field"},
		{"long field twice", "POST", "/api/exec", `{"` + long + `":1,"` + long + `":1}`, jsonType, 422, long[:200] + "...", "unknown field"},
		{"long tag", "POST", "/api/exec", `{"code":"1","tags":{"` + long + `":1}}`, jsonType, 422, ("tags." + long)[:200] + "...", "must be a string"},
		{"long tag twice", "POST", "/api/exec", `{"code":"1","tags":{"` + long + `":"1","` + long + `":"1"}}`, jsonType, 400, ("tags." + long)[:200] + "...", "given twice"},
		{"long field of a context", "PATCH", "/api/context", `{"` + long + `":1}`, jsonType, 422, long[:200] + "...", "unknown field"},
		{"long seed", "POST", "/api/logical-sessions", `{"intent":"i","seeds":["` + long + `"]}`, jsonType, 400, "seeds", "seed"},
		{"other spelling", "POST", "/api/exec", `{"Code":"1"}`, jsonType, 422, "Code", `unknown field "Code"`},
		{"field twice", "POST", "/api/exec", `{"code":"1","code":"2"}`, jsonType, 400, "code", "given twice"},
		{"NUL", "POST", "/api/exec", `{"code":"a\u0000b"}`, jsonType, 400, "code", "NUL byte"},
		{"invalid UTF-8", "POST", "/api/exec", "{\"code\":\"a\xffb\"}", jsonType, 400, "code", "valid UTF-8"},
		{"half a surrogate pair", "POST", "/api/exec", `{"code":"'\ud800'"}`, jsonType, 400, "code", "surrogate"},
		{"malformed heap", "POST", "/api/exec", `{"code":"1","heap":"abc"}`, jsonType, 400, "heap", "64 lowercase hex"},
		{"upper-case heap", "POST", "/api/exec", `{"code":"1","heap":"` + strings.ToUpper(someHeap) + `"}`, jsonType, 400, "heap", "64 lowercase hex"},
		{"no memory", "POST", "/api/exec", `{"code":"1","heap_memory_max_mb":0}`, jsonType, 400, "heap_memory_max_mb", "256"},
		{"too much memory", "POST", "/api/exec", `{"code":"1","heap_memory_max_mb":257}`, jsonType, 400, "heap_memory_max_mb", "256"},
		{"memory as text", "POST", "/api/exec", `{"code":"1","heap_memory_max_mb":"64"}`, jsonType, 422, "heap_memory_max_mb", "must be an integer, not a string"},
		{"no time", "POST", "/api/exec", `{"code":"1","execution_timeout_secs":0}`, jsonType, 400, "execution_timeout_secs", "1 to 300"},
		{"too much time", "POST", "/api/exec", `{"code":"1","execution_timeout_secs":301}`, jsonType, 400, "execution_timeout_secs", "1 to 300"},
		{"fraction", "POST", "/api/exec", `{"code":"1","execution_timeout_secs":1.5}`, jsonType, 422, "execution_timeout_secs", "must be an integer"},
		{"huge number", "POST", "/api/exec", `{"code":"1","execution_timeout_secs":99999999999999999999}`, jsonType, 400, "execution_timeout_secs", "out of range"},
		{"boolean time", "POST", "/api/exec", `{"code":"1","execution_timeout_secs":true}`, jsonType, 422, "execution_timeout_secs", "not a boolean"},
		{"tags as list", "POST", "/api/exec", `{"code":"1","tags":["a"]}`, jsonType, 422, "tags", "must be a JSON object, not an array"},
		{"tag value", "POST", "/api/exec", `{"code":"1","tags":{"a":1}}`, jsonType, 422, "tags.a", "must be a string"},
		{"null tag", "POST", "/api/exec", `{"code":"1","tags":{"a":null}}`, jsonType, 422, "tags.a", "not null"},
		{"tag twice", "POST", "/api/exec", `{"code":"1","tags":{"a":"1","a":"2"}}`, jsonType, 400, "tags.a", "given twice"},
		{"comma in tag key", "POST", "/api/exec", `{"code":"1","tags":{"a,b":"1"}}`, jsonType, 400, "tags", "comma"},
		{"NUL in tag key", "POST", "/api/exec", `{"code":"1","tags":{"a\u0000b":"1"}}`, jsonType, 400, "tags", "control characters"},
		{"empty tag key", "POST", "/api/exec", `{"code":"1","tags":{"":"1"}}`, jsonType, 400, "tags", "empty"},
		{"invisible session", "POST", "/api/exec", `{"code":"1","session":"a\u0007"}`, jsonType, 400, "session", "visible"},
		{"long session", "POST", "/api/exec", `{"code":"1","session":"` + strings.Repeat("s", 129) + `"}`, jsonType, 400, "session", "128"},
		{"query with JSON", "POST", "/api/exec?heap_memory_max_mb=64", `{"code":"1"}`, jsonType, 400, "heap_memory_max_mb", "put it into the JSON object"},
		{"long idempotency key", "POST", "/api/exec", `{"code":"1"}`, []string{"Idempotency-Key", strings.Repeat("k", 257)}, 400, "idempotency_key", "256"},

		{"empty idempotency key", "POST", "/api/exec", `{"code":"1"}`, []string{"Idempotency-Key", ""}, 400, "Idempotency-Key", "not empty"},
		{"two idempotency keys", "POST", "/api/exec", `{"code":"1"}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "Idempotency-Key", "one"},

		// Content types.
		{"form", "POST", "/api/exec", "console.log(1)", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type", "curl -H 'Content-Type: text/plain' --data-binary"},
		{"form of broken JSON", "POST", "/api/exec", `{"code":`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type", "curl"},
		{"multipart", "POST", "/api/exec", "--b--", []string{"Content-Type", "multipart/form-data; boundary=b"}, 415, "Content-Type", "multipart"},
		{"no media type", "POST", "/api/exec", "1", []string{"Content-Type", ";;"}, 415, "Content-Type", "not a media type"},
		{"other charset", "POST", "/api/exec", "1", []string{"Content-Type", "text/plain; charset=utf-16"}, 415, "Content-Type", "UTF-8"},
		{"compressed", "POST", "/api/exec", "1", []string{"Content-Type", "text/plain", "Content-Encoding", "gzip"}, 415, "Content-Encoding", "gzip"},

		// Submissions of the script itself.
		{"raw NUL", "POST", "/api/exec", "a\x00b", plain, 400, "code", "NUL byte"},
		{"raw invalid UTF-8", "POST", "/api/exec", "a\xffb", plain, 400, "code", "valid UTF-8"},
		{"raw tag form", "POST", "/api/exec?tag=env", "1", plain, 400, "tag", "KEY=VALUE"},
		{"raw tag twice", "POST", "/api/exec?tag=a=1&tag=a=2", "1", plain, 400, "tag", `"a" twice`},
		{"raw time", "POST", "/api/exec?execution_timeout_secs=0", "1", plain, 400, "execution_timeout_secs", "1 to 300"},
		{"raw time as text", "POST", "/api/exec?execution_timeout_secs=soon", "1", plain, 422, "execution_timeout_secs", `must be an integer, not "soon"`},
		{"raw unknown", "POST", "/api/exec?timeout=1", "1", plain, 422, "timeout", `unknown query parameter "timeout"; the parameters are `},
		{"raw unknown, with those known", "POST", "/api/exec?timeout=1", "1", plain, 422, "timeout", "execution_timeout_secs"},
		{"raw twice", "POST", "/api/exec?session=a&session=b", "1", plain, 400, "session", "given 2 times"},
		{"raw heap", "POST", "/api/exec?heap=abc", "1", plain, 400, "heap", "64 lowercase hex"},

		// Queries in general.
		{"bad escape", "GET", "/api/executions?session=%zz", "", nil, 400, "query", "not well formed"},
		{"semicolon", "GET", "/api/executions?a=1;b=2", "", nil, 400, "query", "not well formed"},
		{"NUL in query", "GET", "/api/executions?session=%00", "", nil, 400, "session", "NUL"},
		{"invalid UTF-8 in query", "GET", "/api/executions?session=%ff", "", nil, 400, "session", "UTF-8"},
		{"position", "GET", "/api/executions", "", []string{"Daybook-Min-Sequence", "now"}, 422, "Daybook-Min-Sequence", "must be an integer"},
		{"negative position", "GET", "/api/executions", "", []string{"Daybook-Min-Sequence", "-1"}, 422, "Daybook-Min-Sequence", "Daybook-Min-Sequence must be 0 or more, not -1"},
		{"negative after", "GET", "/api/events?after=-1", "", nil, 422, "after", "after must be 0 or more, not -1"},
		{"far too large", "GET", "/api/executions?limit=99999999999999999999", "", nil, 422, "limit", "limit is out of range"},
		{"nothing to ask for", "GET", "/api/version?x=1", "", nil, 422, "x", "the operation has none"},
		{"types are listed", "GET", "/api/events?type=zz", "", nil, 400, "type", "daybook.execution.requested.v1, daybook.execution.started.v1"},
		{"tags without a body", "PUT", "/api/heaps/" + strings.Repeat("ab", 32) + "/tags", "", nil, 400, "", `{"tags":{"KEY":"VALUE"}}`},

		// Executions.
		{"status", "GET", "/api/executions?status=done", "", nil, 400, "status", "running, completed"},
		{"limit 0", "GET", "/api/executions?limit=0", "", nil, 400, "limit", "1 to 1000"},
		{"limit 1001", "GET", "/api/executions?limit=1001", "", nil, 400, "limit", "1 to 1000"},
		{"limit text", "GET", "/api/executions?limit=many", "", nil, 422, "limit", "integer"},
		{"tag form", "GET", "/api/executions?tag=env", "", nil, 400, "tag", "KEY=VALUE"},
		{"cursor", "GET", "/api/executions?cursor=%3F%3F", "", nil, 400, "cursor", "cursor"},
		{"two mistakes", "GET", "/api/executions?limit=x&bogus=1", "", nil, 422, "bogus", "bogus"},
		{"unknown execution", "GET", "/api/executions/" + someID, "", nil, 404, "execution_id", someID},
		{"no id at all", "GET", "/api/executions/nonsense", "", nil, 404, "execution_id", "nonsense"},
		{"wait too long", "GET", "/api/executions/" + id + "?wait=61", "", nil, 400, "wait", "0 to 60"},
		{"negative wait", "GET", "/api/executions/" + id + "?wait=-1", "", nil, 400, "wait", "0 to 60"},
		{"unknown history", "GET", "/api/executions/" + someID + "/events", "", nil, 404, "execution_id", someID},
		{"cancel unknown", "POST", "/api/executions/" + someID + "/cancel", "", nil, 404, "execution_id", someID},
		{"cancel no id", "POST", "/api/executions/nonsense/cancel", "", nil, 404, "execution_id", "nonsense"},

		// Output.
		{"output of unknown", "GET", "/api/executions/" + someID + "/output", "", nil, 404, "execution_id", someID},
		{"follow unknown", "GET", "/api/executions/" + someID + "/output", "", []string{"Accept", "text/event-stream"}, 404, "execution_id", someID},
		{"line 0", "GET", "/api/executions/" + id + "/output?line_offset=0", "", nil, 400, "line_offset", "1 or more"},
		{"no lines", "GET", "/api/executions/" + id + "/output?line_limit=0", "", nil, 400, "line_limit", "1 or more"},
		{"byte -1", "GET", "/api/executions/" + id + "/output?byte_offset=-1", "", nil, 400, "byte_offset", "0 or more"},
		{"no bytes", "GET", "/api/executions/" + id + "/output?byte_offset=0&byte_limit=0", "", nil, 400, "byte_limit", "1 or more"},
		{"follow bytes", "GET", "/api/executions/" + id + "/output?byte_offset=0", "", []string{"Accept", "text/event-stream"}, 400, "byte_offset", "line_offset"},
		{"resume nowhere", "GET", "/api/executions/" + id + "/output", "", []string{"Accept", "text/event-stream", "Last-Event-ID", "x"}, 400, "Last-Event-ID", "line number"},

		// Heaps.
		{"heap form", "GET", "/api/heaps/abc", "", nil, 400, "heap", "64 lowercase hex"},
		{"unknown heap", "GET", "/api/heaps/" + someHeap, "", nil, 404, "heap", someHeap},
		{"lineage form", "GET", "/api/heaps/abc/lineage", "", nil, 400, "heap", "64 lowercase hex"},
		{"tags form", "GET", "/api/heaps/abc/tags", "", nil, 400, "heap", "64 lowercase hex"},
		{"set form", "PUT", "/api/heaps/abc/tags", `{"tags":{}}`, jsonType, 400, "heap", "64 lowercase hex"},
		{"set nothing", "PUT", "/api/heaps/" + someHeap + "/tags", `{}`, jsonType, 422, "tags", "tags is missing"},
		{"set bare", "PUT", "/api/heaps/" + someHeap + "/tags", `{"env":"x"}`, jsonType, 422, "env", "unknown field"},
		{"set number", "PUT", "/api/heaps/" + someHeap + "/tags", `{"tags":{"a":1}}`, jsonType, 422, "tags.a", "must be a string"},
		{"set comma", "PUT", "/api/heaps/" + someHeap + "/tags", `{"tags":{"a,b":"1"}}`, jsonType, 400, "tags", "comma"},
		{"set line break", "PUT", "/api/heaps/" + someHeap + "/tags", `{"tags":{"a\nb":"1"}}`, jsonType, 400, "tags", "control characters"},
		{"set text", "PUT", "/api/heaps/" + someHeap + "/tags", `a=b`, plain, 415, "Content-Type", "JSON"},
		{"delete form", "DELETE", "/api/heaps/abc/tags", "", nil, 400, "heap", "64 lowercase hex"},
		{"heaps by tag form", "GET", "/api/heaps?tag=env", "", nil, 400, "tag", "KEY=VALUE"},
		{"heaps by tag after another list", "GET", "/api/heaps?tag=a=b&cursor=AAAA", "", nil, 400, "cursor", "not one that was given out"},
		{"heaps limit", "GET", "/api/heaps?limit=0", "", nil, 400, "limit", "1 to 1000"},

		// Sessions and events.
		{"field names", "GET", "/api/sessions/x/entries?fields=index,secret", "", nil, 400, "fields", `"secret"`},
		{"event type", "GET", "/api/events?type=daybook.nothing.v1", "", nil, 400, "type", "daybook.execution.requested.v1"},
		{"events limit", "GET", "/api/events?limit=0", "", nil, 400, "limit", "1 to 100000"},
		{"after text", "GET", "/api/events?after=now", "", nil, 422, "after", "integer"},
		{"after the end", "GET", "/api/events?after=999999", "", nil, 400, "after", "ends at"},
		{"resume events", "GET", "/api/events", "", []string{"Accept", "text/event-stream", "Last-Event-ID", "x"}, 400, "Last-Event-ID", "position"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := s.do(tc.method, tc.path, tc.body, tc.header...)
			var p httpapi.Problem
			if err := json.Unmarshal(a.body, &p); err != nil {
				t.Fatalf("%d, not a problem document: %s", a.StatusCode, a.body)
			}
			if a.StatusCode != tc.status || p.Status != tc.status {
				t.Errorf("status %d (%d in the body), want %d: %s", a.StatusCode, p.Status, tc.status, a.body)
			}
			if p.Field != tc.field || !strings.Contains(p.Error, tc.text) {
				t.Errorf("field %q, error %q; want field %q and %q", p.Field, p.Error, tc.field, tc.text)
			}
			if p.Detail != p.Error || p.Title != http.StatusText(tc.status) || p.Type != "about:blank" || p.Code == "" {
				t.Errorf("not a complete problem document: %s", a.body)
			}
			if len(a.body) > 64<<10 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
			if ct := a.Header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type is %q", ct)
			}
			if strings.HasSuffix(tc.path, "/cancel") && (p.OK == nil || *p.OK) {
				t.Errorf("no \"ok\": false in %s", a.body)
			}
		})
	}
	if after := s.lastSeq(); after != before {
		t.Errorf("refused requests moved the ledger from %d to %d", before, after)
	}
	if log := s.log.String(); log != "" {
		t.Errorf("mistakes of clients were logged: %s", log)
	}
}

// The code may have exactly 16 MiB, in either form. Longer code is refused without
// reading all of it, and nothing is stored.
func TestBodySizes(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: bodies of 16 MiB pass the decoders")
	}
	t.Parallel()
	s := start(t)
	const most = 16 << 20
	code := bytes.Repeat([]byte("/"), most)
	asJSON := func(code []byte) []byte { return append(append([]byte(`{"code":"`), code...), `"}`...) }
	escaped := asJSON(bytes.Repeat([]byte(`\n`), most))
	for _, tc := range []struct {
		name, contentType string
		body              []byte
		chunked           bool
		status            int
	}{
		{"raw at the limit", "text/javascript", code, false, 202},
		{"JSON at the limit", "application/json", asJSON(code), false, 202},
		{"escaped JSON at the limit", "application/json", escaped, false, 202},
		{"raw over it", "text/javascript", append(code, '/'), false, 413},
		{"JSON over it", "application/json", asJSON(append(code, '/')), false, 413},
		{"body over the cap", "text/plain", make([]byte, ledger.MaxRequestBytes+1<<20), false, 413},
		{"body over the cap in chunks", "text/plain", make([]byte, ledger.MaxRequestBytes+1<<20), true, 413},
	} {
		before := s.lastSeq()
		var body io.Reader = bytes.NewReader(tc.body)
		if tc.chunked {
			body = io.MultiReader(body) // hides the length
		}
		a := s.send(http.MethodPost, "/api/exec", body, "Content-Type", tc.contentType)
		if a.StatusCode != tc.status {
			t.Errorf("%s: %d %.200s, want %d", tc.name, a.StatusCode, a.body, tc.status)
		}
		if tc.status == 413 && !strings.Contains(string(a.body), "16 MiB") {
			t.Errorf("%s: %s does not name the limit", tc.name, a.body)
		}
		if len(tc.body) > ledger.MaxRequestBytes && !a.Close {
			// Otherwise the rest of the body would be read as the next request.
			t.Errorf("%s: the connection stays open", tc.name)
		}
		if stored := s.lastSeq() != before; stored != (tc.status == 202) {
			t.Errorf("%s: stored is %v", tc.name, stored)
		}
	}
}
