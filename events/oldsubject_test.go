package events_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"daybook/events"
)

// TestSubjectsAsBefore compares the subjects with those of the functions that made
// them with their volume, for each type of event. Ledgers hold events on these.
func TestSubjectsAsBefore(t *testing.T) {
	t.Parallel()
	list := append(examples(), later()...)
	list = append(list, &events.SessionReset{SessionID: logical, Kind: events.SessionLogical}, &events.SessionReset{SessionID: logical, Kind: events.SessionACP}, &events.HeapTagged{})
	for _, d := range list {
		for _, tenant := range []string{events.DefaultTenant, events.LedgerTenant, "acme"} {
			for _, v := range []int{1, 12, 12345} {
				got, want := fmt.Sprintf("ledger.%04d.", v)+events.New(tenant, began, d).Subject(), oldVolume(v).subject(tenant, d)
				if got != want {
					t.Errorf("%s is stored on %s, was on %s", events.TypeOf(d), got, want)
				}
			}
		}
	}
}

// oldVolume makes subjects as version 1 of the ledger did. These functions never change.
type oldVolume int

func (v oldVolume) prefix() string { return fmt.Sprintf("ledger.%04d", int(v)) }

func (v oldVolume) AgentSubject(tenant, session string) string {
	return v.prefix() + "." + tenant + ".acp." + session
}

func (v oldVolume) ContextSubject(tenant, key string) string {
	return v.prefix() + "." + tenant + ".context." + key
}

func (v oldVolume) NoteSubject(tenant, key string) string {
	bucket := "00"
	if len(key) >= 2 {
		bucket = key[:2]
	}
	return v.prefix() + "." + tenant + ".note." + bucket
}

func (v oldVolume) LogicalSubject(tenant, session string) string {
	return v.prefix() + "." + tenant + ".logical." + session
}

func (v oldVolume) IntentSubject(tenant, key string) string {
	return v.prefix() + "." + tenant + ".intent." + key
}

func (v oldVolume) RefSubject(tenant, holder string) string {
	return v.prefix() + "." + tenant + ".ref." + holder
}

func (v oldVolume) RemovalSubject(tenant string) string {
	return v.prefix() + "." + tenant + ".removal"
}

func (v oldVolume) ShredSubject(tenant, session string) string {
	return v.prefix() + "." + tenant + ".shred." + session
}

func (v oldVolume) RunSubject(tenant, pool, execution string) string {
	return v.prefix() + "." + tenant + ".run." + pool + "." + execution
}

func (v oldVolume) ExecSubject(tenant, execution string) string {
	return v.prefix() + "." + tenant + ".exec." + execution
}

func (v oldVolume) OutSubject(tenant, execution string) string {
	sum := sha256.Sum256([]byte(execution))
	return v.prefix() + "." + tenant + ".out." + hex.EncodeToString(sum[:1])
}

func (v oldVolume) SessionSubject(tenant, session string) string {
	return v.prefix() + "." + tenant + ".session." + session
}

func (v oldVolume) HeapSubject(tenant, heap string) string {
	bucket := "00"
	if len(heap) >= 2 {
		bucket = heap[:2]
	}
	return v.prefix() + "." + tenant + ".heap." + bucket
}

func (v oldVolume) WebhookSubject(tenant, webhook string) string {
	return v.prefix() + "." + tenant + ".webhook." + webhook
}

func (v oldVolume) CheckpointSubject(tenant string) string {
	return v.prefix() + "." + tenant + ".checkpoint"
}

func (v oldVolume) VolumeSubject(tenant string) string {
	return v.prefix() + "." + tenant + ".volume"
}

func (v oldVolume) subject(tenant string, d events.Data) string {
	switch d := d.(type) {
	case *events.AgentSessionCreated:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentSessionAttached:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentSessionConfigured:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentPrompted:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentAnswered:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentPermissionDecided:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentSessionClosed:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.AgentSessionDeleted:
		return v.AgentSubject(tenant, d.SessionID)
	case *events.LedgerCheckpointed:
		return v.CheckpointSubject(tenant)
	case *events.HeapCollected:
		return v.HeapSubject(tenant, d.Heap)
	case *events.HeapTagged:
		return v.HeapSubject(tenant, d.Heap)
	case *events.ContextUpdated:
		return v.ContextSubject(tenant, d.Key)
	case *events.ContextCleared:
		return v.ContextSubject(tenant, d.Key)
	case *events.ContextExpired:
		return v.ContextSubject(tenant, d.Key)
	case *events.ContextNoted:
		return v.NoteSubject(tenant, d.Key)
	case *events.ExecutionRequested:
		return v.RunSubject(tenant, d.Pool, d.ExecutionID)
	case *events.ExecutionStarted:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionCancelRequested:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionHandedBack:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionCompleted:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionFailed:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionTimedOut:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.ExecutionCancelled:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.HostCalled:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.HostReturned:
		return v.ExecSubject(tenant, d.ExecutionID)
	case *events.SessionEntryRecorded:
		return v.SessionSubject(tenant, d.SessionID)
	case *events.SessionNamed:
		return v.IntentSubject(tenant, d.IntentKey)
	case *events.SessionOpened:
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionExpanded:
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionTurnQueued:
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionTurnSkipped:
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionRebound:
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionRefAssigned:
		return v.RefSubject(tenant, d.Holder)
	case *events.ExecutionOutput:
		return v.OutSubject(tenant, d.ExecutionID)
	case *events.ExecutionOutputTruncated:
		return v.OutSubject(tenant, d.ExecutionID)
	case *events.LedgerVolumeRemoved:
		return v.RemovalSubject(tenant)
	case *events.SessionReset:
		if d.Kind == events.SessionLog {
			return v.SessionSubject(tenant, d.SessionID)
		}
		return v.LogicalSubject(tenant, d.SessionID)
	case *events.SessionShredded:
		return v.ShredSubject(tenant, d.SessionID)
	case *events.LedgerVolumeSealed:
		return v.VolumeSubject(tenant)
	case *events.LedgerVolumeOpened:
		return v.VolumeSubject(tenant)
	case *events.WebhookRegistered:
		return v.WebhookSubject(tenant, d.WebhookID)
	case *events.WebhookDeleted:
		return v.WebhookSubject(tenant, d.WebhookID)
	case *events.WebhookDeadLettered:
		return v.WebhookSubject(tenant, d.WebhookID)
	case *events.WebhookDisabled:
		return v.WebhookSubject(tenant, d.WebhookID)
	case *events.WebhookRetryRequested:
		return v.WebhookSubject(tenant, d.WebhookID)
	case *events.WebhookRedelivered:
		return v.WebhookSubject(tenant, d.WebhookID)
	default:
		return ""
	}
}
