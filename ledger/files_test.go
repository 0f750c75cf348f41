package ledger_test

import (
	"testing"

	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// The fingerprint includes the files of a run: an idempotency key answers only a request with
// the same files. A request without files has the hash that it had before files existed.
func TestFingerprintIncludesFiles(t *testing.T) {
	t.Parallel()
	b := openTestLedgerOn(t, storetest.Start(t), ledger.Options{})
	s := ledger.Submission{Tenant: tenant, Code: "1", IdempotencyKey: "k", Files: map[string]string{"a.ts": "1", "b.ts": "2"}}
	first, err := b.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Files = map[string]string{"b.ts": "2", "a.ts": "1"}
	if again, err := b.Submit(t.Context(), s); err != nil || !again.Repeated || again.ExecutionID != first.ExecutionID {
		t.Errorf("the same files: %+v, %v", again, err)
	}
	for name, other := range map[string]map[string]string{
		"none": nil, "another source": {"a.ts": "1", "b.ts": "3"}, "another path": {"a.ts": "1", "c.ts": "2"}, "fewer": {"a.ts": "1"}, "exchanged": {"a.ts": "2", "b.ts": "1"},
	} {
		s.Files = other
		_, err := b.Submit(t.Context(), s)
		wantCode(t, err, ledger.CodeConflict, "idempotency_key", first.ExecutionID)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if a, z := ledger.RequestSHA256(ledger.Submission{Code: "1", Files: map[string]string{}}), ledger.RequestSHA256(ledger.Submission{Code: "1", Files: map[string]string{"a.ts": ""}}); a == z || a != "4291f81b6ef61a7e3b9115bf455d769629e9c58a09ab1be8818cc8322d070595" {
		t.Errorf("the hashes are %s without files and %s with them", a, z)
	}
}
