package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

func manyTags(n int) map[string]string {
	tags := map[string]string{}
	for i := range n {
		tags[fmt.Sprintf("key-%d", i)] = "v"
	}
	return tags
}

func TestSubmitRefusesBadInputAndWritesNothing(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	tests := []struct {
		name string
		s    ledger.Submission
		code ledger.Code
		want []string // parts of the message
	}{
		{"code too long", ledger.Submission{Code: strings.Repeat("x", 16<<20+1)}, ledger.CodeTooLarge, []string{"code", "16 MiB"}},
		{"code not UTF-8", ledger.Submission{Code: "a\xff"}, ledger.CodeInvalid, []string{"code", "UTF-8"}},
		{"NUL in code", ledger.Submission{Code: "ab\x00"}, ledger.CodeInvalid, []string{"code", "NUL", "byte 2"}},
		{"tenant with a dot", ledger.Submission{Tenant: "a.b"}, ledger.CodeInvalid, []string{"tenant", "a-z"}},
		{"tenant wildcard", ledger.Submission{Tenant: ">"}, ledger.CodeInvalid, []string{"tenant"}},
		{"tenant too long", ledger.Submission{Tenant: strings.Repeat("a", 65)}, ledger.CodeInvalid, []string{"tenant", "64"}},
		{"short heap", ledger.Submission{Heap: "abc"}, ledger.CodeInvalid, []string{"heap", "64", "abc"}},
		{"upper case heap", ledger.Submission{Heap: strings.ToUpper(heapA)}, ledger.CodeInvalid, []string{"heap", "lowercase"}},
		{"timeout 0", ledger.Submission{ExecutionTimeoutSecs: ptr(0)}, ledger.CodeInvalid, []string{"execution_timeout_secs", "1 to 300", "not 0"}},
		{"timeout 301", ledger.Submission{ExecutionTimeoutSecs: ptr(301)}, ledger.CodeInvalid, []string{"execution_timeout_secs", "1 to 300"}},
		{"memory 0", ledger.Submission{HeapMemoryMaxMB: ptr(0)}, ledger.CodeInvalid, []string{"heap_memory_max_mb", "is 0 MiB, less than 1 MiB: it must be 1 to 256 MiB (less than 8 counts as 8)"}},
		{"memory 300", ledger.Submission{HeapMemoryMaxMB: ptr(300)}, ledger.CodeInvalid, []string{"is 300 MiB, 44 MiB more than this server allows: it must be 1 to 256 MiB (less than 8 counts as 8); the operator raises the maximum with --heap-memory-ceiling"}},
		{"memory -1", ledger.Submission{HeapMemoryMaxMB: ptr(-1)}, ledger.CodeInvalid, []string{"heap_memory_max_mb"}},
		{"memory above the ceiling", ledger.Submission{HeapMemoryMaxMB: ptr(257)}, ledger.CodeInvalid, []string{"heap_memory_max_mb", "256", "257"}},
		{"session too long", ledger.Submission{Session: strings.Repeat("é", 129)}, ledger.CodeInvalid, []string{"session", "128"}},
		{"session with a line break", ledger.Submission{Session: "a\nb"}, ledger.CodeInvalid, []string{"session", "U+000A"}},
		{"session of spaces", ledger.Submission{Session: "  "}, ledger.CodeInvalid, []string{"session", "space"}},
		{"session with a zero-width space", ledger.Submission{Session: "a\u200bb"}, ledger.CodeInvalid, []string{"session", "U+200B"}},
		{"session not UTF-8", ledger.Submission{Session: "a\xff"}, ledger.CodeInvalid, []string{"session", "UTF-8"}},
		{"file name with a line break", ledger.Submission{FileName: "a\r\nb.ts"}, ledger.CodeInvalid, []string{"file_name"}},
		{"file name too long", ledger.Submission{FileName: strings.Repeat("a", 256)}, ledger.CodeInvalid, []string{"file_name", "255"}},
		{"key with a space", ledger.Submission{IdempotencyKey: "a b"}, ledger.CodeInvalid, []string{"idempotency_key", "ASCII"}},
		{"key not ASCII", ledger.Submission{IdempotencyKey: "é"}, ledger.CodeInvalid, []string{"idempotency_key"}},
		{"key too long", ledger.Submission{IdempotencyKey: strings.Repeat("k", 257)}, ledger.CodeInvalid, []string{"idempotency_key", "256"}},
		{"65 tags", ledger.Submission{Tags: manyTags(65)}, ledger.CodeInvalid, []string{"tags", "64", "65"}},
		{"empty tag key", ledger.Submission{Tags: map[string]string{"": "v"}}, ledger.CodeInvalid, []string{"tags", "empty"}},
		{"tag key of spaces", ledger.Submission{Tags: map[string]string{" ": "v"}}, ledger.CodeInvalid, []string{"tags", "empty"}},
		{"tag key with a space around", ledger.Submission{Tags: map[string]string{" a": "v"}}, ledger.CodeInvalid, []string{"tags", "space"}},
		{"tag key with a comma", ledger.Submission{Tags: map[string]string{"a,b": "v"}}, ledger.CodeInvalid, []string{"tags", "comma", "a,b"}},
		{"tag key with a NUL", ledger.Submission{Tags: map[string]string{"a\x00b": "v"}}, ledger.CodeInvalid, []string{"tags", "control characters", `a\x00b`}},
		{"tag key with a line break", ledger.Submission{Tags: map[string]string{"a\nb": "v"}}, ledger.CodeInvalid, []string{"tags", "control characters", `a\nb`}},
		{"tag key with an escape", ledger.Submission{Tags: map[string]string{"a\x1b[31mb": "v"}}, ledger.CodeInvalid, []string{"tags", "control characters"}},
		{"heap of control characters", ledger.Submission{Heap: strings.Repeat("\x00", 1<<10)}, ledger.CodeInvalid, []string{"heap", "64", `"\x00\x00`, `..."`}},
		{"tag key too long", ledger.Submission{Tags: map[string]string{strings.Repeat("k", 257): "v"}}, ledger.CodeInvalid, []string{"tags", "256"}},
		{"tag value too long", ledger.Submission{Tags: map[string]string{"k": strings.Repeat("v", 4097)}}, ledger.CodeInvalid, []string{"tags", "4096"}},
		{"tag key not UTF-8", ledger.Submission{Tags: map[string]string{"k\xff": "v"}}, ledger.CodeInvalid, []string{"tags", "UTF-8"}},
		{"tag value not UTF-8", ledger.Submission{Tags: map[string]string{"k": "\xff"}}, ledger.CodeInvalid, []string{"tags", "UTF-8"}},
		{"17 globals", ledger.Submission{Globals: manyGlobals(17)}, ledger.CodeInvalid, []string{"globals", "16", "17"}},
		{"a global without a name", ledger.Submission{Globals: globals("", "1")}, ledger.CodeInvalid, []string{"globals", "identifier"}},
		{"a global with a dot", ledger.Submission{Globals: globals("a.b", "1")}, ledger.CodeInvalid, []string{"globals", "a.b", "identifier"}},
		{"a global of 65 characters", ledger.Submission{Globals: globals(strings.Repeat("a", 65), "1")}, ledger.CodeInvalid, []string{"globals", "64"}},
		{"a global that is not JSON", ledger.Submission{Globals: globals("a", "{")}, ledger.CodeInvalid, []string{"globals", "the value of a must be JSON"}},
		{"an empty global", ledger.Submission{Globals: globals("a", "")}, ledger.CodeInvalid, []string{"globals", "JSON"}},
		{"two values in a global", ledger.Submission{Globals: globals("a", `1,"b":2`)}, ledger.CodeInvalid, []string{"globals", "JSON"}},
		{"a global not UTF-8", ledger.Submission{Globals: globals("a", "\"\xff\"")}, ledger.CodeInvalid, []string{"globals", "UTF-8"}},
		{"globals too long", ledger.Submission{Globals: globals("a", `"`+strings.Repeat("x", ledger.MaxGlobalsBytes)+`"`)}, ledger.CodeTooLarge, []string{"globals", "16 MiB"}},
		{"tags of control characters", ledger.Submission{Tags: worstTags()}, ledger.CodeInvalid, []string{"tags", "JSON"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.s.Tenant == "" {
				tt.s.Tenant = tenant
			}
			before := b.lastSeq()
			_, err := b.Submit(t.Context(), tt.s)
			wantCode(t, err, tt.code, tt.want...)
			if after := b.lastSeq(); after != before {
				t.Errorf("a refused submission moved the ledger from %d to %d", before, after)
			}
		})
	}
}

