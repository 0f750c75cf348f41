package webhook

import (
	"maps"
	"slices"
	"time"

	"daybook/events"
)

// State is the state of a webhook.
type State string

// The states. A webhook is StateElsewhere if its secret is not available: another server
// of the same ledger delivers for it, or the secret was lost.
const (
	StateActive    State = "active"
	StateFailing   State = "failing"
	StateDisabled  State = "disabled"
	StateElsewhere State = "elsewhere"
)

// Hook is a registered webhook as clients see it.
type Hook struct {
	ID          string        `json:"id" doc:"Id of the webhook."`
	URL         string        `json:"url" doc:"Where deliveries are posted."`
	Types       []events.Type `json:"types" doc:"Types of the events delivered; empty for all but those about webhooks and the ledger itself."`
	Session     string        `json:"session,omitempty" doc:"Only events of runs logged under this session."`
	ExecutionID string        `json:"execution_id,omitempty" doc:"Only events of this execution."`
	CreatedAt   string        `json:"created_at" doc:"When it was registered."`
	CreatedBy   string        `json:"created_by" doc:"Who registered it."`
	State       State         `json:"state" enum:"active,failing,disabled,elsewhere" doc:"active; failing while an event is tried again; disabled when the receiver answered 410 Gone; elsewhere when its secret is not with this server."`
	Position    string        `json:"position" doc:"Position in the ledger up to which everything was delivered or dead-lettered, a decimal number."`
	Attempts    int           `json:"attempts" doc:"Failed attempts for the event it is at."`
	LastError   string        `json:"last_error,omitempty" doc:"What became of the last attempt, if it failed."`
	NextAttempt string        `json:"next_attempt,omitempty" doc:"When the next attempt is due, while failing."`
	DeadLetters int           `json:"dead_letters" doc:"Events that could not be delivered."`
}

// DeadLetter is an event that was given up after all attempts.
type DeadLetter struct {
	Sequence       string      `json:"sequence" doc:"Position of the event, a decimal number."`
	EventID        string      `json:"event_id" doc:"Id of the event."`
	Type           events.Type `json:"type" doc:"Type of the event."`
	Attempts       int         `json:"attempts" doc:"How often delivery was tried the last time."`
	FirstAttemptAt string      `json:"first_attempt_at" doc:"When that began."`
	DeadLetteredAt string      `json:"dead_lettered_at" doc:"When that was given up."`
	Reason         string      `json:"reason" doc:"What became of the last attempt."`
	Status         int         `json:"status,omitempty" doc:"HTTP status of the last answer, if there was one."`
	Retrying       bool        `json:"retrying" doc:"A retry was asked for and is still to come."`
}

// hook is the state of a webhook. Its first part is derived from the events about the
// webhook, and only apply changes this part, in ledger order.
type hook struct {
	id, tenant string
	url        string
	selection  events.Selection
	after      uint64
	created    time.Time
	creator    string
	// seq is the position of the newest applied event.
	seq            uint64
	deleted        bool
	disabledReason string // the reason, or empty
	letters        map[uint64]*letter

	// The fields below are not recorded. They hold the state of deliveries by this
	// server.
	secret         Secret
	hasSecret      bool // whether the secret is available here
	position       uint64
	failedAttempts int // for the event that is being delivered
	lastError      string
	nextAttempt    time.Time
	// isResting is true while the deliverer waits at the end of the ledger. position then
	// advances with the ledger, up to wakeAt.
	isResting bool
	wakeAt    uint64
	// changed wakes the deliverer, and stop ends it. ended is closed when the deliverer has
	// ended, or if none was started.
	changed chan struct{}
	stop    func()
	ended   chan struct{}
}

type letter struct {
	event    *events.WebhookDeadLettered
	at       time.Time
	retrying bool
}

func newHook(e events.Event, d *events.WebhookRegistered) *hook {
	return &hook{
		id: d.WebhookID, tenant: e.Tenant, url: d.Content.Value().URL, after: d.After, position: d.After,
		selection: events.Selection{Tenant: e.Tenant, Types: d.Types, Session: d.Session, Execution: d.ExecutionID},
		created:   e.Time, creator: d.Actor.Principal, letters: map[uint64]*letter{}, changed: make(chan struct{}, 1),
		stop: func() {}, ended: newClosedChannel(),
	}
}

func newClosedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// apply applies an event about the webhook. It ignores an event that is applied already.
func (h *hook) apply(e events.Event) {
	if e.Seq <= h.seq || h.deleted {
		return
	}
	h.seq = e.Seq
	switch d := e.Data.(type) {
	case *events.WebhookDeleted:
		h.deleted = true
	case *events.WebhookDeadLettered:
		h.letters[d.EventSeq] = &letter{event: d, at: e.Time}
	case *events.WebhookDisabled:
		h.disabledReason = d.Reason
		for _, l := range h.letters {
			l.retrying = false
		}
	case *events.WebhookRetryRequested:
		h.disabledReason = ""
		for _, seq := range d.EventSeqs {
			if l := h.letters[seq]; l != nil {
				l.retrying = true
			}
		}
	case *events.WebhookRedelivered:
		delete(h.letters, d.EventSeq)
	}
	h.wake()
}

// wake signals changed to the deliverer.
func (h *hook) wake() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// concerns reports whether a batch may hold an event for the webhook.
func (h *hook) concerns(batch []events.Event) bool {
	return slices.ContainsFunc(batch, func(e events.Event) bool {
		switch {
		case e.Type.Webhook():
			return false
		case len(h.selection.Types) > 0:
			return slices.Contains(h.selection.Types, e.Type) && (e.Tenant == h.tenant || e.Tenant == events.LedgerTenant)
		default:
			return e.Tenant == h.tenant
		}
	})
}

// queuedRetries returns the positions of the dead letters with a requested retry, in order.
func (h *hook) queuedRetries() []uint64 {
	var list []uint64
	for seq, l := range h.letters {
		if l.retrying {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	return list
}

func (h *hook) view() Hook {
	v := Hook{
		ID: h.id, URL: h.url, Types: append([]events.Type{}, h.selection.Types...), Session: h.selection.Session, ExecutionID: h.selection.Execution,
		CreatedAt: events.FormatTime(h.created), CreatedBy: h.creator, State: StateActive,
		Position: decimal(h.position), Attempts: h.failedAttempts, LastError: h.lastError, DeadLetters: len(h.letters),
	}
	switch {
	case h.disabledReason != "":
		v.State, v.LastError = StateDisabled, h.disabledReason
	case !h.hasSecret:
		v.State = StateElsewhere
	case h.failedAttempts > 0:
		v.State = StateFailing
		if !h.nextAttempt.IsZero() {
			v.NextAttempt = events.FormatTime(h.nextAttempt)
		}
	}
	return v
}

func (h *hook) deadLetters() []DeadLetter {
	list := make([]DeadLetter, 0, len(h.letters))
	for _, seq := range slices.Sorted(maps.Keys(h.letters)) {
		l := h.letters[seq]
		list = append(list, DeadLetter{
			Sequence: decimal(seq), EventID: l.event.EventID, Type: l.event.EventKind, Attempts: l.event.Attempts,
			FirstAttemptAt: events.FormatTime(l.event.FirstAttemptAt.Time), DeadLetteredAt: events.FormatTime(l.at),
			Reason: l.event.Reason, Status: l.event.Status, Retrying: l.retrying,
		})
	}
	return list
}
