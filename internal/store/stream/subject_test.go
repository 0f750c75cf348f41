package stream_test

import (
	"testing"

	"daybook/events"
	"daybook/internal/store/stream"
)

func TestStoredSubject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{stream.StoredSubject(1, events.ExecSubject("acme", "x")), "ledger.0001.acme.exec.x"},
		{stream.StoredSubject(12345, events.VolumeSubject(events.LedgerTenant)), "ledger.12345.@ledger.volume"},
		{stream.StoredSubject(2, events.PoolSubjects("gpu")), "ledger.0002.*.run.gpu.*"},
		{stream.StoredSubject(2, events.RunSubjects("acme", "gpu")), "ledger.0002.acme.run.gpu.*"},
		{stream.TenantSubjects("LEDGER-0003", "acme"), "ledger.0003.acme.>"},
		{stream.TenantSubjects("OBJ_BLOBS", "acme"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}
