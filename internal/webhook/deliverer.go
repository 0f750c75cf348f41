package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"daybook/events"
)

const (
	// pageSize is the number of events that a deliverer reads at once.
	pageSize = 256
	// parcelBytes is the total length of messages in bytes after which a deliverer
	// delivers the messages that it has read before it reads more events. These messages
	// stay in memory while a receiver hangs.
	parcelBytes = 64 << 10
	// maxUnwrittenPositions is the number of positions that a deliverer passes without an
	// event for its webhook before it writes its position to the file.
	maxUnwrittenPositions = 10_000
)

// lagPause is the pause before a deliverer reads again an event that was announced but
// could not be read.
const lagPause = 10 * time.Millisecond

// deliverer delivers for one webhook: one event at a time, in ledger order, each until
// the receiver accepts it or it becomes a dead letter. Deliverers share no state, so that a
// failing or slow receiver delays only its own webhook.
type deliverer struct {
	s            *Service
	h            *hook // its mutable fields are guarded by s.mu
	positionFile positionFile
	client       *http.Client
	selector     *events.Selector
	// position is the position up to which the deliverer has handled all events,
	// writtenPosition the one in positionFile.
	position, writtenPosition uint64
}

// parcel is an event in the form that the receiver gets.
type parcel struct {
	seq  uint64
	kind events.Type
	message
}

func (s *Service) selector(h *hook) *events.Selector {
	return &events.Selector{Selection: h.selection, SessionOf: func(ctx context.Context, seq uint64, execution string) ([]string, error) {
		return s.opts.SessionOf(ctx, h.tenant, seq, execution)
	}}
}

func (c *deliverer) run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	defer func() {
		c.updateResting() // updates c.position
		if err := errors.Join(c.positionFile.set(c.position, false), c.positionFile.close()); err != nil {
			c.s.opts.Logger.WarnContext(ctx, "the position of a webhook may be lost", "webhook", c.h.id, "error", err)
		}
	}()
	for ctx.Err() == nil {
		c.redeliver(ctx)
		err := c.deliverPage(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		// The ledger or the disk failed, and not the receiver. Every deliverer meets the
		// same error. Deliveries that were not recorded are repeated.
		c.s.opts.Logger.WarnContext(ctx, "deliveries of a webhook are paused", "webhook", c.h.id, "position", c.position, "error", err)
		c.pause(ctx, c.s.opts.BackoffFirst)
	}
}

// deliverPage delivers the next events after the position, or waits until there are more.
func (c *deliverer) deliverPage(ctx context.Context) error {
	if resting, written := c.updateResting(); resting {
		if written {
			return c.positionFile.set(c.position, false)
		}
		select {
		case <-c.h.changed:
		case <-ctx.Done():
		}
		return nil
	}
	list, end, err := c.collect(ctx)
	if err != nil {
		return err
	}
	if end == c.position { // the replica of the ledger that answered lags behind
		c.pause(ctx, lagPause)
		return nil
	}
	for _, p := range list {
		if done, err := c.deliver(ctx, p); !done || err != nil {
			return err
		}
		if err := c.positionFile.set(p.seq, true); err != nil {
			return fmt.Errorf("store the position: %w", err)
		}
		c.writtenPosition = p.seq
		c.setPosition(p.seq)
	}
	c.setPosition(end)
	if c.position >= c.writtenPosition+maxUnwrittenPositions {
		// If this write is lost, the same events are skipped again.
		c.writtenPosition = c.position
		return c.positionFile.set(c.position, false)
	}
	return nil
}

// updateResting reports whether there is nothing to deliver now, because the webhook is
// disabled or the deliverer is at the end of the ledger. At the end of the ledger, the
// position of the webhook then advances with the ledger, and changed is signaled when there
// may be an event to deliver. write reports whether the caller must write the position.
func (c *deliverer) updateResting() (resting, write bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.position = max(c.position, c.h.position)
	if c.h.isResting = c.h.disabledReason == "" && c.position >= c.s.applied; !c.h.isResting {
		return c.h.disabledReason != "", false
	}
	if write = c.position >= c.writtenPosition+maxUnwrittenPositions; write {
		c.writtenPosition = c.position
	}
	c.h.wakeAt = c.writtenPosition + maxUnwrittenPositions
	return true, write
}

// collect returns the next events for the receiver and the position up to which it has
// looked for them. The other events that it read are not kept in memory during delivery.
func (c *deliverer) collect(ctx context.Context) (list []parcel, end uint64, err error) {
	ctx, leave, err := c.s.opts.Reads.Enter(ctx, c.h.tenant)
	if err != nil {
		return nil, c.position, err
	}
	defer leave()
	batch, err := c.s.opts.Feed.Read(ctx, c.position, pageSize)
	if err != nil {
		return nil, c.position, err
	}
	end = c.position
	for size := 0; len(batch) > 0 && size < parcelBytes; batch = batch[1:] {
		e := batch[0]
		wanted, err := c.wants(ctx, e)
		if err != nil {
			return nil, c.position, err
		}
		if wanted {
			p, err := newParcel(e.VisibleTo(c.h.tenant))
			if err != nil {
				return nil, c.position, err
			}
			list, size = append(list, p), size+len(p.body)
		}
		end = e.Seq
	}
	return list, end, nil
}

