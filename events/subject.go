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
