package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// DefaultTenant owns everything until authentication names others.
const DefaultTenant = "default"

// DefaultPool is the group of runners that runs go to unless told otherwise.
const DefaultPool = "default"

// Volume is one stretch of the ledger: a stream that begins past its
// predecessor's last sequence. It counts from 1.
type Volume int

// Stream is the name of the volume's JetStream stream, for example
// "LEDGER-0001".
func (v Volume) Stream() string { return fmt.Sprintf("LEDGER-%04d", int(v)) }

// Subjects matches every subject of the volume.
func (v Volume) Subjects() string { return v.prefix() + ".>" }

// RunSubject is where an execution's requested event is stored. Runners filter
// on it.
func (v Volume) RunSubject(tenant, pool, execution string) string {
	return v.prefix() + "." + tenant + ".run." + pool + "." + execution
}

// TenantSubjects matches every subject of a tenant in the volume of a stream. It is
// empty for the name of anything else.
func TenantSubjects(stream, tenant string) string {
	v, ok := VolumeOf(stream)
	if !ok {
		return ""
	}
	return v.prefix() + "." + tenant + ".>"
}

// PoolSubjects matches the requested events of one pool, over all tenants.
func (v Volume) PoolSubjects(pool string) string { return v.prefix() + ".*.run." + pool + ".*" }

// RunSubjects matches the requested events of one tenant in one pool.
func (v Volume) RunSubjects(tenant, pool string) string {
	return v.prefix() + "." + tenant + ".run." + pool + ".*"
}

// ExecSubject is where the other control events of an execution are stored.
// Its last message decides what may follow.
func (v Volume) ExecSubject(tenant, execution string) string {
	return v.prefix() + "." + tenant + ".exec." + execution
}

// OutSubject is where an execution's output is stored: one of 256 subjects
// shared by all executions, because every live subject costs memory.
func (v Volume) OutSubject(tenant, execution string) string {
	sum := sha256.Sum256([]byte(execution))
	return v.prefix() + "." + tenant + ".out." + hex.EncodeToString(sum[:1])
}

// SessionSubject is where a session's entries are stored.
func (v Volume) SessionSubject(tenant, session string) string {
	return v.prefix() + "." + tenant + ".session." + session
}

// HeapSubject is where edits of a heap's tags are stored: one of 256 subjects.
func (v Volume) HeapSubject(tenant, heap string) string {
	bucket := "00"
	if len(heap) >= 2 {
		bucket = heap[:2]
	}
	return v.prefix() + "." + tenant + ".heap." + bucket
}

// WebhookSubject is where what happens to a webhook is stored. Its last message
// decides what may follow.
func (v Volume) WebhookSubject(tenant, webhook string) string {
	return v.prefix() + "." + tenant + ".webhook." + webhook
}

// WebhookSubjects matches everything about webhooks, over all tenants.
func (v Volume) WebhookSubjects() string { return v.prefix() + ".*.webhook.*" }

// CheckpointSubject is where the ledger's checkpoints are stored; tenant is
// LedgerTenant.
func (v Volume) CheckpointSubject(tenant string) string {
	return v.prefix() + "." + tenant + ".checkpoint"
}

// VolumeSubject is where a volume records its own opening and sealing; tenant is
// LedgerTenant.
func (v Volume) VolumeSubject(tenant string) string {
	return v.prefix() + "." + tenant + ".volume"
}

// VolumeOf reads a volume from the name of its stream, with false for the name
// of anything else.
func VolumeOf(stream string) (Volume, bool) {
	digits, ok := strings.CutPrefix(stream, "LEDGER-")
	n, err := strconv.Atoi(digits)
	if v := Volume(n); ok && err == nil && n > 0 && v.Stream() == stream {
		return v, true
	}
	return 0, false
}

func (v Volume) prefix() string { return fmt.Sprintf("ledger.%04d", int(v)) }

// CancelSubject is where the runner of an execution listens for cancel
// requests. It is not part of the ledger.
func CancelSubject(tenant, execution string) string {
	return "ctl." + tenant + ".exec." + execution + ".cancel"
}

// SessionID is the key of a named session: 256 bits, derived from tenant and
// name, so that a name never reaches a subject and two tenants never share
// one.
func SessionID(tenant, name string) string {
	sum := sha256.Sum256([]byte("daybook session\x00" + tenant + "\x00" + name))
	return hex.EncodeToString(sum[:])
}
