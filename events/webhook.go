package events

// WebhookRegistered records that events are to be posted to a URL. What the
// deliveries are signed with is kept outside the ledger and in no event.
//
// Appended when somebody registers a webhook, before anything is sent to it.
type WebhookRegistered struct {
	// WebhookID is the webhook's key, a UUID.
	WebhookID string `json:"webhook_id"`
	// Content is where the deliveries go.
	Content Content[WebhookContent] `json:"content"`
	// Types are the types of the events wanted; without any, all are but those
	// about webhooks and the ledger itself.
	Types []Type `json:"types,omitempty"`
	// Session limits the events to those of runs logged under this name.
	Session string `json:"session,omitempty"`
	// ExecutionID limits the events to those of one execution.
	ExecutionID string `json:"execution_id,omitempty"`
	// After is the position after which delivery begins.
	After uint64 `json:"after"`
	// Actor registered it.
	Actor Actor `json:"actor"`
}

// WebhookContent is the erasable part of WebhookRegistered.
type WebhookContent struct {
	// URL is where deliveries are posted.
	URL string `json:"url"`
}

// WebhookDeleted records that nothing more is posted for a webhook.
//
// Appended when somebody deletes a webhook. Its signing secret is destroyed
// with it.
type WebhookDeleted struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// Actor deleted it.
	Actor Actor `json:"actor"`
}

// WebhookDeadLettered records that the attempts to deliver an event are used
// up. Delivery goes on with the next event.
//
// Appended by the server that delivers, after the last attempt failed.
type WebhookDeadLettered struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event that was not delivered.
	EventSeq uint64 `json:"event_seq"`
	// EventID and EventKind are its id and type.
	EventID   string `json:"event_id"`
	EventKind Type   `json:"event_type"`
	// Attempts is how often delivery was tried this time.
	Attempts int `json:"attempts"`
	// FirstAttemptAt is when that began.
	FirstAttemptAt Instant `json:"first_attempt_at"`
	// Reason tells what became of the last attempt, for people.
	Reason string `json:"reason"`
	// Status is the HTTP status of the last answer; absent when there was none.
	Status int `json:"status,omitempty"`
}

// WebhookDisabled records that a receiver wants nothing more: it answered 410
// Gone. Nothing is posted until somebody asks for a retry; the position is kept.
//
// Appended by the server that delivers, when it meets that answer.
type WebhookDisabled struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event that was answered so.
	EventSeq uint64 `json:"event_seq"`
	// Reason tells why, for people.
	Reason string `json:"reason"`
}

// WebhookRetryRequested records that somebody wants dead letters delivered
// after all, and a disabled webhook to go on.
//
// Appended when that is asked for, before anything is sent.
type WebhookRetryRequested struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeqs are the positions of the events to deliver once more.
	EventSeqs []uint64 `json:"event_seqs"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// WebhookRedelivered records that a dead letter was delivered after all. It is
// no dead letter any more.
//
// Appended by the server that delivers, when the receiver has accepted it.
type WebhookRedelivered struct {
	// WebhookID is the webhook's key.
	WebhookID string `json:"webhook_id"`
	// EventSeq is the position of the event delivered.
	EventSeq uint64 `json:"event_seq"`
}
