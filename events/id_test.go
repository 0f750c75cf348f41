package events_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"daybook/events"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		id := events.NewID(began.Add(time.Duration(i) * time.Millisecond))
		if !events.ValidID(id) || id[14] != '7' || !strings.Contains("89ab", id[19:20]) {
			t.Fatalf("%s is not a version 7 UUID", id)
		}
		if seen[id] || id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		seen[id], last = true, id
	}
	if id := events.NewID(time.UnixMilli(0x0123456789ab)); !strings.HasPrefix(id, "01234567-89ab-7") {
		t.Errorf("%s does not begin with its time", id)
	}
}

// Ids and subjects that are computed from names never change, because stored ledgers
// contain them.
func TestDerivedNames(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, got, want string }{
		{"idempotency key", events.DerivedID("default", "order-17"), "97ab2966-ea18-8e42-894c-e9ffcb2424ee"},
		{"another tenant's", events.DerivedID("acme", "order-17"), "0fefd285-82a7-8c6c-ba3f-9c8ea93dafec"},
		{"session", events.SessionID("default", "trip-planner"), "7a2d9d4512cb8e20aa1ec6353c279a455952d1cc2ba162d671cfa66a3fa37970"},
		{"hash", events.Hash([]byte("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"stream", events.Volume(1).Stream(), "LEDGER-0001"},
		{"a late stream", events.Volume(12345).Stream(), "LEDGER-12345"},
		{"a pool's subjects", events.PoolSubjects("default"), "*.run.default.*"},
		{"a tenant's run subjects", events.RunSubjects("acme", "default"), "acme.run.default.*"},
		{"run", events.RunSubject("default", "gpu", execution), "default.run.gpu." + execution},
		{"exec", events.ExecSubject("default", execution), "default.exec." + execution},
		{"out", events.OutSubject("default", execution), "default.out.de"},
		{"module", events.ModuleSubject("default"), "default.module.lock"},
		{"session subject", events.SessionSubject("default", "abc"), "default.session.abc"},
		{"heap", events.HeapSubject("default", heapIn), "default.heap." + heapIn},
		{"heaps of earlier versions", events.HeapBucketSubject("default", heapIn), "default.heap.3f"},
		{"migration", events.MigrationSubject("default", heapIn), "default.migration." + heapIn},
		{"migrations of earlier versions", events.MigrationBucketSubject("default", heapIn), "default.migration.3f"},
		{"cancel", events.CancelSubject("default", execution), "ctl.default.exec." + execution + ".cancel"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s is %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	if id := events.DerivedID("default", "order-17"); !events.ValidID(id) || id[14] != '8' {
		t.Errorf("%s is not a version 8 UUID", id)
	}
	// Two pairs of names with the same concatenation have different ids.
	if events.DerivedID("a", "bc") == events.DerivedID("ab", "c") || events.SessionID("a", "bc") == events.SessionID("ab", "c") {
		t.Error("names of two tenants collide")
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	tests := []struct {
		s        string
		id, hash bool
	}{
		{"", false, false},
		{execution, true, false},
		{strings.ToUpper(execution), false, false},
		{execution[1:], false, false},
		{execution + "0", false, false},
		{strings.Replace(execution, "-", "0", 1), false, false},
		{strings.Repeat("-", 36), false, false},
		{"*", false, false},
		{strings.Repeat("0", 64), false, true},
		{heapIn, false, true},
		{heapIn[1:], false, false},
		{heapIn + "0", false, false},
		{heapIn[:63] + "g", false, false},
		{heapIn[:63] + "A", false, false},
		{heapIn[:62] + "é", false, false},
	}
	for _, tt := range tests {
		if events.ValidID(tt.s) != tt.id || events.ValidHash(tt.s) != tt.hash {
			t.Errorf("%q: id %t, hash %t", tt.s, events.ValidID(tt.s), events.ValidHash(tt.s))
		}
	}
}

// Each type has its subject, and its id or key.
func TestSubjects(t *testing.T) {
	t.Parallel()
	exec, out := events.ExecSubject("default", execution), events.OutSubject("default", execution)
	for _, d := range examples() {
		want, about := exec, execution
		switch events.TypeOf(d) {
		case events.TypeExecutionRequested:
			want = events.RunSubject("default", "default", execution)
		case events.TypeExecutionOutput, events.TypeExecutionOutputTruncated:
			want = out
		case events.TypeExecutionReplayed:
			want = events.ReplaySubject("default", execution)
		case events.TypeHeapMigrated:
			want, about = events.MigrationSubject("default", heapOut), heapOut
		case events.TypeHeapTagged, events.TypeHeapCollected:
			want, about = events.HeapSubject("default", heapOut), heapOut
		case events.TypeSessionShredded:
			want, about = events.ShredSubject("default", session), session
		case events.TypeSessionEntryRecorded, events.TypeSessionReset:
			want, about = events.SessionSubject("default", session), session
		case events.TypeSessionNamed:
			key := events.IntentKey(events.DefaultTenant, "plan a trip")
			want, about = events.IntentSubject("default", key), key
		case events.TypeSessionOpened, events.TypeSessionExpanded, events.TypeSessionTurnQueued, events.TypeSessionTurnSkipped, events.TypeSessionRebound:
			want, about = events.LogicalSubject("default", logical), logical
		case events.TypeSessionRefAssigned:
			want, about = events.RefSubject("default", heapOut), heapOut
		case events.TypeAgentSessionCreated, events.TypeAgentSessionAttached, events.TypeAgentSessionConfigured, events.TypeAgentPrompted,
			events.TypeAgentAnswered, events.TypeAgentPermissionDecided, events.TypeAgentSessionClosed, events.TypeAgentSessionDeleted:
			want, about = events.AgentSubject("default", logical), logical
		case events.TypeContextUpdated, events.TypeContextCleared, events.TypeContextExpired:
			want, about = events.ContextSubject("default", talk.Key), talk.Key
		case events.TypeContextNoted:
			want, about = events.NoteSubject("default", talk.Key), talk.Key
		case events.TypeLedgerCheckpointed:
			want, about = events.CheckpointSubject("default"), webhook
		case events.TypeLedgerVolumeSealed:
			want, about = events.VolumeSubject("default"), "LEDGER-0001"
		case events.TypeLedgerVolumeOpened:
			want, about = events.VolumeSubject("default"), "LEDGER-0002"
		case events.TypeLedgerVolumeRemoved:
			want, about = events.RemovalSubject("default"), "LEDGER-0001"
		case events.TypeLedgerSignersChanged:
			want, about = events.SignersSubject("default"), webhook
		case events.TypeLedgerProjectionsCopied:
			want, about = events.CopySubject("default"), "LEDGER-0001"
		case events.TypeBlobsLost:
			want, about = events.LossSubject("default"), "LEDGER-0002"
		case events.TypeModuleAdmitted, events.TypeModuleRemoved:
			want, about = events.ModuleSubject("default"), "lock"
		}
		if events.TypeOf(d).Webhook() {
			want, about = events.WebhookSubject("default", webhook), webhook
		}
		e := events.New("default", began, d)
		if e.Subject() != want || e.About() != about {
			t.Errorf("%s is stored on %s about %s, want %s about %s", e.Type, e.Subject(), e.About(), want, about)
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for s, final := range map[string]bool{"running": false, "completed": true, "failed": true, "timed_out": true, "cancelled": true} {
		if got, ok := events.ParseStatus(s); !ok || string(got) != s || got.Terminal() != final {
			t.Errorf("%s: %q, %t", s, got, ok)
		}
	}
	for _, s := range []string{"", "Running", "queued", "timed-out"} {
		if got, ok := events.ParseStatus(s); ok || got != "" {
			t.Errorf("%q is parsed as %q", s, got)
		}
	}
}

func TestFormatTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", -5*3600)
	for want, at := range map[string]time.Time{
		"2026-11-21T09:30:00.125Z": began,
		"2026-01-02T08:04:05.000Z": time.Date(2026, 1, 2, 3, 4, 5, 999_999, zone),
		"1970-01-01T00:00:00.000Z": time.Unix(0, 0),
	} {
		if got := events.FormatTime(at); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
		if got, err := json.Marshal(events.Instant{Time: at}); err != nil || string(got) != `"`+want+`"` {
			t.Errorf("%v in a body is %s, %v, want %s", at, got, err, want)
		}
	}
}

func TestMintedAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 125_000_000, time.UTC)
	if got, ok := events.MintedAt(events.NewID(at)); !ok || !got.Equal(at) {
		t.Errorf("got %v, %t; want %v", got, ok, at)
	}
	for _, id := range []string{"", events.DerivedID("t", "k"), "019ab3c4", strings.Repeat("g", 36), heapIn} {
		if got, ok := events.MintedAt(id); ok {
			t.Errorf("%q was minted at %v", id, got)
		}
	}
}