// globals returns one value with its name.
func globals(name, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(value)}
}

func manyGlobals(n int) map[string]json.RawMessage {
	list := map[string]json.RawMessage{}
	for i := range n {
		list[fmt.Sprintf("g%d", i)] = json.RawMessage("1")
	}
	return list
}

// worstTags returns tags within each limit that take six bytes of JSON per byte.
func worstTags() map[string]string {
	tags := map[string]string{}
	for i := range 64 {
		tags[fmt.Sprintf("%02d", i)+strings.Repeat("k", 254)] = strings.Repeat("\x01", 4096)
	}
	return tags
}

func TestSubmitRecordsTheRequest(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r, err := b.Submit(t.Context(), ledger.Submission{
		Tenant: tenant, Code: "1+1", Session: "my notes", HeapMemoryMaxMB: ptr(7), ExecutionTimeoutSecs: ptr(300),
		Tags: map[string]string{"k": "v"}, Actor: alice, Traceparent: trace,
	})
	if err != nil {
		t.Fatal(err)
	}
	list := b.control(r.ExecutionID)
	if len(list) != 1 || list[0].Seq != r.Seq || list[0].Traceparent != trace {
		t.Fatalf("recorded %+v, receipt %+v", list, r)
	}
	got := list[0].Data.(*events.ExecutionRequested)
	want := &events.ExecutionRequested{
		ExecutionID: r.ExecutionID, Pool: "default", SourceSHA256: events.Hash([]byte("1+1")), FileName: "main.ts", Stateful: true,
		Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1+1"}, Tags: map[string]string{"k": "v"}}),
		Limits:  events.Limits{HeapMemoryMaxMB: 8, ExecutionTimeoutSecs: 300, OutputMaxBytes: 64 << 20},
		Session: "my notes", SessionID: events.SessionID(tenant, "my notes"), RequestSHA256: got.RequestSHA256,
		Actor: alice, Warnings: r.Warnings,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "raised to 8") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestSubmitChecksTheHeap(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{EngineID: engine})
	mine, err := b.store.PutHeap(t.Context(), tenant, []byte("mine"), engine)
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.store.PutHeap(t.Context(), tenant, []byte("other"), "engine-b")
	if err != nil {
		t.Fatal(err)
	}

	if req := b.submit(ledger.Submission{Heap: mine}); len(req.Warnings) != 0 || req.Heap != mine {
		t.Errorf("a recorded heap: %+v", req)
	}
	req := b.submit(ledger.Submission{Heap: heapA})
	if want := []string{"heap " + heapA + " is not on record; starting from a fresh isolate"}; !cmp.Equal(req.Warnings, want) {
		t.Errorf("an unknown heap: warnings %q, want %q", req.Warnings, want)
	}
	_, err = b.Submit(t.Context(), ledger.Submission{Tenant: tenant, Heap: heapA, RequireHeap: true})
	wantCode(t, err, ledger.CodeNotFound, heapA, "require_heap")
	if req := b.submit(ledger.Submission{Heap: mine, RequireHeap: true}); req.Heap != mine {
		t.Errorf("a required heap that is recorded: %+v", req)
	}
	_, err = b.Submit(t.Context(), ledger.Submission{Tenant: tenant, Heap: other})
	wantCode(t, err, ledger.CodeConflict, other, "engine-a", "engine-b")
	if _, err = b.Submit(t.Context(), ledger.Submission{Tenant: "elsewhere", Heap: mine}); err != nil {
		t.Errorf("another tenant finds the heap: %v", err)
	}
}

