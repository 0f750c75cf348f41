package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
	"daybook/projections"
)

// Session is a session of any kind.
type Session = projections.Session

// SessionEntry is an ended run of a session.
type SessionEntry = projections.Entry

// Shredded is the result of shredding the content of a session.
type Shredded = retention.ShredResult

// SessionList is a page of sessions, the last used first.
type SessionList struct {
	Items      []Session `json:"items"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

// Sessions returns at most limit sessions of a kind: all, named, logical or acp. cursor is that
// of the page before, or empty. With withNames, the JSON also has the names of all named sessions.
func (c *Client) Sessions(ctx context.Context, kind string, limit int, cursor string, withNames bool) (Answer[SessionList], error) {
	names := "false"
	if withNames {
		names = "" // the default
	}
	return call[SessionList](ctx, c, http.MethodGet, "/api/sessions"+query("kind", kind, "limit", strconv.Itoa(limit), "cursor", cursor, "names", names), nil)
}

// sessionPath returns the path of the session with a name, intent, ref or id, or a unique
// prefix of one.
func sessionPath(name string) string { return "/api/sessions/" + url.PathEscape(name) }

// Session returns a session.
func (c *Client) Session(ctx context.Context, name string) (Answer[Session], error) {
	return call[Session](ctx, c, http.MethodGet, sessionPath(name), nil)
}

// SessionLog are the ended runs of a session, oldest first.
type SessionLog struct {
	Entries []SessionEntry `json:"entries"`
}

// Entries returns the ended runs of a session. A session that is not known has none.
func (c *Client) Entries(ctx context.Context, name string) (Answer[SessionLog], error) {
	return call[SessionLog](ctx, c, http.MethodGet, sessionPath(name)+"/entries", nil)
}

// Turns are the newest runs of a session, with the resets and commands between them,
// oldest first.
type Turns struct {
	Session Session `json:"session"`
	// Earlier is the number of runs before the first one here.
	Earlier int64    `json:"earlier"`
	Moments []Moment `json:"moments"`
}

// Moment is a run, a reset or a command; the other members are nil.
type Moment struct {
	Run     *Turn                     `json:"run,omitempty"`
	Reset   *projections.SessionReset `json:"reset,omitempty"`
	Command *projections.AgentCommand `json:"command,omitempty"`
}

// Turn is a run of a session with the beginnings of its texts.
type Turn struct {
	ExecutionID string        `json:"execution_id"`
	Turn        *int64        `json:"turn"`
	Status      events.Status `json:"status"`
	Queued      bool          `json:"queued"`
	RequestedAt string        `json:"requested_at"`
	DurationMS  *int64        `json:"duration_ms"`
	Heap        *string       `json:"heap"`
	Reason      *string       `json:"reason"`
	Code        Excerpt       `json:"code"`
	Output      Excerpt       `json:"output"`
	Result      *Excerpt      `json:"result"`
	Error       *Excerpt      `json:"error"`
	// Artifacts is the number of artifacts. ArtifactList holds the first ones, without those
	// that a later one of the same name replaced.
	Artifacts    int64      `json:"artifacts,omitempty"`
	ArtifactList []Artifact `json:"artifact_list,omitempty"`
	// Erased is true if the content of the run was shredded.
	Erased bool `json:"erased,omitempty"`
}

// Excerpt is the beginning of a text with the size of the complete text, in bytes.
type Excerpt struct {
	Text  string `json:"text"`
	Bytes int64  `json:"bytes"`
}

// Turns returns the newest runs of a session. last is the maximum number of runs, and bytes
// the maximum number of bytes of each text.
func (c *Client) Turns(ctx context.Context, name string, last, bytes int) (Answer[Turns], error) {
	return call[Turns](ctx, c, http.MethodGet, sessionPath(name)+"/turns"+query("last", strconv.Itoa(last), "max_bytes", strconv.Itoa(bytes)), nil)
}

// Opening is a request for a logical session.
type Opening struct {
	// Intent is the purpose of the session; the same text opens the same session.
	Intent string `json:"intent"`
	// Seeds are the APIs for code: ids, or sources.
	Seeds []string `json:"seeds"`
}

// Opened is an opened logical session.
type Opened struct {
	SessionID string `json:"session_id"`
	// New is true if the request opened the session.
	New bool `json:"new"`
	// Broken is the reason why the request broke continuity; nil if it did not. StateLost is
	// true if the session therefore starts from a fresh isolate.
	Broken    *string `json:"broken"`
	StateLost bool    `json:"state_lost"`
	// Added are the declarations that are new to the session. Declarations has the same
	// declarations as one TypeScript text.
	Added        []Declaration `json:"added"`
	Declarations string        `json:"declarations"`
}

// Declaration is a declared API.
type Declaration struct {
	Symbol      string `json:"symbol"`
	ID          string `json:"id"`
	Declaration string `json:"declaration"`
}

// OpenSession opens a logical session.
func (c *Client) OpenSession(ctx context.Context, o Opening) (Answer[Opened], error) {
	return call[Opened](ctx, c, http.MethodPost, "/api/logical-sessions", o)
}

// Reset is a session after a reset.
type Reset struct {
	SessionID string             `json:"session_id"`
	Kind      events.SessionKind `json:"kind"`
	Name      *string            `json:"name"`
	Head      *string            `json:"head"`
}

// ResetSession resets a session to one of its heaps, or to none if heap is empty. key is the
// idempotency key; empty for none. A repeated request with the same key resets nothing, and
// returns the result of the first request.
func (c *Client) ResetSession(ctx context.Context, name, heap, key string) (Answer[Reset], error) {
	body := struct {
		Heap string `json:"heap,omitempty"`
	}{heap}
	return call[Reset](ctx, c, http.MethodPost, sessionPath(name)+"/reset", body, keyHeader(key)...)
}

// Shred shreds the content of a session. With force it also deletes heaps
// that runs outside of the session use.
func (c *Client) Shred(ctx context.Context, name string, force bool) (Answer[Shredded], error) {
	forced := ""
	if force {
		forced = "true"
	}
	return call[Shredded](ctx, c, http.MethodDelete, sessionPath(name)+"/content"+query("force", forced), nil)
}

// ShredWithoutSession shreds the content that belongs to no session. With force it also
// deletes heaps that runs of sessions use.
func (c *Client) ShredWithoutSession(ctx context.Context, force bool) (Answer[Shredded], error) {
	forced := ""
	if force {
		forced = "true"
	}
	return call[Shredded](ctx, c, http.MethodDelete, "/api/content"+query("force", forced), nil)
}

// ReplayRange selects what to replay of a session. Empty members take the defaults of the
// server.
type ReplayRange struct {
	Speed, MaxPause              string
	From, To, FromEntry, ToEntry string
	// Subject is the NATS subject to publish the events under; empty returns them.
	Subject string
}

// Replay starts a replay of the events of a session, one CloudEvent per line. The caller
// MUST close the body of the answer.
func (c *Client) Replay(ctx context.Context, name string, r ReplayRange) (*http.Response, error) {
	method := http.MethodGet
	if r.Subject != "" {
		method = http.MethodPost
	}
	path := sessionPath(name) + "/replay" + query("speed", r.Speed, "max_pause", r.MaxPause,
		"from", r.From, "to", r.To, "from_entry", r.FromEntry, "to_entry", r.ToEntry, "subject", r.Subject)
	return c.Send(ctx, method, path, nil, "Accept", "application/x-ndjson")
}

// Context is the conversation context of a session.
type Context = projections.Context

// ContextOf identifies a conversation context, by the name of a session or the id of a
// logical one.
type ContextOf struct{ Session, LogicalSession string }

func (o ContextOf) path() string {
	return "/api/context" + query("session", o.Session, "logical_session", o.LogicalSession)
}

// Context returns a conversation context.
func (c *Client) Context(ctx context.Context, of ContextOf) (Answer[Context], error) {
	return call[Context](ctx, c, http.MethodGet, of.path(), nil)
}

// ContextPatch changes a conversation context. A nil value removes a member.
type ContextPatch struct {
	UserPreferences map[string]any `json:"user_preferences,omitempty"`
	Custom          map[string]any `json:"custom,omitempty"`
}

// SetContext changes a conversation context and returns it.
func (c *Client) SetContext(ctx context.Context, of ContextOf, p ContextPatch) (Answer[Context], error) {
	return call[Context](ctx, c, http.MethodPatch, of.path(), p)
}

// Cleared is the answer to ClearContext.
type Cleared struct {
	Message string `json:"message"`
}

// ClearContext clears a conversation context.
func (c *Client) ClearContext(ctx context.Context, of ContextOf) (Answer[Cleared], error) {
	return call[Cleared](ctx, c, http.MethodDelete, of.path(), nil)
}
