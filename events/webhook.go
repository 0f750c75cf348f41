package events

// WebhookRegistered records that a webhook was registered: events are posted to a URL.
// The signing secret is stored outside the ledger and in no event.
//
// Appended when a client registers a webhook, before the first delivery.
type WebhookRegistered struct {
	// WebhookID is the webhook's key, a UUID.
	WebhookID string `json:"webhook_id"`
	// Content holds the destination of the deliveries.
	Content Content[WebhookContent] `json:"content"`
	// Types are the selected event types. Empty selects all types except those about
	// webhooks and the ledger itself.
	Types []Type `json:"types,omitempty"`
	// Session limits the events to those of executions in the session of this name.
	Session string `json:"session,omitempty"`
	// ExecutionID limits the events to those of one execution.
	ExecutionID string `json:"execution_id,omitempty"`
	// After is the position after which delivery starts.
	After uint64 `json:"after"`
	// Actor registered it.
	Actor Actor `json:"actor"`
}

// WebhookContent is the address of a webhook. It is not encrypted, and no shred reaches it.
type WebhookContent struct {
	// URL is the destination of the deliveries.
	URL string `json:"url"`
}

// WebhookDeleted records that a webhook was deleted.
//
// Appended when a client deletes a webhook. Its signing secret is destroyed too.
type WebhookDeleted struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// Actor deleted it.
	Actor Actor `json:"actor"`
}

// WebhookDeadLettered records that all attempts to deliver an event failed. Delivery
// continues with the next event.
//
// Appended by the delivering server after the last attempt failed.
type WebhookDeadLettered struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event that was not delivered.
	EventSeq uint64 `json:"event_seq"`
	// EventID and EventKind are its id and type.
	EventID   string `json:"event_id"`
	EventKind Type   `json:"event_type"`
	// Attempts is the number of attempts of this delivery.
	Attempts int `json:"attempts"`
	// FirstAttemptAt is the time of the first of them.
	FirstAttemptAt Instant `json:"first_attempt_at"`
	// Reason is the human-readable outcome of the last attempt.
	Reason string `json:"reason"`
	// Status is the HTTP status of the last answer; absent when there was none.
	Status int `json:"status,omitempty"`
}

// WebhookDisabled records that a webhook was disabled because its receiver answered 410
// Gone. Nothing is posted until a client requests a retry; the position is kept.
//
// Appended by the delivering server when it gets that answer.
type WebhookDisabled struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event that got the answer.
	EventSeq uint64 `json:"event_seq"`
	// Reason is the human-readable cause.
	Reason string `json:"reason"`
}

// WebhookRetryRequested records that a client requested the delivery of dead letters. A
// disabled webhook is enabled again.
//
// Appended when a client requests it, before anything is posted.
type WebhookRetryRequested struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeqs are the positions of the events to deliver again.
	EventSeqs []uint64 `json:"event_seqs"`
	// Actor requested it.
	Actor Actor `json:"actor"`
}

// WebhookRedelivered records that a dead letter was delivered. It is no longer a dead
// letter.
//
// Appended by the delivering server after the receiver accepted it.
type WebhookRedelivered struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event delivered.
	EventSeq uint64 `json:"event_seq"`
}
