package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// eofTimeout is how long the connection waits for the next answer to a call in progress
// after the client has closed its end. It is shorter than the time after which clients
// kill the server.
const eofTimeout = 1500 * time.Millisecond

// MaxMessageBytes bounds one message of a client, in bytes without its line end.
const MaxMessageBytes = maxMessageBytes

// ServeStdio serves one client over a pair of streams, with one JSON-RPC message per
// line. It blocks until in ends, ctx is done or the server is closed. Runs continue
// after it returns. It writes only messages to out. session is the name under which runs
// are logged; empty means Options.SessionID.
//
// ServeStdio returns nil at the end of in and when the server is closed, the error of
// ctx when ctx is done, and an error if reading or writing failed. Unless in has ended,
// a Read of in may still be blocked on return; it consumes at most one more message,
// which is lost, unless the caller closes in.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, session string) error {
	if session == "" {
		session = s.opts.SessionID
	}
	if session != "" {
		if err := ledger.CheckSession(session); err != nil {
			return fmt.Errorf("session name: %w", err)
		}
	}
	conn := newLineConn(ctx, in, out, eofTimeout)
	conn.count = func() error { return s.opts.Quotas.CountRequest(access.Anonymous()) }
	if s.opts.Budget != nil {
		conn.calls.accounts = &s.tenants.accounts
		conn.calls.openAccount = func() *budget.Account { return s.opts.Budget.Answer(s.tenant, 1) }
	}
	defer conn.calls.removeAll()
	ss, err := s.sdk.Connect(withOrigin(ctx, origin{transport: transportStdio, session: session, connection: cmp.Or(connectionOf(ctx), events.NewSessionID()), identity: access.Anonymous()}), conn, nil)
	if err != nil {
		return fmt.Errorf("open the connection: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- ss.Wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		conn.end()
		err = <-done
	case <-s.serverCtx.Done():
		conn.end()
		err = <-done
	}
	if broken := conn.failure(); broken != nil {
		err = broken
	} else if err == nil || errors.Is(err, io.EOF) || errors.Is(err, errEnded) {
		return ctx.Err()
	}
	return fmt.Errorf("serve stdio: %w", err)
}
