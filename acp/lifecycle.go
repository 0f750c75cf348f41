package acp

import (
	"context"
	"errors"
	"path/filepath"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/link"
	"daybook/ledger"
	"daybook/projections"
)

// workspaceFrom returns the directories that a client names when it creates, loads,
// resumes or forks a session. They replace all earlier directories of the session.
func workspaceFrom(cwd string, additional []string) (events.AgentWorkspace, error) {
	for _, dir := range append([]string{cwd}, additional...) {
		if !filepath.IsAbs(dir) {
			return events.AgentWorkspace{}, invalid("cwd and additionalDirectories must be absolute paths")
		}
	}
	return events.AgentWorkspace{Cwd: cwd, AdditionalDirectories: additional}, nil
}

// defaultConfig returns the configuration of a new session.
func defaultConfig() events.AgentConfig { return events.AgentConfig{Mode: events.AgentModeAsk} }

func (c *client) newSession(ctx context.Context, p sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	return c.create(ctx, p.Cwd, p.AdditionalDirectories, p.McpServers, "", defaultConfig())
}

// forkSession takes the same parameters as session/resume.
func (c *client) forkSession(ctx context.Context, p sdk.ResumeSessionRequest) (sdk.NewSessionResponse, error) {
	parent, err := c.server.opts.Queries.AgentSession(ctx, tenant, string(p.SessionId))
	if err != nil {
		return sdk.NewSessionResponse{}, err
	}
	return c.create(ctx, p.Cwd, p.AdditionalDirectories, p.McpServers, parent.SessionID, parent.Config)
}

func (c *client) create(ctx context.Context, cwd string, additional []string, servers []sdk.McpServer, parent string, config events.AgentConfig) (sdk.NewSessionResponse, error) {
	where, err := workspaceFrom(cwd, additional)
	if err != nil {
		return sdk.NewSessionResponse{}, err
	}
	if err := c.makeSpace(); err != nil {
		return sdk.NewSessionResponse{}, err
	}
	list := toolServers(servers, where)
	id, seq, err := c.server.opts.Commands.OpenAgentSession(ctx, ledger.AgentOpening{
		Tenant: tenant, Workspace: where, Config: config, Servers: list.names(), Parent: parent, Actor: c.actor(),
	})
	if err != nil {
		return sdk.NewSessionResponse{}, err
	}
	if err := c.server.opts.Queries.Wait(ctx, seq); err != nil {
		return sdk.NewSessionResponse{}, err
	}
	c.open(ctx, projections.AgentSession{SessionID: id, Config: config}, list, where, false)
	return sdk.NewSessionResponse{SessionId: sdk.SessionId(id), Modes: modes(config), ConfigOptions: c.server.options(config)}, nil
}

// open opens a session with its servers in the client, and announces it once the
// request is answered. reattached is set for a session that the client had open at an
// earlier owner.
func (c *client) open(ctx context.Context, on projections.AgentSession, list serverList, where events.AgentWorkspace, reattached bool) {
	n := &session{
		id: on.SessionID, client: c, config: on.Config, titleSet: on.Title != nil, unusableServers: list.unusable, decisions: map[toolKey]bool{},
		answered: make(chan struct{}), announced: make(chan struct{}), reattached: reattached,
	}
	c.connect(n, list)
	ctx, n.cancelAnnounce = context.WithCancel(context.WithoutCancel(ctx)) // ctx ends with the answer to the request
	go c.announce(ctx, n, where)
	c.server.open(n)
	c.afterAnswer = func() { close(n.answered) }
}

// attachSession attaches a recorded session to the client. It ends a run of the
// session, because no client would receive the updates of the run. If the client is
// reattached, the run continues, because the link sends the prompt again.
func (c *client) attachSession(ctx context.Context, id string, replayed, reattached bool, where events.AgentWorkspace, list serverList) (projections.AgentSession, error) {
	if err := c.makeSpace(); err != nil {
		return projections.AgentSession{}, err
	}
	seq, err := c.server.opts.Commands.AttachAgentSession(ctx, tenant, events.AgentSessionAttached{
		SessionID: id, Replayed: replayed, Content: events.Plain(where), Servers: list.names(), Actor: c.actor(),
	})
	if err != nil {
		return projections.AgentSession{}, err
	}
	c.server.endSession(id, c)
	if !reattached {
		ended, err := c.server.opts.Commands.InterruptSession(ctx, tenant, id)
		if err != nil {
			return projections.AgentSession{}, err
		}
		seq = max(seq, ended)
	}
	if err := c.server.opts.Queries.Wait(ctx, seq); err != nil {
		return projections.AgentSession{}, err
	}
	return c.server.opts.Queries.AgentSession(ctx, tenant, id)
}

