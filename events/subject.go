package events

import (
	"crypto/sha256"
	"encoding/hex"
)

// DefaultTenant owns everything until authentication names others.
const DefaultTenant = "default"

// LedgerTenant owns the events that are about the ledger itself. No tenant can
// have this name, and every tenant may read what it owns.
const LedgerTenant = "@ledger"

// DefaultPool is the group of runners that runs go to unless told otherwise.
const DefaultPool = "default"

// RunSubject is where an execution's requested event is stored. Runners filter
// on it.
func RunSubject(tenant, pool, execution string) string {
	return tenant + ".run." + pool + "." + execution
}

// PoolSubjects matches the requested events of one pool, over all tenants.
func PoolSubjects(pool string) string { return "*.run." + pool + ".*" }

// RunSubjects matches the requested events of one tenant in one pool.
func RunSubjects(tenant, pool string) string {
	return tenant + ".run." + pool + ".*"
}

// ExecSubject is where the other control events of an execution are stored.
// Its last message decides what may follow.
func ExecSubject(tenant, execution string) string {
	return tenant + ".exec." + execution
}

// OutSubject is where an execution's output is stored: one of 256 subjects
// shared by all executions, because every live subject costs memory.
func OutSubject(tenant, execution string) string {
	sum := sha256.Sum256([]byte(execution))
	return tenant + ".out." + hex.EncodeToString(sum[:1])
}

// SessionSubject is where a session's entries are stored.
func SessionSubject(tenant, session string) string {
	return tenant + ".session." + session
}

// ShredSubject is where it is stored that a session's content was erased.
func ShredSubject(tenant, session string) string {
	return tenant + ".shred." + session
}

// ShredSubjects matches everything about erased content, over all tenants.
func ShredSubjects() string { return "*.shred.*" }

// LogicalSubject is where the events of a session that keeps state are stored.
// Its last message tells where the next turn continues.
func LogicalSubject(tenant, session string) string {
	return tenant + ".logical." + session
}

// IntentSubject is where it is stored which session an intent stands for.
func IntentSubject(tenant, key string) string {
	return tenant + ".intent." + key
}

// RefSubject is where the short names of sessions are stored that hold for one
// connection.
func RefSubject(tenant, holder string) string {
	return tenant + ".ref." + holder
}

// AgentSubject is where the events of a session of the Agent Client Protocol are
// stored that do not concern its state.
func AgentSubject(tenant, session string) string {
	return tenant + ".acp." + session
}

// ContextSubject is where edits of a context are stored. Its last message tells
// what the next edit is made of.
func ContextSubject(tenant, key string) string {
	return tenant + ".context." + key
}

// NoteSubject is where calls in a context are noted: one of 256 subjects shared
// by all contexts, because every live subject costs memory.
func NoteSubject(tenant, key string) string {
	bucket := "00"
	if len(key) >= 2 {
		bucket = key[:2]
	}
	return tenant + ".note." + bucket
}

// HeapSubject is where edits of a heap's tags are stored: one of 256 subjects.
func HeapSubject(tenant, heap string) string {
	bucket := "00"
	if len(heap) >= 2 {
		bucket = heap[:2]
	}
	return tenant + ".heap." + bucket
}

// WebhookSubject is where what happens to a webhook is stored. Its last message
// decides what may follow.
func WebhookSubject(tenant, webhook string) string {
	return tenant + ".webhook." + webhook
}

// WebhookSubjects matches everything about webhooks, over all tenants.
func WebhookSubjects() string { return "*.webhook.*" }

// CheckpointSubject is where the ledger's checkpoints are stored; tenant is
// LedgerTenant.
func CheckpointSubject(tenant string) string {
	return tenant + ".checkpoint"
}

// VolumeSubject is where a volume records its own opening and sealing; tenant is
// LedgerTenant.
func VolumeSubject(tenant string) string {
	return tenant + ".volume"
}

// RemovalSubject is where the ledger records that volumes were removed; tenant is
// LedgerTenant.
func RemovalSubject(tenant string) string { return tenant + ".removal" }

// CancelSubject is where the runner of an execution listens for cancel
// requests. It is not part of the ledger.
func CancelSubject(tenant, execution string) string {
	return "ctl." + tenant + ".exec." + execution + ".cancel"
}
