package acp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/tools/toolserver"
)

// session is a session that a client has open. Its lasting state is in the ledger.
type session struct {
	id     string
	client *client
	// tools are the tool servers that the client named; nil for none.
	tools Toolbox
	// unusableServers holds the reason for each server that cannot be connected to. For a
	// server that toolServers refused, the key is that of serverList.unusable; for one that
	// Options.Connect refused, it is the name in code.
	unusableServers map[string]string
	// answered is closed when the request that opened the session is answered. announced
	// is closed when announce has sent the first updates of the session, or when
	// cancelAnnounce has ended it before that.
	answered, announced chan struct{}
	// reattached is set for a session that the client had open at an earlier owner.
	reattached     bool
	cancelAnnounce context.CancelFunc

	// lastUse is the time at which the session was opened, or at which a request of its
	// client last used it. Guarded by Server.mu.
	lastUse time.Time

	mu     sync.Mutex // guards the fields below
	config events.AgentConfig
	// titleSet is true once a prompt has set the title of the session.
	titleSet bool
	// offeredTools are the tools that the newest run may call.
	offeredTools []toolserver.Tool
	// decisions holds the decisions of the user that apply until the session is closed or
	// opened again: true allows a tool.
	decisions map[toolKey]bool
}

type toolKey struct{ server, tool string }

func (n *session) settings() events.AgentConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.config
}

// maxOpenSessions bounds the open sessions of a client. Editors open one for each
// conversation and close few of them.
const maxOpenSessions = 256

// makeSpace ends the least recently used session of a client with maxOpenSessions open
// sessions. The client can load or resume it later. It returns an error if every session
// runs a prompt.
func (c *client) makeSpace() error {
	s := c.server
	s.mu.Lock()
	open := 0
	var oldest *session
	for _, n := range s.openSessions {
		if n.client != c {
			continue
		}
		if open++; c.turnOf(n.id) == nil && (oldest == nil || n.lastUse.Before(oldest.lastUse)) {
			oldest = n
		}
	}
	if open < maxOpenSessions {
		oldest = nil
	}
	if oldest != nil {
		delete(s.openSessions, oldest.id) // before another client can take it
	}
	s.mu.Unlock()
	switch {
	case open < maxOpenSessions:
		return nil
	case oldest == nil:
		return invalid(fmt.Sprintf("%d sessions are open and run prompts; wait for an answer, or close a session", open))
	}
	oldest.end(s)
	return nil
}

// open registers a session as open in its client, and ends it in the client that had
// it open before.
func (s *Server) open(n *session) {
	s.mu.Lock()
	before := s.openSessions[n.id]
	s.openSessions[n.id] = n
	n.lastUse = time.Now()
	s.mu.Unlock()
	before.removeFromLink(n.client)
	before.end(s)
}

// endSession ends a session in the client that has it open: it cancels the prompt and
// closes the tool servers. by is the client that requests it.
func (s *Server) endSession(id string, by *client) {
	s.mu.Lock()
	before := s.openSessions[id]
	delete(s.openSessions, id)
	s.mu.Unlock()
	before.removeFromLink(by)
	before.end(s)
}

// removeFromLink removes a session from the link of the client that had it open. The link
// then does not resume the session at the next owner. to is the client that has taken or
// closed the session.
func (n *session) removeFromLink(to *client) {
	if n != nil && n.client != to {
		go n.client.forget(n.id) // blocks while that client does not read
	}
}

// end cancels the announcement and the prompt of a session and closes its tool
// servers. It waits for each of the first two for at most endTimeout. n may be nil.
func (n *session) end(s *Server) {
	if n == nil {
		return
	}
	n.cancelAnnounce()
	n.client.stopTurn(n.id)
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-n.announced:
	case <-timer.C:
	}
	if n.tools == nil {
		return
	}
	if err := n.tools.Close(); err != nil {
		s.opts.Logger.Warn("close the MCP servers of a session", "session", n.id, "error", err)
	}
}

// endSessionsOf ends every session that a client has open.
func (s *Server) endSessionsOf(c *client) {
	s.mu.Lock()
	var ended []*session
	for id, n := range s.openSessions {
		if n.client == c {
			ended = append(ended, n)
			delete(s.openSessions, id)
		}
	}
	s.mu.Unlock()
	for _, n := range ended {
		n.end(s)
	}
}

// session returns an open session of any client, or nil.
func (s *Server) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openSessions[id]
}

// session returns a session that this client has open, and updates its time of use.
func (c *client) session(ctx context.Context, id string) (*session, error) {
	n := c.server.session(id)
	switch {
	case n != nil && n.client == c:
		c.server.mu.Lock()
		n.lastUse = time.Now()
		c.server.mu.Unlock()
		return n, nil
	case n != nil:
		return nil, invalid("the session is open in another connection; load or resume it to use it in this one")
	}
	if _, err := c.server.opts.Queries.AgentSession(ctx, tenant, id); err != nil {
		return nil, err
	}
	return nil, invalid("the session is not open; load or resume it first")
}
