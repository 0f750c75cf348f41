package events

// Type is a type of event with its version, for example
// "daybook.execution.completed.v1". It is the CloudEvents "type" attribute.
type Type string

// The types that this version writes. They MUST NOT be renamed or removed: stored
// ledgers contain them.
const (
	TypeExecutionRequested       Type = "daybook.execution.requested.v1"
	TypeExecutionStarted         Type = "daybook.execution.started.v1"
	TypeExecutionOutput          Type = "daybook.execution.output.v1"
	TypeExecutionOutputTruncated Type = "daybook.execution.output_truncated.v1"
	TypeExecutionCancelRequested Type = "daybook.execution.cancel_requested.v1"
	TypeExecutionHandedBack      Type = "daybook.execution.handed_back.v1"
	TypeExecutionCompleted       Type = "daybook.execution.completed.v1"
	TypeExecutionFailed          Type = "daybook.execution.failed.v1"
	TypeExecutionTimedOut        Type = "daybook.execution.timed_out.v1"
	TypeExecutionCancelled       Type = "daybook.execution.cancelled.v1"
	TypeHeapTagged               Type = "daybook.heap.tagged.v1"
	TypeSessionEntryRecorded     Type = "daybook.session.entry_recorded.v1"
	TypeWebhookRegistered        Type = "daybook.webhook.registered.v1"
	TypeWebhookDeleted           Type = "daybook.webhook.deleted.v1"
	TypeWebhookDeadLettered      Type = "daybook.webhook.dead_lettered.v1"
	TypeWebhookDisabled          Type = "daybook.webhook.disabled.v1"
	TypeWebhookRetryRequested    Type = "daybook.webhook.retry_requested.v1"
	TypeWebhookRedelivered       Type = "daybook.webhook.redelivered.v1"
	TypeLedgerCheckpointed       Type = "daybook.ledger.checkpointed.v1"
	TypeSessionNamed             Type = "daybook.session.named.v1"
	TypeSessionOpened            Type = "daybook.session.opened.v1"
	TypeSessionExpanded          Type = "daybook.session.expanded.v1"
	TypeSessionTurnQueued        Type = "daybook.session.turn_queued.v1"
	TypeSessionTurnSkipped       Type = "daybook.session.turn_skipped.v1"
	TypeSessionRebound           Type = "daybook.session.rebound.v1"
	TypeSessionRefAssigned       Type = "daybook.session.ref_assigned.v1"
	TypeLedgerVolumeSealed       Type = "daybook.ledger.volume_sealed.v1"
	TypeLedgerVolumeOpened       Type = "daybook.ledger.volume_opened.v1"
	TypeHeapCollected            Type = "daybook.heap.collected.v1"
	TypeSessionShredded          Type = "daybook.session.shredded.v1"
	TypeLedgerVolumeRemoved      Type = "daybook.ledger.volume_removed.v1"
	TypeAgentSessionCreated      Type = "daybook.acp.session_created.v1"
	TypeAgentSessionAttached     Type = "daybook.acp.session_attached.v1"
	TypeAgentSessionConfigured   Type = "daybook.acp.session_configured.v1"
	TypeAgentPrompted            Type = "daybook.acp.prompted.v1"
	TypeAgentAnswered            Type = "daybook.acp.answered.v1"
	TypeAgentPermissionDecided   Type = "daybook.acp.permission_decided.v1"
	TypeAgentSessionClosed       Type = "daybook.acp.session_closed.v1"
	TypeAgentSessionDeleted      Type = "daybook.acp.session_deleted.v1"
	TypeContextUpdated           Type = "daybook.context.updated.v1"
	TypeContextCleared           Type = "daybook.context.cleared.v1"
	TypeContextExpired           Type = "daybook.context.expired.v1"
	TypeContextNoted             Type = "daybook.context.noted.v1"
	TypeHostCalled               Type = "daybook.host.called.v1"
	TypeHostReturned             Type = "daybook.host.returned.v1"
	TypeSessionReset             Type = "daybook.session.reset.v1"
	TypeBlobsLost                Type = "daybook.blobs.lost.v1"
	TypeLedgerSignersChanged     Type = "daybook.ledger.signers_changed.v1"
	TypeExecutionReplayed        Type = "daybook.execution.replayed.v1"
	TypeExecutionArtifactCreated Type = "daybook.execution.artifact_created.v1"
	TypeHeapMigrated             Type = "daybook.heap.migrated.v1"
	TypeModuleAdmitted           Type = "daybook.module.admitted.v1"
	TypeModuleRemoved            Type = "daybook.module.removed.v1"
	TypeExecutionModulesLoaded   Type = "daybook.execution.modules_loaded.v1"
	TypeLedgerProjectionsCopied  Type = "daybook.ledger.projections_copied.v1"
)

// Terminal reports whether an event of this type ends its execution.
func (t Type) Terminal() bool {
	_, ok := t.Status()
	return ok
}

// Status returns the final status of the execution for a terminal type, and false for
// any other type.
func (t Type) Status() (Status, bool) {
	switch t {
	case TypeExecutionCompleted:
		return StatusCompleted, true
	case TypeExecutionFailed:
		return StatusFailed, true
	case TypeExecutionTimedOut:
		return StatusTimedOut, true
	case TypeExecutionCancelled:
		return StatusCancelled, true
	default:
		return "", false
	}
}

// Status is the status of an execution, as interfaces show it.
type Status string

// An execution is running from acceptance until it has exactly one of the other four.
const (
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusTimedOut  Status = "timed_out"
	StatusCancelled Status = "cancelled"
)

// ParseStatus parses a status. It returns false for any other text.
func ParseStatus(s string) (Status, bool) {
	switch st := Status(s); st {
	case StatusRunning, StatusCompleted, StatusFailed, StatusTimedOut, StatusCancelled:
		return st, true
	default:
		return "", false
	}
}

// Terminal reports whether the status is final.
func (s Status) Terminal() bool { return s != StatusRunning && s != "" }

// Level is the console method that wrote a line of output. A script can write any text
// but cannot forge a level.
type Level string

// The recorded levels. An empty level in a stored line means LevelLog.
const (
	LevelLog   Level = "log"
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
	LevelTrace Level = "trace"
)