func TestSubmitKeepsTagsNilOrEmpty(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	if tags := b.submit(ledger.Submission{}).Content.Value().Tags; tags != nil {
		t.Errorf("no tags came back as %v", tags)
	}
	if tags := b.submit(ledger.Submission{Tags: map[string]string{}}).Content.Value().Tags; tags == nil {
		t.Error("empty tags came back as none")
	}
}

func TestSubmitStateless(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{Stateless: true})
	for field, s := range map[string]ledger.Submission{
		"heap": {Heap: heapA}, "session": {Session: "s"}, "tags": {Tags: map[string]string{}},
	} {
		s.Tenant = tenant
		_, err := b.Submit(t.Context(), s)
		wantCode(t, err, ledger.CodeInvalid, field, "stateless")
	}
	if req := b.submit(ledger.Submission{Code: "1"}); req.Stateful {
		t.Error("the run is stateful")
	}
}

// A submission with the maximum of each field, in the characters that take most space, fits
// an event.
func TestSubmitFitsAnEvent(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	full := map[string]string{}
	for i := range 64 {
		full[fmt.Sprintf("%02d", i)+strings.Repeat("k", 254)] = strings.Repeat("v", 4096)
	}
	longest := ledger.Submission{
		Session: strings.Repeat("<", 128), FileName: strings.Repeat("&", 255), IdempotencyKey: strings.Repeat("k", 256), Tags: full, Heap: heapA,
		Actor: events.Actor{Principal: strings.Repeat("\x01", 5000), Transport: strings.Repeat("\x01", 5000), Client: strings.Repeat("\xff", 5000), Address: strings.Repeat("é", 5000)},
	}
	for name, code := range map[string]string{
		"longest inline":     strings.Repeat("x", events.InlineBytes),
		"inline, all escape": strings.Repeat("\x01", events.InlineBytes),
		"just too long":      strings.Repeat("y", events.InlineBytes+1),
		"longest":            strings.Repeat("é", ledger.MaxCodeBytes/2),
	} {
		t.Run(name, func(t *testing.T) {
			s := longest
			s.Tenant, s.Code = tenant, code
			s.IdempotencyKey = events.Hash([]byte(name)) + s.IdempotencyKey[64:]
			r, err := b.Submit(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			req := b.request(r.ExecutionID)
			got := req.Content.Value().Source.Text
			if ref := req.Content.Value().Source.Blob; ref != nil {
				text, err := b.store.Text(t.Context(), tenant, ref.SHA256)
				if err != nil {
					t.Fatal(err)
				}
				got = string(text)
				if ref.Size != int64(len(code)) || len(ref.Preview) > events.PreviewBytes || !strings.HasPrefix(code, ref.Preview) {
					t.Errorf("reference %d bytes, preview %d bytes", ref.Size, len(ref.Preview))
				}
			}
			if got != code {
				t.Errorf("source of %d bytes came back as %d", len(code), len(got))
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	b := openTestLedgerOn(t, store, ledger.Options{})
	base := ledger.Submission{Tenant: tenant, Code: "1", Session: "s", Tags: map[string]string{"a": "1", "b": "2"}, IdempotencyKey: "key", ExecutionTimeoutSecs: ptr(5)}
	first, err := b.Submit(t.Context(), base)
	if err != nil || first.Repeated {
		t.Fatalf("%+v, %v", first, err)
	}

	same := base
	same.Tags = map[string]string{"b": "2", "a": "1"}
	same.FileName = "main.ts"
	same.ExecutionTimeoutSecs = ptr(5)
	same.Actor = events.Actor{Principal: "bob", Transport: "mcp-http"}
	// Another process with other defaults: the request has the same fingerprint.
	again, err := openTestLedgerOn(t, store, ledger.Options{HeapMemoryMB: 128, TimeoutSecs: 60}).Submit(t.Context(), same)
	if want := (ledger.Receipt{ExecutionID: first.ExecutionID, Seq: first.Seq, Repeated: true}); err != nil || !cmp.Equal(again, want) {
		t.Errorf("repeated: %+v, %v; want %+v", again, err, want)
	}

	for name, change := range map[string]func(*ledger.Submission){
		"code":         func(s *ledger.Submission) { s.Code = "2" },
		"session":      func(s *ledger.Submission) { s.Session = "" },
		"heap":         func(s *ledger.Submission) { s.Heap = heapA },
		"file name":    func(s *ledger.Submission) { s.FileName = "x.ts" },
		"tag":          func(s *ledger.Submission) { s.Tags = map[string]string{"a": "1", "b": "3"} },
		"no tags":      func(s *ledger.Submission) { s.Tags = nil },
		"cleared tags": func(s *ledger.Submission) { s.Tags = map[string]string{} },
		"timeout":      func(s *ledger.Submission) { s.ExecutionTimeoutSecs = ptr(6) },
		"no timeout":   func(s *ledger.Submission) { s.ExecutionTimeoutSecs = nil },
		"memory":       func(s *ledger.Submission) { s.HeapMemoryMaxMB = ptr(64) },
		"globals":      func(s *ledger.Submission) { s.Globals = globals("a", "1") },
	} {
		t.Run(name, func(t *testing.T) {
			s := base
			change(&s)
			_, err := b.Submit(t.Context(), s)
			wantCode(t, err, ledger.CodeConflict, "idempotency_key", first.ExecutionID)
		})
	}
	base.Tenant = "elsewhere"
	if r, err := b.Submit(t.Context(), base); err != nil || r.ExecutionID == first.ExecutionID || r.Repeated {
		t.Errorf("another tenant's key: %+v, %v", r, err)
	}
	if got := types(b.all()); got != "requested requested" {
		t.Errorf("recorded %s", got)
	}
}

func TestIdempotencyKeyRace(t *testing.T) {
	t.Parallel()
	store := storetest.Start(t)
	ledgers := []*testLedger{openTestLedgerOn(t, store, ledger.Options{}), openTestLedgerOn(t, store, ledger.Options{})}
	receipts := make([]ledger.Receipt, 20)
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range receipts {
		wg.Go(func() {
			// Submissions with an odd number have other code and the same key.
			receipts[i], errs[i] = ledgers[i/10].Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: fmt.Sprint(i % 2), IdempotencyKey: "k"})
		})
	}
	wg.Wait()
	list := ledgers[0].all()
	if len(list) != 1 {
		t.Fatalf("recorded %s", types(list))
	}
	won := list[0].Data.(*events.ExecutionRequested).Content.Value().Source.Text
	fresh := 0
	for i, r := range receipts {
		if fmt.Sprint(i%2) != won {
			wantCode(t, errs[i], ledger.CodeConflict)
			continue
		}
		if errs[i] != nil || r.ExecutionID != list[0].About() || r.Seq != list[0].Seq {
			t.Errorf("submission %d: %+v, %v", i, r, errs[i])
		}
		if !r.Repeated {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d submissions are reported as new", fresh)
	}
}

func TestSubmitIgnoresAMalformedTraceparent(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	req := b.submit(ledger.Submission{Traceparent: "00-x\r\nce-tenant: other"})
	if req.Traceparent != "" || req.Tenant != tenant {
		t.Errorf("recorded %q for %q", req.Traceparent, req.Tenant)
	}
}
