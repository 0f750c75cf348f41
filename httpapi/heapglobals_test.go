package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/globals"
	"daybook/ledger"
)

// listed lists globals as a test decides.
type listed struct {
	asked atomic.Int64
	skip  atomic.Int64
	list  globals.List
	err   error
}

func (l *listed) Globals(_ context.Context, tenant, heap string, skip int) (globals.List, error) {
	l.asked.Add(1)
	l.skip.Store(int64(skip))
	if tenant != events.DefaultTenant || heap != heapNo("a") {
		return globals.List{}, events.ErrNotFound
	}
	return l.list, l.err
}

func TestHeapGlobals(t *testing.T) {
	t.Parallel()
	s := start(t)
	size := int64(0)
	fake := &listed{list: globals.List{Globals: []globals.Global{{Name: "a", Kind: "lexical", Type: "string", Size: &size, Preview: "''", SHA256: strings.Repeat("0", 64)}}, More: 3}}
	s.serve(func(o *httpapi.Options) { o.Globals = fake })
	s.begin(s.submit(`{"code":"1"}`)).finish(events.StatusCompleted, "1", heapNo("a"))
	path := "/api/heaps/" + heapNo("a") + "/globals"
	a := s.do("GET", path, "")
	want := `{"globals":[{"name":"a","kind":"lexical","type":"string","size":0,"preview":"''","sha256":"` + strings.Repeat("0", 64) + `"}],"more":3}`
	if a.StatusCode != http.StatusOK || strings.TrimSpace(string(a.body)) != want {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, test := range []struct {
		err    error
		status int
		text   string
	}{
		{events.ErrNotFound, 404, "not found"},
		{&ledger.Error{Code: ledger.CodeConflict, Field: "heap", Message: "made by engine a and cannot be restored by engine b"}, 409, "engine b"},
		{&ledger.Error{Code: ledger.CodeGone, Message: "heap x was deleted"}, 410, "was deleted"},
		{events.ErrShredded, 410, ""},
		{&ledger.Error{Code: ledger.CodeTooLarge, Message: "exceeds the memory"}, 413, "exceeds"},
		{&ledger.Error{Code: ledger.CodeExhausted, Message: "too many wait"}, 429, "too many"},
		{&ledger.Error{Code: ledger.CodeUnavailable, Message: "not now"}, 503, "not now"},
		{&events.BlobDamagedError{Blob: events.LostBlob{Kind: "heap", SHA256: heapNo("a")}, Why: "wrong hash"}, 503, "damaged"},
	} {
		fake.err = test.err
		if a := s.do("GET", path, ""); a.StatusCode != test.status || !strings.Contains(string(a.body), test.text) {
			t.Errorf("%v: %d %s", test.err, a.StatusCode, a.body)
		}
	}
	fake.err = nil
	if a := s.do("GET", path+"?skip=2000", ""); a.StatusCode != http.StatusOK || fake.skip.Load() != 2000 {
		t.Errorf("skip: %d %s, %d", a.StatusCode, a.body, fake.skip.Load())
	}
	before := fake.asked.Load()
	for path, status := range map[string]int{"/api/heaps/" + heapNo("b") + "/globals": 404, "/api/heaps/abc/globals": 400, path + "?skip=-1": 400, path + "?skip=1000000001": 400, path + "?skip=x": 422} {
		if a := s.do("GET", path, ""); a.StatusCode != status {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if fake.asked.Load() != before {
		t.Error("a heap that no run left was read")
	}
}
