package ledger

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"daybook/events"
)

// Limits of the arguments of ACP clients.
const (
	maxPathBytes   = 4096
	maxRoots       = 64
	maxToolServers = 64
	maxTitleBytes  = 256
)

// AgentOpening holds the arguments of OpenAgentSession.
type AgentOpening struct {
	Tenant    string
	Workspace events.AgentWorkspace
	Config    events.AgentConfig
	// Servers are the names of the tool servers that the client provides.
	Servers []string
	// Parent is the session to fork, or empty. The new session starts from the current
	// session head and conversation of its parent.
	Parent      string
	Actor       events.Actor
	Traceparent string
}

// OpenAgentSession opens an ACP session and returns its id and the position of the event
// that records it. Errors are CodeInvalid, CodeNotFound for an unknown parent,
// CodeConflict for a parent with a run that has not ended, and CodeUnavailable. After an
// error, a session that was opened in part is never listed.
func (l *Ledger) OpenAgentSession(ctx context.Context, o AgentOpening) (id string, seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := errors.Join(checkTenant(o.Tenant), l.checkAgentConfig(o.Config)); err != nil {
		return "", 0, err
	}
	if err := checkWorkspace(o.Workspace); err != nil {
		return "", 0, err
	}
	d := &events.AgentSessionCreated{
		Content: events.Plain(o.Workspace), Config: o.Config, Servers: serverNames(o.Servers), Actor: sanitizeActor(o.Actor),
	}
	opening := Opening{Tenant: o.Tenant, Kind: events.SessionACP, Parent: o.Parent, Actor: o.Actor, Traceparent: o.Traceparent}
	if o.Parent != "" {
		last, err := l.agentSession(ctx, o.Tenant, o.Parent)
		if err != nil {
			return "", 0, err
		}
		if opening.Head, err = l.SessionHeap(ctx, o.Tenant, o.Parent); err != nil {
			return "", 0, err
		}
		d.Fork = &events.AgentFork{SessionID: o.Parent, Position: last.Seq}
	}
	opened, err := l.OpenSession(ctx, opening)
	if err != nil {
		return "", 0, err
	}
	d.SessionID = opened.SessionID
	keyID, done, err := l.useContentKey(o.Tenant, d.SessionID)
	if err != nil {
		return "", 0, err
	}
	defer done()
	e := l.newEvent(o.Tenant, validTraceparent(o.Traceparent), d)
	e.EncryptWithKey = keyID
	if seq, err = l.store.Append(ctx, e, 0); err != nil {
		return "", 0, unavailable("open the session", err)
	}
	return opened.SessionID, seq, nil
}

// AttachAgentSession records that a client loaded or resumed an ACP session. It returns
// the position of the event.
func (l *Ledger) AttachAgentSession(ctx context.Context, tenant string, d events.AgentSessionAttached) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := checkWorkspace(d.Content.Value()); err != nil {
		return 0, err
	}
	d.Servers, d.Actor = serverNames(d.Servers), sanitizeActor(d.Actor)
	keyID, done, err := l.useAgentKey(ctx, tenant, d.SessionID)
	if err != nil {
		return 0, err
	}
	defer done()
	e, err := l.appendInAgentSession(ctx, tenant, "", keyID, &d)
	return e.Seq, err
}

// ConfigureAgentSession records new settings of an ACP session and returns the position
// of the event.
func (l *Ledger) ConfigureAgentSession(ctx context.Context, tenant, session string, c events.AgentConfig, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := l.checkAgentConfig(c); err != nil {
		return 0, err
	}
	return l.inAgentSession(ctx, tenant, &events.AgentSessionConfigured{SessionID: session, Config: c, Actor: sanitizeActor(actor)})
}

// CloseAgentSession records that a client closed an ACP session and returns the position
// of the event.
func (l *Ledger) CloseAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	return l.inAgentSession(ctx, tenant, &events.AgentSessionClosed{SessionID: session, Actor: sanitizeActor(actor)})
}

// DeleteAgentSession records that an ACP session is deleted and returns the position of
// the event. The error is CodeNotFound for an unknown session and for one that is
// deleted already.
func (l *Ledger) DeleteAgentSession(ctx context.Context, tenant, session string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	return l.inAgentSession(ctx, tenant, &events.AgentSessionDeleted{SessionID: session, Actor: sanitizeActor(actor)})
}

// DecidePermission records whether a script was allowed to call a tool. It returns the
// position of the event.
func (l *Ledger) DecidePermission(ctx context.Context, tenant string, d events.AgentPermissionDecided) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	d.Actor = sanitizeActor(d.Actor)
	return l.inAgentSession(ctx, tenant, &d)
}

