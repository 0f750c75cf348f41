package jetstream_test

import (
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
)

func TestStoredSubject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{jetstream.StoredSubject(1, events.ExecSubject("acme", "x")), "ledger.0001.acme.exec.x"},
		{jetstream.StoredSubject(12345, events.VolumeSubject(events.LedgerTenant)), "ledger.12345.@ledger.volume"},
		{jetstream.StoredSubject(2, events.PoolSubjects("gpu")), "ledger.0002.*.run.gpu.*"},
		{jetstream.StoredSubject(2, events.RunSubjects("acme", "gpu")), "ledger.0002.acme.run.gpu.*"},
		{jetstream.TenantSubjects("LEDGER-0003", "acme"), "ledger.0003.acme.>"},
		{jetstream.TenantSubjects("OBJ_BLOBS", "acme"), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}
