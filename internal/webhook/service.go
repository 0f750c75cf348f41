package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
)

// Service manages the webhooks of a ledger and delivers for those whose secret it
// stores. It is safe for concurrent use. Commands return only after Run has applied the
// events that they record: without Run they block until their time limit.
type Service struct {
	opts    Options
	secrets secretStore
	// delivered and failed count attempts.
	delivered, failed atomic.Int64

	mu    sync.Mutex
	hooks map[string]*hook
	// applied is the position up to which events are applied to hooks. appliedChanged is
	// closed and replaced when applied grows.
	applied        uint64
	appliedChanged chan struct{}
	// deliver starts a deliverer for a webhook; nil while Run is not active.
	deliver func(*hook)
	// pendingRegistrations counts the registrations in progress per tenant.
	pendingRegistrations map[string]int
}

// Open reads the webhooks from the ledger. It starts nothing and holds nothing to close.
func Open(ctx context.Context, opts Options) (*Service, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{opts: opts, hooks: map[string]*hook{}, appliedChanged: make(chan struct{}), pendingRegistrations: map[string]int{}}
	if s.secrets, err = openSecretStore(opts.Dir); err != nil {
		return nil, err
	}
	// The end of the ledger is read before the events. Run follows the ledger from that end
	// on, so it reads later events again that were read here. Each event is applied once.
	if s.applied, err = opts.Feed.LastSeq(ctx); err != nil {
		return nil, fmt.Errorf("read the webhooks: %w", err)
	}
	err = opts.Journal.EachMatching(ctx, events.WebhookSubjects(), func(e events.Event) error {
		s.apply(e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the webhooks: %w", err)
	}
	if err := s.secrets.sweep(func(id string) bool { return s.hooks[id] != nil }); err != nil {
		return nil, fmt.Errorf("remove the files of deleted webhooks: %w", err)
	}
	return s, nil
}

// apply applies an event about a webhook. The caller must hold mu or be the only user of
// s.
func (s *Service) apply(e events.Event) {
	if !e.Type.Webhook() {
		return
	}
	h := s.hooks[e.About()]
	if d, ok := e.Data.(*events.WebhookRegistered); ok && h == nil {
		h = newHook(e, d)
		s.loadSecret(h)
		s.hooks[h.id] = h
		h.apply(e)
		if s.deliver != nil {
			s.deliver(h)
		}
		return
	}
	if h == nil {
		return // the webhook is deleted already
	}
	if h.apply(e); h.deleted {
		delete(s.hooks, h.id)
		h.stop()
	}
}

// loadSecret loads the secret of a webhook if it is available.
func (s *Service) loadSecret(h *hook) {
	var err error
	h.secret, err = s.secrets.secret(h.id)
	if h.hasSecret = err == nil; !h.hasSecret && !errors.Is(err, os.ErrNotExist) {
		s.opts.Logger.Error("cannot deliver for a webhook", "webhook", h.id, "error", err)
	}
}

// advance applies a batch and wakes waiting callers and deliverers.
func (s *Service) advance(batch []events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range batch {
		s.apply(e)
		s.applied = max(s.applied, e.Seq)
	}
	// A deliverer for which the batch has no event is not woken, because there may be many
	// such deliverers, and each one reads the ledger separately.
	for _, h := range s.hooks {
		switch {
		case !h.isResting:
		case h.concerns(batch):
			h.isResting = false
			h.wake()
		default:
			if h.position = s.applied; h.position >= h.wakeAt {
				h.isResting = false
				h.wake()
			}
		}
	}
	close(s.appliedChanged)
	s.appliedChanged = make(chan struct{})
}

// progress returns the position applied and a channel that is closed once it grows.
func (s *Service) progress() (uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied, s.appliedChanged
}

// wait returns once the event at seq is applied.
func (s *Service) wait(ctx context.Context, seq uint64) error {
	for {
		applied, moved := s.progress()
		if applied >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// append records an event and waits until it is applied.
func (s *Service) append(ctx context.Context, tenant string, d events.Data, after int64) (uint64, error) {
	seq, err := s.opts.Journal.Append(ctx, events.New(tenant, time.Now(), d), after)
	if err != nil {
		return 0, err
	}
	return seq, s.wait(ctx, seq)
}

// changeTimeout limits a client's change.
const changeTimeout = 4500 * time.Millisecond

// change is append for a client. It returns context.DeadlineExceeded if the ledger does
// not answer within changeTimeout.
func (s *Service) change(ctx context.Context, tenant string, d events.Data, after int64) (uint64, error) {
	ctx, stop := context.WithTimeout(ctx, changeTimeout)
	defer stop()
	seq, err := s.append(ctx, tenant, d, after)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("record %s: %w: %w", events.TypeOf(d), ctx.Err(), err)
	}
	return seq, err
}

// RegisterResult is the result of Register.
type RegisterResult struct {
	Hook Hook
	// Secret signs the deliveries. It is returned only here.
	Secret Secret
	// Seq is the position of the recorded event.
	Seq uint64
}

// Register adds a webhook. Errors are *Error for an invalid request, and
// context.DeadlineExceeded if the ledger does not answer in time. The secret is on disk
// before the webhook is recorded.
func (s *Service) Register(ctx context.Context, r Registration) (RegisterResult, error) {
	if err := r.check(s.opts.AllowPrivate); err != nil {
		return RegisterResult{}, err
	}
	after, err := s.opts.Feed.LastSeq(ctx)
	if err != nil {
		return RegisterResult{}, fmt.Errorf("register a webhook: %w", err)
	}
	if r.After != nil {
		if *r.After > after {
			return RegisterResult{}, invalidf("after", "after is %d, but the ledger ends at %d", *r.After, after)
		}
		after = *r.After
	}
	done, err := s.reserve(r.Tenant)
	if err != nil {
		return RegisterResult{}, err
	}
	defer done()
	id, secret := events.NewID(time.Now()), newSecret()
	if err := s.secrets.storeSecret(id, secret); err != nil {
		return RegisterResult{}, err
	}
	seq, err := s.change(ctx, r.Tenant, &events.WebhookRegistered{
		WebhookID: id, Content: events.Plain(events.WebhookContent{URL: r.URL}), Types: r.Types, Session: r.Session, ExecutionID: r.ExecutionID,
		After: after, Actor: r.Actor,
	}, 0)
	if err != nil {
		// The secret is kept, because the event may be recorded. If it is not, the next
		// start removes the secret.
		return RegisterResult{}, fmt.Errorf("register a webhook: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hooks[id]
	if h == nil {
		return RegisterResult{}, fmt.Errorf("webhook %s was deleted meanwhile: %w", id, events.ErrNotFound)
	}
	return RegisterResult{Hook: h.view(), Secret: secret, Seq: seq}, nil
}

// reserve counts a registration against the tenant's limit until done is called.
func (s *Service) reserve(tenant string) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.pendingRegistrations[tenant]
	for _, h := range s.hooks {
		if h.tenant == tenant {
			n++
		}
	}
	if n >= s.opts.MaxPerTenant {
		return nil, invalidf("", "the tenant has %d webhooks, which is the limit; delete one", n)
	}
	s.pendingRegistrations[tenant]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pendingRegistrations[tenant]--; s.pendingRegistrations[tenant] == 0 {
			delete(s.pendingRegistrations, tenant)
		}
	}, nil
}

// find returns a tenant's webhook, or events.ErrNotFound. The caller must hold mu.
func (s *Service) find(tenant, id string) (*hook, error) {
	h := s.hooks[id]
	if h == nil || h.tenant != tenant {
		return nil, fmt.Errorf("webhook %.80s: %w", id, events.ErrNotFound)
	}
	return h, nil
}

// Delete removes a webhook and deletes its secret. It cancels an attempt in progress. It
// returns the position of the recorded event. Errors are events.ErrNotFound, and
// context.DeadlineExceeded if the ledger does not answer in time.
func (s *Service) Delete(ctx context.Context, tenant, id string, actor events.Actor) (uint64, error) {
	s.mu.Lock()
	h, err := s.find(tenant, id)
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	seq, err := s.change(ctx, tenant, &events.WebhookDeleted{WebhookID: id, Actor: actor}, -1)
	if err == nil {
		s.mu.Lock()
		ended := h.ended
		s.mu.Unlock()
		// The deliverer may be in the middle of an attempt.
		select {
		case <-ended:
			err = s.secrets.deleteFiles(id)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("delete webhook %s: %w", id, err)
	}
	return seq, nil
}

// maxRetries is the maximum number of dead letters in one request, which keeps its event
// small.
const maxRetries = 1000

// Retry requests another delivery of dead letters and enables a disabled webhook. The
// dead letters are those at the given positions. If no positions are given, they are the
// oldest 1,000 for which no retry is requested yet. Retry returns their number and the
// position of the recorded event. Errors are *Error for an invalid request or if there is
// nothing to retry, events.ErrNotFound, and context.DeadlineExceeded if the ledger does not
// answer in time.
func (s *Service) Retry(ctx context.Context, tenant, id string, seqs []uint64, actor events.Actor) (n int, seq uint64, err error) {
	if len(seqs) > maxRetries {
		return 0, 0, invalidf("sequences", "at most %d dead letters can be retried in one request", maxRetries)
	}
	seqs, err = s.retriable(tenant, id, seqs)
	if err != nil {
		return 0, 0, err
	}
	seq, err = s.change(ctx, tenant, &events.WebhookRetryRequested{WebhookID: id, EventSeqs: seqs, Actor: actor}, -1)
	if err != nil {
		return 0, 0, fmt.Errorf("retry webhook %s: %w", id, err)
	}
	return len(seqs), seq, nil
}

func (s *Service) retriable(tenant, id string, seqs []uint64) ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	if !h.hasSecret {
		return nil, invalidf("", "this server does not have the secret of the webhook; send the request to the server where it was registered, or delete the webhook and add it again")
	}
	list := make([]uint64, 0, len(seqs))
	for _, seq := range seqs {
		if h.letters[seq] == nil {
			return nil, invalidf("sequences", "the event at %d is not a dead letter of this webhook", seq)
		}
		list = append(list, seq)
	}
	if len(seqs) == 0 {
		for _, seq := range slices.Sorted(maps.Keys(h.letters)) {
			if !h.letters[seq].retrying && len(list) < maxRetries {
				list = append(list, seq)
			}
		}
	}
	if len(list) == 0 && h.disabledReason == "" {
		return nil, invalidf("", "there is nothing to retry")
	}
	return list, nil
}

// List returns a tenant's webhooks, oldest first.
func (s *Service) List(tenant string) []Hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Hook{}
	for _, h := range s.hooks {
		if h.tenant == tenant {
			list = append(list, h.view())
		}
	}
	// Ids are in order of time.
	slices.SortFunc(list, func(a, b Hook) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Get returns one webhook, or events.ErrNotFound.
func (s *Service) Get(tenant, id string) (Hook, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.find(tenant, id)
	if err != nil {
		return Hook{}, err
	}
	return h.view(), nil
}

// DeadLetters returns the dead letters of a webhook in ledger order, or
// events.ErrNotFound.
func (s *Service) DeadLetters(tenant, id string) ([]DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.find(tenant, id)
	if err != nil {
		return nil, err
	}
	return h.deadLetters(), nil
}

// Undelivered returns why events up to a position are still needed by webhooks of any
// tenant: undelivered events and dead letters. The reasons are human-readable sentences
// in the order of the webhook ids.
func (s *Service) Undelivered(last uint64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var reasons []string
	for _, id := range slices.Sorted(maps.Keys(s.hooks)) {
		h := s.hooks[id]
		if !h.hasSecret {
			continue // this server does not deliver for it
		}
		if h.position < last {
			reasons = append(reasons, fmt.Sprintf("webhook %s has delivered only up to position %d; wait for it, or delete it", id, h.position))
		}
		letters := 0
		for seq := range h.letters {
			if seq <= last {
				letters++
			}
		}
		if letters > 0 {
			reasons = append(reasons, fmt.Sprintf("webhook %s has %d dead letters of these events; retry them until they are accepted, or delete the webhook", id, letters))
		}
	}
	return reasons
}

// Stats holds counts for metrics, over all tenants.
type Stats struct {
	// Webhooks counts webhooks by state. Every state has an entry.
	Webhooks map[State]int
	// DeadLetters counts the dead letters.
	DeadLetters int
	// Delivered and Failed count the attempts of this process since Open.
	Delivered, Failed int64
	// MaxLag is the maximum number of positions by which a webhook lags behind the newest
	// known event, among the webhooks that this server delivers for.
	MaxLag uint64
}

// Stats returns the current counts.
func (s *Service) Stats() Stats {
	st := Stats{Webhooks: map[State]int{StateActive: 0, StateFailing: 0, StateDisabled: 0, StateElsewhere: 0}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range maps.Values(s.hooks) {
		st.Webhooks[h.view().State]++
		st.DeadLetters += len(h.letters)
		if h.hasSecret && h.position < s.applied {
			st.MaxLag = max(st.MaxLag, s.applied-h.position)
		}
	}
	st.Delivered, st.Failed = s.delivered.Load(), s.failed.Load()
	return st
}

// count counts an attempt.
func (s *Service) count(o outcome) {
	if o.isFailure() {
		s.failed.Add(1)
	} else {
		s.delivered.Add(1)
	}
}
