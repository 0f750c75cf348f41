package events

import (
	"reflect"
	"sync"
)

// kinds has a row for each type of event, in the order of introduction: the type, a
// function from the payload to what the event is about, the subject, and what it
// concerns. The argument of the function is the payload of the type.
var kinds = []kind{
	rowOf(TypeExecutionRequested, func(d *ExecutionRequested) string { return d.ExecutionID }, (*ExecutionRequested).subject, concernsExecution),
	row(TypeExecutionStarted, func(d *ExecutionStarted) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionOutput, func(d *ExecutionOutput) string { return d.ExecutionID }, OutSubject, concernsExecution),
	row(TypeExecutionOutputTruncated, func(d *ExecutionOutputTruncated) string { return d.ExecutionID }, OutSubject, concernsExecution),
	row(TypeExecutionCancelRequested, func(d *ExecutionCancelRequested) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionHandedBack, func(d *ExecutionHandedBack) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionCompleted, func(d *ExecutionCompleted) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionFailed, func(d *ExecutionFailed) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionTimedOut, func(d *ExecutionTimedOut) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeExecutionCancelled, func(d *ExecutionCancelled) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeHeapTagged, func(d *HeapTagged) string { return d.Heap }, HeapSubject, concernsOther),
	row(TypeSessionEntryRecorded, func(d *SessionEntryRecorded) string { return d.SessionID }, SessionSubject, concernsOther),
	row(TypeWebhookRegistered, func(d *WebhookRegistered) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeWebhookDeleted, func(d *WebhookDeleted) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeWebhookDeadLettered, func(d *WebhookDeadLettered) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeWebhookDisabled, func(d *WebhookDisabled) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeWebhookRetryRequested, func(d *WebhookRetryRequested) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeWebhookRedelivered, func(d *WebhookRedelivered) string { return d.WebhookID }, WebhookSubject, concernsWebhook),
	row(TypeLedgerCheckpointed, func(d *LedgerCheckpointed) string { return d.LedgerID }, tenantOnly(CheckpointSubject), concernsOther),
	row(TypeHeapCollected, func(d *HeapCollected) string { return d.Heap }, HeapSubject, concernsOther),
	row(TypeSessionNamed, func(d *SessionNamed) string { return d.IntentKey }, IntentSubject, concernsOther),
	row(TypeSessionOpened, func(d *SessionOpened) string { return d.SessionID }, LogicalSubject, concernsSession),
	row(TypeSessionExpanded, func(d *SessionExpanded) string { return d.SessionID }, LogicalSubject, concernsSession),
	row(TypeSessionTurnQueued, func(d *SessionTurnQueued) string { return d.SessionID }, LogicalSubject, concernsSession),
	row(TypeSessionTurnSkipped, func(d *SessionTurnSkipped) string { return d.SessionID }, LogicalSubject, concernsSession),
	row(TypeSessionRebound, func(d *SessionRebound) string { return d.SessionID }, LogicalSubject, concernsSession),
	row(TypeSessionRefAssigned, func(d *SessionRefAssigned) string { return d.Holder }, RefSubject, concernsOther),
	row(TypeLedgerVolumeSealed, func(d *LedgerVolumeSealed) string { return d.Volume.Stream() }, tenantOnly(VolumeSubject), concernsOther),
	row(TypeLedgerVolumeOpened, func(d *LedgerVolumeOpened) string { return d.Volume.Stream() }, tenantOnly(VolumeSubject), concernsOther),
	row(TypeAgentSessionCreated, func(d *AgentSessionCreated) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentSessionAttached, func(d *AgentSessionAttached) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentSessionConfigured, func(d *AgentSessionConfigured) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentPrompted, func(d *AgentPrompted) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentAnswered, func(d *AgentAnswered) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentPermissionDecided, func(d *AgentPermissionDecided) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentSessionClosed, func(d *AgentSessionClosed) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeAgentSessionDeleted, func(d *AgentSessionDeleted) string { return d.SessionID }, AgentSubject, concernsSession),
	row(TypeContextUpdated, func(d *ContextUpdated) string { return d.Key }, ContextSubject, concernsOther),
	row(TypeContextCleared, func(d *ContextCleared) string { return d.Key }, ContextSubject, concernsOther),
	row(TypeContextExpired, func(d *ContextExpired) string { return d.Key }, ContextSubject, concernsOther),
	row(TypeContextNoted, func(d *ContextNoted) string { return d.Key }, NoteSubject, concernsOther),
	row(TypeHostCalled, func(d *HostCalled) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeHostReturned, func(d *HostReturned) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeSessionShredded, func(d *SessionShredded) string { return d.SessionID }, ShredSubject, concernsOther),
	row(TypeLedgerVolumeRemoved, func(d *LedgerVolumeRemoved) string { return d.Volume.Stream() }, tenantOnly(RemovalSubject), concernsOther),
	rowOf(TypeSessionReset, func(d *SessionReset) string { return d.SessionID }, (*SessionReset).subject, concernsSession),
	row(TypeBlobsLost, func(d *BlobsLost) string { return d.Volume.Stream() }, tenantOnly(LossSubject), concernsOther),
	row(TypeLedgerSignersChanged, func(d *LedgerSignersChanged) string { return d.LedgerID }, tenantOnly(SignersSubject), concernsOther),
	row(TypeExecutionReplayed, func(d *ExecutionReplayed) string { return d.ExecutionID }, ReplaySubject, concernsExecution),
	row(TypeExecutionArtifactCreated, func(d *ExecutionArtifactCreated) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeHeapMigrated, func(d *HeapMigrated) string { return d.Heap }, MigrationSubject, concernsOther),
	row(TypeModuleAdmitted, func(*ModuleAdmitted) string { return lockID }, tenantOnly(ModuleSubject), concernsOther),
	row(TypeModuleRemoved, func(*ModuleRemoved) string { return lockID }, tenantOnly(ModuleSubject), concernsOther),
	row(TypeExecutionModulesLoaded, func(d *ExecutionModulesLoaded) string { return d.ExecutionID }, ExecSubject, concernsExecution),
	row(TypeLedgerProjectionsCopied, func(d *LedgerProjectionsCopied) string { return d.Volume.Stream() }, tenantOnly(CopySubject), concernsOther),
}