func (c *client) loadSession(ctx context.Context, p sdk.LoadSessionRequest) (sdk.LoadSessionResponse, error) {
	where, err := workspaceFrom(p.Cwd, p.AdditionalDirectories)
	if err != nil {
		return sdk.LoadSessionResponse{}, err
	}
	list := toolServers(p.McpServers, where)
	on, err := c.attachSession(ctx, string(p.SessionId), true, false, where, list)
	if err != nil {
		return sdk.LoadSessionResponse{}, err
	}
	c.open(ctx, on, list, where, false)
	if err := c.replay(ctx, on.SessionID); err != nil {
		return sdk.LoadSessionResponse{}, err
	}
	return sdk.LoadSessionResponse{Modes: modes(on.Config), ConfigOptions: c.server.options(on.Config)}, nil
}

func (c *client) resumeSession(ctx context.Context, p sdk.ResumeSessionRequest) (sdk.ResumeSessionResponse, error) {
	where, err := workspaceFrom(p.Cwd, p.AdditionalDirectories)
	if err != nil {
		return sdk.ResumeSessionResponse{}, err
	}
	list := toolServers(p.McpServers, where)
	reattached, _ := p.Meta[link.Reattached].(bool)
	on, err := c.attachSession(ctx, string(p.SessionId), false, reattached, where, list)
	if err != nil {
		return sdk.ResumeSessionResponse{}, err
	}
	c.open(ctx, on, list, where, reattached)
	return sdk.ResumeSessionResponse{Modes: modes(on.Config), ConfigOptions: c.server.options(on.Config)}, nil
}

func (c *client) listSessions(ctx context.Context, p sdk.ListSessionsRequest) (sdk.ListSessionsResponse, error) {
	var f projections.AgentSessionFilter
	if p.Cwd != nil {
		if !filepath.IsAbs(*p.Cwd) {
			return sdk.ListSessionsResponse{}, invalid("cwd must be an absolute path")
		}
		f.Cwd = *p.Cwd
	}
	if p.Cursor != nil {
		if f.Cursor = *p.Cursor; f.Cursor == "" {
			return sdk.ListSessionsResponse{}, invalid("cursor is empty; leave it out to start at the newest session")
		}
	}
	page, err := c.server.opts.Queries.AgentSessions(ctx, tenant, f)
	if err != nil {
		return sdk.ListSessionsResponse{}, err
	}
	r := sdk.ListSessionsResponse{Sessions: []sdk.SessionInfo{}}
	for _, s := range page.Sessions {
		r.Sessions = append(r.Sessions, sdk.SessionInfo{
			SessionId: sdk.SessionId(s.SessionID), Cwd: s.Cwd, AdditionalDirectories: s.AdditionalDirectories, Title: s.Title, UpdatedAt: &s.UpdatedAt,
		})
	}
	if page.NextCursor != "" {
		r.NextCursor = &page.NextCursor
	}
	return r, nil
}

// closeSession closes a session. If no client has it open, it only checks that the
// session exists.
func (c *client) closeSession(ctx context.Context, p sdk.CloseSessionRequest) (sdk.CloseSessionResponse, error) {
	id := string(p.SessionId)
	if c.server.session(id) == nil {
		_, err := c.server.opts.Queries.AgentSession(ctx, tenant, id)
		return sdk.CloseSessionResponse{}, err
	}
	c.server.endSession(id, c)
	seq, err := c.server.opts.Commands.CloseAgentSession(ctx, tenant, id, c.actor())
	if err != nil {
		return sdk.CloseSessionResponse{}, err
	}
	return sdk.CloseSessionResponse{}, c.server.opts.Queries.Wait(ctx, seq)
}

// deleteSession deletes a session. It also succeeds if the session does not exist.
func (c *client) deleteSession(ctx context.Context, p sdk.UnstableDeleteSessionRequest) (sdk.UnstableDeleteSessionResponse, error) {
	id := string(p.SessionId)
	c.server.endSession(id, c)
	seq, err := c.server.opts.Commands.DeleteAgentSession(ctx, tenant, id, c.actor())
	switch code := ledger.CodeOf(err); {
	case err == nil:
		return sdk.UnstableDeleteSessionResponse{}, c.server.opts.Queries.Wait(ctx, seq)
	case code == ledger.CodeNotFound, errors.Is(err, events.ErrNotFound):
		return sdk.UnstableDeleteSessionResponse{}, nil
	default:
		return sdk.UnstableDeleteSessionResponse{}, err
	}
}
