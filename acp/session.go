package acp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"daybook/events"
)

// session is one that a client has open. Everything about it that is to last is
// on record.
type session struct {
	id     string
	client *client
	// tools are the servers that the client brought along; nil without any.
	tools Toolbox
	// unusable tells of those that could not even be tried, by the client's name.
	unusable map[string]string
	// answered is closed when the request that opened the session is answered,
	// announced when its first updates are sent. closing ends the wait for both.
	answered, announced chan struct{}
	// reattached is set for a session that the client opened at another owner.
	reattached bool
	closing    context.CancelFunc

	// used is when the session was opened or prompted. It is guarded by Server.mu.
	used time.Time

	mu     sync.Mutex
	config events.AgentConfig
	// titled is true once a prompt has given the session its title.
	titled bool
	// offered are the tools that the run was told of.
	offered []Tool
	// settled are the calls that the user decided about for good.
	settled map[toolKey]bool
}

type toolKey struct{ server, tool string }

func (n *session) settings() events.AgentConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.config
}

// maxOpen bounds the sessions that a client has open. Editors open one for each
// conversation and close few of them.
const maxOpen = 256

// makeSpace ends the least recently used session of a client that has maxOpen sessions
// open. The client loads or resumes it to use it again. An error says that all of them
// run a prompt.
func (c *client) makeSpace() error {
	s := c.server
	s.mu.Lock()
	open := 0
	var oldest *session
	for _, n := range s.live {
		if n.client != c {
			continue
		}
		if open++; c.turnOf(n.id) == nil && (oldest == nil || n.used.Before(oldest.used)) {
			oldest = n
		}
	}
	if open < maxOpen {
		oldest = nil
	}
	if oldest != nil {
		delete(s.live, oldest.id) // before another client can take it
	}
	s.mu.Unlock()
	switch {
	case open < maxOpen:
		return nil
	case oldest == nil:
		return invalid(fmt.Sprintf("%d sessions are open and run prompts; wait for an answer, or close a session", open))
	}
	oldest.end(s)
	return nil
}

// open makes a session the client's own: whoever had it open before loses it.
func (s *Server) open(n *session) {
	s.mu.Lock()
	before := s.live[n.id]
	s.live[n.id] = n
	n.used = time.Now()
	s.mu.Unlock()
	before.lose(n.client)
	before.end(s)
}

// release takes a session from the client that has it open: what runs is cancelled,
// and its servers are ended. by is the client that asks for it.
func (s *Server) release(id string, by *client) {
	s.mu.Lock()
	before := s.live[id]
	delete(s.live, id)
	s.mu.Unlock()
	before.lose(by)
	before.end(s)
}

// lose notes that a client took the session, or closed it: the client that had it open
// does not take it back at the next owner.
func (n *session) lose(to *client) {
	if n != nil && n.client != to {
		go n.client.forget(n.id) // it may not read
	}
}

// end undoes what opening a session did.
func (n *session) end(s *Server) {
	if n == nil {
		return
	}
	n.closing()
	n.client.stopTurn(n.id)
	timer := time.NewTimer(endGrace)
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

// leave releases all that a client has open.
func (s *Server) leave(c *client) {
	s.mu.Lock()
	var gone []*session
	for id, n := range s.live {
		if n.client == c {
			gone = append(gone, n)
			delete(s.live, id)
		}
	}
	s.mu.Unlock()
	for _, n := range gone {
		n.end(s)
	}
}

// session is one that some client has open, or nil.
func (s *Server) session(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// session is one that this client has open.
func (c *client) session(ctx context.Context, id string) (*session, error) {
	n := c.server.session(id)
	switch {
	case n != nil && n.client == c:
		c.server.mu.Lock()
		n.used = time.Now()
		c.server.mu.Unlock()
		return n, nil
	case n != nil:
		return nil, invalid("the session is open in another connection now; load or resume it to have it back")
	}
	if _, err := c.server.opts.Queries.AgentSession(ctx, tenant, id); err != nil {
		return nil, err
	}
	return nil, invalid("the session is not open; load or resume it first")
}