// kind is a row of kinds.
type kind struct {
	typ Type
	// new returns an empty payload.
	new func() Data
	// reader returns the reader of bodies in canonical form, or nil.
	reader func() canonicalReader
	// about returns the id or key of what an event with the payload is about.
	about func(Data) string
	// subject returns the subject of an event, without its volume. about is the result
	// of about.
	subject  func(d Data, tenant, about string) string
	concerns concern
}

// concern is the kind of thing that events of a type are about.
type concern int

const (
	concernsOther concern = iota
	concernsExecution
	concernsSession // a logical or ACP session
	concernsWebhook
)

// payload is a pointer to a payload struct.
type payload[T any] interface {
	*T
	Data
}

// row returns the row of a type whose events have a subject that depends on the tenant and
// on what the event is about.
func row[T any, P payload[T]](t Type, about func(P) string, subject func(tenant, about string) string, c concern) kind {
	return kind{
		typ:      t,
		new:      func() Data { return P(new(T)) },
		reader:   sync.OnceValue(func() canonicalReader { return canonicalReaderOf(reflect.TypeFor[T]()) }),
		about:    func(d Data) string { return about(d.(P)) },
		subject:  func(_ Data, tenant, about string) string { return subject(tenant, about) },
		concerns: c,
	}
}

// rowOf returns the row of a type whose events have a subject that depends on the payload.
func rowOf[T any, P payload[T]](t Type, about func(P) string, subject func(d P, tenant string) string, c concern) kind {
	k := row(t, about, nil, c)
	k.subject = func(d Data, tenant, _ string) string { return subject(d.(P), tenant) }
	return k
}

// tenantOnly adapts a function for a subject that depends on the tenant alone, so that row
// accepts it.
func tenantOnly(subject func(tenant string) string) func(tenant, about string) string {
	return func(tenant, _ string) string { return subject(tenant) }
}

// unknown is the row of Unknown, which has no type of its own.
var unknown = rowOf("", func(u *Unknown) string { return u.Concerns }, (*Unknown).subject, concernsOther)

var kindsByType, kindsByPayload = indexKinds()

