package events

import (
	"crypto/sha256"
	"encoding/hex"
)

// DefaultTenant is the tenant of a server without authentication.
const DefaultTenant = "default"

// LedgerTenant owns the events about the ledger itself. No tenant can have this name.
// Every tenant can read these events.
const LedgerTenant = "@ledger"

// DefaultPool is the pool of runners for requests without a pool.
const DefaultPool = "default"

// RunSubject returns the subject of the requested event of an execution. Runners filter
// by it.
func RunSubject(tenant, pool, execution string) string {
	return tenant + ".run." + pool + "." + execution
}

// PoolSubjects returns the pattern of the requested events of a pool, over all tenants.
func PoolSubjects(pool string) string { return "*.run." + pool + ".*" }

// RunSubjects returns the pattern of the requested events of a tenant in a pool.
func RunSubjects(tenant, pool string) string {
	return tenant + ".run." + pool + ".*"
}

// ExecSubject returns the subject of all other control events of an execution. Its last
// event decides what can follow.
func ExecSubject(tenant, execution string) string {
	return tenant + ".exec." + execution
}

// OutSubject returns the subject of the output of an execution. All executions of a
// tenant share 256 subjects, because each subject costs memory.
func OutSubject(tenant, execution string) string {
	sum := sha256.Sum256([]byte(execution))
	return tenant + ".out." + hex.EncodeToString(sum[:1])
}

// ReplaySubject returns the subject of the replays of an execution. All executions of a
// tenant share 256 subjects, because each subject costs memory.
func ReplaySubject(tenant, execution string) string {
	sum := sha256.Sum256([]byte(execution))
	return tenant + ".replay." + hex.EncodeToString(sum[:1])
}

// SessionSubject returns the subject of the entries of a named session.
func SessionSubject(tenant, session string) string {
	return tenant + ".session." + session
}

// ShredSubject returns the subject of the shredding of a session.
func ShredSubject(tenant, session string) string {
	return tenant + ".shred." + session
}

// ShredSubjects returns the pattern of all shreddings, over all tenants.
func ShredSubjects() string { return "*.shred.*" }

// LogicalSubject returns the subject of the state of a logical or ACP session. Its last
// event holds the start of the next turn.
func LogicalSubject(tenant, session string) string {
	return tenant + ".logical." + session
}

// IntentSubject returns the subject of the session that an intent names.
func IntentSubject(tenant, key string) string {
	return tenant + ".intent." + key
}

// RefSubject returns the subject of the short names of sessions within their scope, for
// example a connection.
func RefSubject(tenant, holder string) string {
	return tenant + ".ref." + holder
}

// AgentSubject returns the subject of the events of an ACP session that do not change
// its state.
func AgentSubject(tenant, session string) string {
	return tenant + ".acp." + session
}

// ContextSubject returns the subject of the edits of a conversation context. Its last
// event is the base of the next edit.
func ContextSubject(tenant, key string) string {
	return tenant + ".context." + key
}

// NoteSubject returns the subject of the noted calls in a conversation context. All
// contexts of a tenant share 256 subjects, because each subject costs memory.
func NoteSubject(tenant, key string) string {
	bucket := "00"
	if len(key) >= 2 {
		bucket = key[:2]
	}
	return tenant + ".note." + bucket
}

// HeapSubject returns the subject of the tag edits and collections of a heap. Its last
// event is the base of the next edit.
func HeapSubject(tenant, heap string) string {
	return tenant + ".heap." + heap
}

// HeapBucketSubject returns the subject on which earlier versions recorded the tag edits
// and collections of a heap. All heaps of a tenant shared 256 of them.
func HeapBucketSubject(tenant, heap string) string {
	bucket := "00"
	if len(heap) >= 2 {
		bucket = heap[:2]
	}
	return tenant + ".heap." + bucket
}

// MigrationSubject returns the subject of the migrations of a heap.
func MigrationSubject(tenant, heap string) string {
	return tenant + ".migration." + heap
}

// MigrationBucketSubject returns the subject on which earlier versions recorded the migrations of
// a heap. All heaps of a tenant shared 256 of them.
func MigrationBucketSubject(tenant, heap string) string {
	bucket := "00"
	if len(heap) >= 2 {
		bucket = heap[:2]
	}
	return tenant + ".migration." + bucket
}

// WebhookSubject returns the subject of the events of a webhook. Its last event decides
// what can follow.
func WebhookSubject(tenant, webhook string) string {
	return tenant + ".webhook." + webhook
}

// WebhookSubjects returns the pattern of all events about webhooks, over all tenants.
func WebhookSubjects() string { return "*.webhook.*" }

// ModuleSubject returns the subject of the admitted packages of a tenant. Its last event is
// the base of the next change.
func ModuleSubject(tenant string) string { return tenant + ".module." + lockID }

// CheckpointSubject returns the subject of the checkpoints of the ledger; tenant is
// LedgerTenant.
func CheckpointSubject(tenant string) string {
	return tenant + ".checkpoint"
}

// VolumeSubject returns the subject of the opening and the sealing of a volume, in that
// volume; tenant is LedgerTenant.
func VolumeSubject(tenant string) string {
	return tenant + ".volume"
}

// RemovalSubject returns the subject of the removals of volumes; tenant is LedgerTenant.
func RemovalSubject(tenant string) string { return tenant + ".removal" }

// LossSubject returns the subject of the lost heaps and texts of a tenant.
func LossSubject(tenant string) string { return tenant + ".loss" }

// SignersSubject returns the subject of the statements about the signers of the ledger; tenant
// is LedgerTenant.
func SignersSubject(tenant string) string { return tenant + ".signers" }

// CopySubject returns the subject of the projection copies of all servers; tenant is LedgerTenant.
func CopySubject(tenant string) string { return tenant + ".copies" }

// CancelSubject returns the NATS subject on which the runner of an execution listens for
// cancel requests. It is not part of the ledger.
func CancelSubject(tenant, execution string) string {
	return "ctl." + tenant + ".exec." + execution + ".cancel"
}