// AgentPrompt is a user's prompt in an ACP session.
type AgentPrompt struct {
	Tenant, Session string
	// Blocks are the content blocks as a JSON array. Title names a session that has no
	// name yet.
	Blocks, Title string
	// Run is the run of the prompt; nil for a command to the session. Prompt
	// replaces its tenant, session, actor, trace context and idempotency key with those
	// of the prompt.
	Run         *Submission
	Actor       events.Actor
	Traceparent string
	// ID is the prompt's id; empty for a new id. Recorded reports that the ledger holds
	// the prompt, so that only its run may be missing.
	ID       string
	Recorded bool
}

// PromptReceipt identifies a recorded prompt.
type PromptReceipt struct {
	PromptID string
	// ExecutionID is the prompt's run; empty for a command. Seq is the position of the last
	// event that was recorded for the prompt.
	ExecutionID string
	Seq         uint64
	At          events.Instant
}

// Prompt records a prompt and the request of its run. If the run is invalid or not
// admitted, nothing is recorded. If only the request fails, the prompt stays recorded:
// the PromptReceipt is set, and the error is that of Submit.
func (l *Ledger) Prompt(ctx context.Context, p AgentPrompt) (_ PromptReceipt, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	d := &events.AgentPrompted{SessionID: p.Session, PromptID: cmp.Or(p.ID, events.NewID(l.opts.Now())), Actor: sanitizeActor(p.Actor)}
	if p.Run == nil {
		return l.recordPrompt(ctx, p, d)
	}
	s := *p.Run
	s.Tenant, s.LogicalSession, s.Actor, s.Traceparent = p.Tenant, p.Session, p.Actor, p.Traceparent
	s.Interactive, s.IdempotencyKey = true, "acp-prompt-"+d.PromptID
	// The run is checked before anything is recorded.
	run, err := l.validate(s)
	if err != nil {
		return PromptReceipt{}, err
	}
	d.ExecutionID = run.req.ExecutionID
	if p.Recorded {
		r, err := l.submit(ctx, run)
		if CodeOf(err) == CodeConflict {
			err = nil // another server requested the run, with other code for the same prompt
		}
		return PromptReceipt{PromptID: d.PromptID, ExecutionID: d.ExecutionID, Seq: r.Seq}, err
	}
	var done PromptReceipt
	r, err := l.withAdmission(ctx, "write to session "+p.Session, &run.Submission, func() (r Receipt, err error) {
		if done, err = l.recordPrompt(ctx, p, d); err != nil {
			return Receipt{}, err
		}
		if r, err = l.lookUp(ctx, run); errors.Is(err, events.ErrNotFound) {
			r, err = l.record(ctx, run)
		}
		return r, err
	})
	if err == nil {
		done.Seq = r.Seq
	}
	return done, err
}

// recordPrompt records a prompt without its run, unless p.Recorded is set.
func (l *Ledger) recordPrompt(ctx context.Context, p AgentPrompt, d *events.AgentPrompted) (PromptReceipt, error) {
	done := PromptReceipt{PromptID: d.PromptID, ExecutionID: d.ExecutionID}
	if p.Recorded {
		return done, nil
	}
	keyID, release, err := l.useAgentKey(ctx, p.Tenant, p.Session)
	if err != nil {
		return PromptReceipt{}, err
	}
	defer release()
	blocks, err := l.storeEncryptedBody(ctx, p.Tenant, keyID, p.Blocks)
	if err != nil {
		return PromptReceipt{}, err
	}
	d.Content = events.Plain(events.PromptContent{Blocks: blocks, Title: truncate(strings.ToValidUTF8(p.Title, "\uFFFD"), maxTitleBytes)})
	e, err := l.appendInAgentSession(ctx, p.Tenant, p.Traceparent, keyID, d)
	if err != nil {
		return PromptReceipt{}, err
	}
	done.Seq, done.At = e.Seq, events.Instant{Time: e.Time}
	return done, nil
}

// AnswerCommand records the answer to a prompt that was a command, and whether the
// command cleared the session. It returns the position of the event.
func (l *Ledger) AnswerCommand(ctx context.Context, tenant, session, prompt, text string, cleared bool) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	keyID, done, err := l.useAgentKey(ctx, tenant, session)
	if err != nil {
		return 0, err
	}
	defer done()
	body, err := l.storeEncryptedBody(ctx, tenant, keyID, text)
	if err != nil {
		return 0, err
	}
	e, err := l.appendInAgentSession(ctx, tenant, "", keyID, &events.AgentAnswered{
		SessionID: session, PromptID: prompt, Content: events.Plain(events.AnswerContent{Text: body}), Cleared: cleared,
	})
	return e.Seq, err
}