func indexKinds() (byType map[Type]*kind, byPayload map[reflect.Type]*kind) {
	byType, byPayload = map[Type]*kind{}, map[reflect.Type]*kind{reflect.TypeFor[*Unknown](): &unknown}
	for i := range kinds {
		k := &kinds[i]
		byType[k.typ], byPayload[reflect.TypeOf(k.new())] = k, k
	}
	return byType, byPayload
}

// kindOf returns the row of a payload.
func kindOf(d Data) *kind { return kindsByPayload[reflect.TypeOf(d)] }

// TypeOf returns the type under which a payload is recorded.
func TypeOf(d Data) Type {
	if u, ok := d.(*Unknown); ok {
		return u.Type
	}
	return kindOf(d).typ
}

// Types returns all known types in the order of introduction.
func Types() []Type {
	list := make([]Type, len(kinds))
	for i, k := range kinds {
		list[i] = k.typ
	}
	return list
}

func (t Type) concerns(c concern) bool {
	k := kindsByType[t]
	return k != nil && k.concerns == c
}

// OfExecution reports whether events of this type are about an execution.
func (t Type) OfExecution() bool { return t.concerns(concernsExecution) }

// OfSession reports whether events of this type are about a logical or ACP session. A
// SessionReset can also be about a named session.
func (t Type) OfSession() bool { return t.concerns(concernsSession) }

// Webhook reports whether events of this type are about webhooks. They are never
// delivered by webhook: two failing receivers could otherwise cause each other's
// failures endlessly.
func (t Type) Webhook() bool { return t.concerns(concernsWebhook) }

// The markers close Data: only the payloads of kinds and Unknown implement it.

func (*ExecutionRequested) fact()       {}
func (*ExecutionStarted) fact()         {}
func (*ExecutionOutput) fact()          {}
func (*ExecutionOutputTruncated) fact() {}
func (*ExecutionCancelRequested) fact() {}
func (*ExecutionHandedBack) fact()      {}
func (*ExecutionCompleted) fact()       {}
func (*ExecutionFailed) fact()          {}
func (*ExecutionTimedOut) fact()        {}
func (*ExecutionCancelled) fact()       {}
func (*HeapTagged) fact()               {}
func (*SessionEntryRecorded) fact()     {}
func (*WebhookRegistered) fact()        {}
func (*WebhookDeleted) fact()           {}
func (*WebhookDeadLettered) fact()      {}
func (*WebhookDisabled) fact()          {}
func (*WebhookRetryRequested) fact()    {}
func (*WebhookRedelivered) fact()       {}
func (*LedgerCheckpointed) fact()       {}
func (*HeapCollected) fact()            {}
func (*SessionNamed) fact()             {}
func (*SessionOpened) fact()            {}
func (*SessionExpanded) fact()          {}
func (*SessionTurnQueued) fact()        {}
func (*SessionTurnSkipped) fact()       {}
func (*SessionRebound) fact()           {}
func (*SessionRefAssigned) fact()       {}
func (*LedgerVolumeSealed) fact()       {}
func (*LedgerVolumeOpened) fact()       {}
func (*AgentSessionCreated) fact()      {}
func (*AgentSessionAttached) fact()     {}
func (*AgentSessionConfigured) fact()   {}
func (*AgentPrompted) fact()            {}
func (*AgentAnswered) fact()            {}
func (*AgentPermissionDecided) fact()   {}
func (*AgentSessionClosed) fact()       {}
func (*AgentSessionDeleted) fact()      {}
func (*ContextUpdated) fact()           {}
func (*ContextCleared) fact()           {}
func (*ContextExpired) fact()           {}
func (*ContextNoted) fact()             {}
func (*HostCalled) fact()               {}
func (*HostReturned) fact()             {}
func (*SessionShredded) fact()          {}
func (*LedgerVolumeRemoved) fact()      {}
func (*SessionReset) fact()             {}
func (*LedgerSignersChanged) fact()     {}
func (*ExecutionReplayed) fact()        {}
func (*HeapMigrated) fact()             {}
func (*BlobsLost) fact()                {}
func (*ExecutionArtifactCreated) fact() {}
func (*ModuleAdmitted) fact()           {}
func (*ModuleRemoved) fact()            {}
func (*ExecutionModulesLoaded) fact()   {}
func (*Unknown) fact()                  {}
func (*LedgerProjectionsCopied) fact()  {}
