package acp

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/internal/link"
)

// handle answers a request. The SDK calls it in a new goroutine for each request.
func (c *client) handle(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	if method == sdk.AgentMethodSessionPrompt {
		// Every return ends the turn, for which stopTurn may be waiting.
		if t := c.turnOf(envelope{Params: params}.session()); t != nil {
			defer t.finish()
		}
	}
	if method != sdk.AgentMethodInitialize && !c.initialized.Load() {
		return nil, &sdk.RequestError{Code: codeInvalidRequest, Message: "the connection is not initialized; send initialize first"}
	}
	if refused := c.server.statelessRefusal(method); refused != nil {
		return nil, refused
	}
	if err := c.count(method, params); err != nil {
		return nil, c.refusal(err)
	}
	result, err := c.dispatch(ctx, method, params)
	if err != nil {
		return nil, c.refusal(err)
	}
	return result, nil
}

// count counts a request. It does not count requests that a link repeats at the next
// owner: a prompt that an earlier owner counted, and the first session/resume of each
// session. A client cannot avoid the count by sending the mark link.Reattached: it has
// an effect only while the link restores its connection.
func (c *client) count(method string, params json.RawMessage) error {
	if c.server.opts.Count == nil {
		return nil
	}
	session := envelope{Params: params}.session()
	switch method {
	case sdk.AgentMethodInitialize:
		return nil
	case sdk.AgentMethodSessionPrompt:
		if t := c.turnOf(session); t != nil && t.delivery.Again {
			return nil
		}
	case sdk.AgentMethodSessionResume:
		var p struct {
			Meta map[string]any `json:"_meta"`
		}
		if json.Unmarshal(params, &p) != nil {
			break
		}
		if again, _ := p.Meta[link.Reattached].(bool); again && c.restoring.Load() && c.firstResume(session) {
			return nil
		}
	}
	return c.server.opts.Count()
}

// firstResume reports whether the client resumes a session for the first time. It
// reports false after maxOpenSessions different sessions.
func (c *client) firstResume(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(session) > 64 || c.resumed[session] || len(c.resumed) >= maxOpenSessions {
		return false
	}
	if c.resumed == nil {
		c.resumed = map[string]bool{}
	}
	c.resumed[session] = true
	return true
}

func (c *client) dispatch(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case sdk.AgentMethodInitialize:
		return callMethod(ctx, params, c.initialize)
	case sdk.AgentMethodAuthenticate:
		return nil, invalid("authentication is not supported: authMethods is empty")
	case sdk.AgentMethodSessionNew:
		return callMethod(ctx, params, c.newSession)
	case sdk.AgentMethodSessionLoad:
		return callMethod(ctx, params, c.loadSession)
	case sdk.AgentMethodSessionResume:
		return callMethod(ctx, params, c.resumeSession)
	case sdk.AgentMethodSessionFork:
		return callMethod(ctx, params, c.forkSession)
	case sdk.AgentMethodSessionList:
		return callMethod(ctx, params, c.listSessions)
	case sdk.AgentMethodSessionClose:
		return callMethod(ctx, params, c.closeSession)
	case sdk.AgentMethodSessionDelete:
		return callMethod(ctx, params, c.deleteSession)
	case sdk.AgentMethodSessionPrompt:
		return callMethod(ctx, params, c.prompt)
	case sdk.AgentMethodSessionSetMode:
		return callMethod(ctx, params, c.setMode)
	case sdk.AgentMethodSessionSetConfigOption:
		return callMethod(ctx, params, c.setOption)
	default:
		return nil, &sdk.RequestError{Code: codeMethodUnknown, Message: fmt.Sprintf("unknown method %.60q", method)}
	}
}

// validator is implemented by the SDK's parameter types.
type validator interface{ Validate() error }

// callMethod decodes and validates the parameters of a method and calls it.
func callMethod[P, R any](ctx context.Context, params json.RawMessage, fn func(context.Context, P) (R, error)) (any, error) {
	var p P
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, invalid("params do not have the form of this method: " + err.Error())
	}
	if v, ok := any(&p).(validator); ok {
		if err := v.Validate(); err != nil {
			return nil, invalid("params do not have the form of this method: " + err.Error())
		}
	}
	return fn(ctx, p)
}

// protocolVersion is answered to every client, whatever version it offers. A client
// that does not know it disconnects.
const protocolVersion = 1

func (c *client) initialize(_ context.Context, p sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	if p.ClientInfo != nil {
		name := p.ClientInfo.Name
		if p.ClientInfo.Version != "" {
			name += "/" + p.ClientInfo.Version
		}
		c.name.Store(name)
	}
	c.initialized.Store(true)
	title := "Daybook"
	return sdk.InitializeResponse{
		ProtocolVersion: protocolVersion,
		AgentInfo:       &sdk.Implementation{Name: "daybook", Title: &title, Version: c.server.opts.Version},
		AuthMethods:     []sdk.AuthMethod{},

		AgentCapabilities: c.server.capabilities(),
	}, nil
}

// capabilities returns the capabilities of the agent. A stateless server only lists
// and deletes the sessions of earlier servers.
func (s *Server) capabilities() sdk.AgentCapabilities {
	list, remove := &sdk.SessionListCapabilities{}, &sdk.SessionDeleteCapabilities{}
	if s.opts.Stateless {
		return sdk.AgentCapabilities{SessionCapabilities: sdk.SessionCapabilities{List: list, Delete: remove}}
	}
	tools := s.opts.Connect != nil
	return sdk.AgentCapabilities{
		LoadSession:        true,
		McpCapabilities:    sdk.McpCapabilities{Http: tools, Sse: tools},
		PromptCapabilities: sdk.PromptCapabilities{EmbeddedContext: true},
		SessionCapabilities: sdk.SessionCapabilities{
			List: list, Delete: remove, Resume: &sdk.SessionResumeCapabilities{}, Close: &sdk.SessionCloseCapabilities{},
			Fork: &sdk.SessionForkCapabilities{}, AdditionalDirectories: &sdk.SessionAdditionalDirectoriesCapabilities{},
		},
	}
}

// statelessRefusal returns the error of a method that a stateless server does not
// offer. It returns nil for every other method, and for a server that is not
// stateless.
func (s *Server) statelessRefusal(method string) *sdk.RequestError {
	if !s.opts.Stateless {
		return nil
	}
	code := codeMethodUnknown // capabilities does not name the method
	switch method {
	case sdk.AgentMethodSessionNew, sdk.AgentMethodSessionPrompt, sdk.AgentMethodSessionSetMode, sdk.AgentMethodSessionSetConfigOption:
		code = codeInvalidRequest // the protocol requires the method of every agent
	case sdk.AgentMethodSessionLoad, sdk.AgentMethodSessionResume, sdk.AgentMethodSessionFork, sdk.AgentMethodSessionClose:
	default:
		return nil
	}
	return &sdk.RequestError{Code: code, Message: method + " is not available: this server runs in stateless mode, where no session keeps a heap; start it without --stateless"}
}