// agentSession returns the newest event of an ACP session that is not deleted.
func (l *Ledger) agentSession(ctx context.Context, tenant, session string) (events.Event, error) {
	if !events.ValidHash(session) {
		return events.Event{}, unknownAgentSessionError(session)
	}
	last, err := l.store.Last(ctx, events.AgentSubject(tenant, session))
	switch {
	case errors.Is(err, events.ErrNotFound):
		return last, unknownAgentSessionError(session)
	case err != nil:
		return last, unavailable("read session "+session, err)
	case last.Type == events.TypeAgentSessionDeleted:
		return last, unknownAgentSessionError(session)
	}
	if _, ok := last.Data.(*events.Unknown); ok {
		return last, newerSessionError(session, last)
	}
	return last, nil
}

func (l *Ledger) inAgentSession(ctx context.Context, tenant string, d events.Data) (uint64, error) {
	e, err := l.appendInAgentSession(ctx, tenant, "", "", d)
	return e.Seq, err
}

// useAgentKey is useContentKey for an ACP session that exists, so that no key is created for
// another.
func (l *Ledger) useAgentKey(ctx context.Context, tenant, session string) (keyID string, done func(), err error) {
	if l.opts.Keys == nil || !l.opts.EncryptContent {
		return "", func() {}, nil
	}
	if err := checkTenant(tenant); err != nil {
		return "", nil, err
	}
	if _, err := l.agentSession(ctx, tenant, session); err != nil {
		return "", nil, err
	}
	return l.useContentKey(tenant, session)
}

// appendInAgentSession appends an event to an ACP session that exists, encrypted if keyID is
// not empty.
func (l *Ledger) appendInAgentSession(ctx context.Context, tenant, traceparent, keyID string, d events.Data) (events.Event, error) {
	if err := checkTenant(tenant); err != nil {
		return events.Event{}, err
	}
	e := l.newEvent(tenant, validTraceparent(traceparent), d)
	e.EncryptWithKey = keyID
	err := retry(ctx, "write to session "+e.About(), func() error {
		last, err := l.agentSession(ctx, tenant, e.About())
		if err != nil {
			return err
		}
		e.Seq, err = l.store.Append(ctx, e, int64(last.Seq))
		return err
	})
	return e, err
}

func unknownAgentSessionError(id string) error {
	return &Error{Code: CodeNotFound, Field: "session_id", Message: "there is no session '" + Excerpt(id) + "'; session/list returns the existing sessions"}
}

func checkWorkspace(w events.AgentWorkspace) error {
	if err := checkDirectory("cwd", w.Cwd); err != nil {
		return err
	}
	if len(w.AdditionalDirectories) > maxRoots {
		return Invalid("additionalDirectories", "additionalDirectories has %d entries: at most %d are accepted", len(w.AdditionalDirectories), maxRoots)
	}
	for _, dir := range w.AdditionalDirectories {
		if err := checkDirectory("additionalDirectories", dir); err != nil {
			return err
		}
	}
	return nil
}

func checkDirectory(field, dir string) error {
	switch {
	case !filepath.IsAbs(dir):
		return Invalid(field, `%s must be an absolute path, not "%s"`, field, Excerpt(dir))
	case len(dir) > maxPathBytes || !utf8.ValidString(dir) || strings.ContainsRune(dir, 0):
		return Invalid(field, "%s must be a path of at most %d bytes of valid UTF-8 without NUL", field, maxPathBytes)
	}
	return nil
}

func (l *Ledger) checkAgentConfig(c events.AgentConfig) error {
	if !slices.Contains([]events.AgentMode{events.AgentModeAsk, events.AgentModeAuto, events.AgentModeReadOnly}, c.Mode) {
		return Invalid("mode", `mode must be ask, auto or readonly, not "%s"`, Excerpt(string(c.Mode)))
	}
	s := Submission{}
	if c.HeapMemoryMaxMB != 0 {
		s.HeapMemoryMaxMB = &c.HeapMemoryMaxMB
	}
	if c.ExecutionTimeoutSecs != 0 {
		s.ExecutionTimeoutSecs = &c.ExecutionTimeoutSecs
	}
	_, _, err := l.resolveLimits(s)
	return err
}

func serverNames(names []string) []string {
	var list []string
	for _, n := range names[:min(len(names), maxToolServers)] {
		list = append(list, truncate(strings.ToValidUTF8(n, "\uFFFD"), maxActorBytes))
	}
	return list
}
