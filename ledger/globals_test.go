package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// The request holds the values beside the code, whose text and hash are unchanged. Values
// that do not fit beside the code become a blob. The largest possible request fits an
// event.
func TestGlobalsAreRecorded(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, ledger.Options{})
	if got := b.submit(ledger.Submission{Code: "1", Globals: globals("a", "1")}); got.SourceSHA256 != events.Hash([]byte("1")) || got.Content.Value().Source.Text != "1" {
		t.Errorf("the source is recorded as %+v", got)
	}
	if got := b.submit(ledger.Submission{Globals: map[string]json.RawMessage{}}).Content.Value().Globals; got != nil {
		t.Errorf("no values are recorded as %+v", got)
	}
	full := map[string]string{}
	for i := range 64 {
		full[fmt.Sprintf("%02d", i)+strings.Repeat("k", 254)] = strings.Repeat("v", 4096)
	}
	for name, test := range map[string]struct {
		code, globals, want string
		blob                bool
	}{
		"compact":            {"1", `{ "b" : [ 1, "<&>" ] }`, `{"b":[1,"<&>"]}`, false},
		"beside a long code": {strings.Repeat("x", events.InlineBytes-10), `"0123456789"`, `"0123456789"`, true},
		"as much as fits":    {strings.Repeat("x", events.InlineBytes/2), `"` + strings.Repeat("y", events.InlineBytes/2-8) + `"`, "", false},
		"all escape":         {strings.Repeat("\x01", 12<<10), `"` + strings.Repeat(`\"`, 20<<10) + `"`, "", true},
		"code in a blob":     {strings.Repeat("x", events.InlineBytes+1), `"` + strings.Repeat("y", events.InlineBytes-8) + `"`, "", false},
		"both in blobs":      {strings.Repeat("\x01", events.InlineBytes), `"` + strings.Repeat(`\"`, 1<<20) + `"`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.want == "" {
				test.want = test.globals
			}
			req := b.submit(ledger.Submission{Code: test.code, Tags: full, Globals: globals("a", test.globals)})
			body := req.Content.Value().Globals
			if body == nil || (body.Blob != nil) != test.blob {
				t.Fatalf("the values are recorded as %.100v", body)
			}
			text := body.Text
			if body.Blob != nil {
				stored, err := b.store.Text(t.Context(), tenant, body.Blob.SHA256)
				if err != nil {
					t.Fatal(err)
				}
				text = string(stored)
				if body.Blob.Size != int64(len(text)) || !strings.HasPrefix(text, body.Blob.Preview) {
					t.Errorf("the blob is recorded with %d bytes and the preview %.40q", body.Blob.Size, body.Blob.Preview)
				}
			}
			if want := `{"a":` + test.want + `}`; text != want {
				t.Errorf("the values are recorded as %.80s (%d bytes), want %.80s (%d bytes)", text, len(text), want, len(want))
			}
		})
	}
}

// The fingerprint includes the values. A request without values has the hash that it had
// before globals existed.
func TestFingerprintIncludesGlobals(t *testing.T) {
	t.Parallel()
	b := openTestLedgerOn(t, storetest.Start(t), ledger.Options{})
	s := ledger.Submission{Tenant: tenant, Code: "1", IdempotencyKey: "k", Globals: map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("[ 2 ]")}}
	first, err := b.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Globals = map[string]json.RawMessage{"b": json.RawMessage("[2]"), "a": json.RawMessage("1")}
	if again, err := b.Submit(t.Context(), s); err != nil || !again.Repeated || again.ExecutionID != first.ExecutionID {
		t.Errorf("the same values: %+v, %v", again, err)
	}
	for name, other := range map[string]map[string]json.RawMessage{"none": nil, "another value": globals("a", "2"), "fewer": globals("a", "1")} {
		s.Globals = other
		_, err := b.Submit(t.Context(), s)
		wantCode(t, err, ledger.CodeConflict, "idempotency_key", first.ExecutionID)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if a, z := ledger.RequestSHA256(ledger.Submission{Code: "1"}), ledger.RequestSHA256(ledger.Submission{Code: "1", Globals: globals("a", "1")}); a == z || a != "4291f81b6ef61a7e3b9115bf455d769629e9c58a09ab1be8818cc8322d070595" {
		t.Errorf("the hashes are %s without values and %s with them", a, z)
	}
}