func (c *deliverer) wants(ctx context.Context, e events.Event) (bool, error) {
	switch {
	case e.Type.Webhook():
		return false, nil
	case e.Tenant == events.LedgerTenant && len(c.selector.Types) == 0:
		// A dead letter extends the ledger, and that causes a checkpoint. A webhook
		// without a selected type would then get dead letters of checkpoints, which cause
		// more checkpoints.
		return false, nil
	}
	return c.selector.Wants(ctx, e)
}

// attempt posts a message once and counts the attempt unless it was canceled.
func (c *deliverer) attempt(ctx context.Context, m message) outcome {
	o := attempt(ctx, c.client, c.h.url, c.h.secret, m)
	if ctx.Err() == nil {
		c.s.count(o)
	}
	return o
}

// deliver tries an event until the receiver accepts it or it is a recorded dead letter,
// and then returns true. It returns false if the receiver wants no more deliveries, which
// it may also answer to a retry of a dead letter during a pause, or if ctx is done.
func (c *deliverer) deliver(ctx context.Context, p parcel) (bool, error) {
	start := time.Now()
	for n := 1; ; n++ {
		o := c.attempt(ctx, p.message)
		switch {
		case ctx.Err() != nil:
			return false, nil //nolint:nilerr // the attempt was canceled; its outcome does not count
		case !o.isFailure():
			c.report(0, outcome{}, time.Time{})
			return true, nil
		case o.isGone():
			return false, c.record(ctx, &events.WebhookDisabled{WebhookID: c.h.id, EventSeq: p.seq, Reason: o.reason})
		case n >= c.s.opts.Attempts:
			err := c.record(ctx, c.letter(p, n, start, o))
			c.report(0, o, time.Time{})
			return err == nil, err
		}
		d := max(c.s.opts.backoff(n), min(o.retryAfter, c.s.opts.BackoffMax))
		c.report(n, o, time.Now().Add(d))
		if !c.pause(ctx, d) || c.isDisabled() {
			return false, nil
		}
	}
}

func (c *deliverer) letter(p parcel, attempts int, start time.Time, o outcome) *events.WebhookDeadLettered {
	return &events.WebhookDeadLettered{
		WebhookID: c.h.id, EventSeq: p.seq, EventID: p.message.id, EventKind: p.kind,
		Attempts: attempts, FirstAttemptAt: events.Instant{Time: start.UTC().Truncate(time.Millisecond)}, Reason: o.reason, Status: o.status,
	}
}

// pause waits between two attempts. Meanwhile it retries requested dead letters, because
// the receiver may have been repaired. It returns false if ctx is done.
func (c *deliverer) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return true
		case <-c.h.changed:
			c.redeliver(ctx)
		case <-ctx.Done():
			return false
		}
	}
}

// redeliver tries each dead letter with a requested retry once, in order.
func (c *deliverer) redeliver(ctx context.Context) {
	for _, seq := range c.queuedRetries() {
		if ctx.Err() != nil || c.isDisabled() {
			return
		}
		if err := c.retry(ctx, seq); err != nil && ctx.Err() == nil {
			c.s.opts.Logger.WarnContext(ctx, "a dead letter cannot be retried", "webhook", c.h.id, "position", seq, "error", err)
			return
		}
	}
}

func (c *deliverer) retry(ctx context.Context, seq uint64) error {
	list, err := c.s.opts.Feed.Read(ctx, seq-1, 1)
	if err != nil {
		return err
	}
	if len(list) == 0 || list[0].Seq != seq {
		return fmt.Errorf("event %d cannot be read: %w", seq, events.ErrNotFound)
	}
	p, err := newParcel(list[0].VisibleTo(c.h.tenant))
	if err != nil {
		return err
	}
	start := time.Now()
	o := c.attempt(ctx, p.message)
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the attempt was canceled, and the retry is still requested
	case !o.isFailure():
		return c.record(ctx, &events.WebhookRedelivered{WebhookID: c.h.id, EventSeq: seq})
	case o.isGone():
		return c.record(ctx, &events.WebhookDisabled{WebhookID: c.h.id, EventSeq: seq, Reason: o.reason})
	default:
		return c.record(ctx, c.letter(p, 1, start, o))
	}
}

// record appends the outcome of a delivery and returns once it is applied.
func (c *deliverer) record(ctx context.Context, d events.Data) error {
	_, err := c.s.append(ctx, c.h.tenant, d, -1)
	if err != nil {
		return fmt.Errorf("record %s: %w", events.TypeOf(d), err)
	}
	return nil
}

func (c *deliverer) isDisabled() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.h.disabledReason != ""
}

func (c *deliverer) queuedRetries() []uint64 {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.h.queuedRetries()
}

func (c *deliverer) setPosition(seq uint64) {
	c.position = seq
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.h.position = seq
}

// report publishes the state of the event that is being delivered.
func (c *deliverer) report(failed int, o outcome, next time.Time) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.h.failedAttempts, c.h.lastError, c.h.nextAttempt = failed, o.reason, next
}

// newParcel encodes an event for receivers.
func newParcel(e events.Event) (parcel, error) {
	ce, err := events.Structured(e)
	if err != nil {
		return parcel{}, err
	}
	body, err := json.Marshal(ce)
	return parcel{seq: e.Seq, kind: e.Type, message: message{id: e.ID, body: body}}, err
}
