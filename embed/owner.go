package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"

	"daybook/acp"
	"daybook/httpapi"
	"daybook/internal/owner"
	"daybook/internal/web/access"
	"daybook/mcp"
)

// newOwner returns the end of the socket of the data directory for its clients.
func (d *Daybook) newOwner() *owner.Server {
	return owner.NewServer(owner.Options{
		Background: d.opts.Owner.Background, IdleExit: d.opts.Owner.IdleExit,
		Version: d.opts.Version, Settings: d.opts.Owner.Settings, Logger: d.opts.Logger,
		Serve: d.serveClient, Detached: acp.ErrDetached,
		Pace: d.opts.linkPace(), HoldLine: d.holdLine,
	})
}

// serveClient serves a client on the socket.
func (d *Daybook) serveClient(ctx context.Context, h owner.Hello, in io.Reader, out io.Writer) error {
	if h.Protocol == owner.ProtocolACP {
		return d.acp.Serve(ctx, in, out)
	}
	return d.mcp.ServeStdio(mcp.WithConnection(ctx, h.Connection), in, out, h.Session)
}

// listenSocket serves other processes of this user.
func (d *Daybook) listenSocket() error {
	l, err := owner.Listen(d.opts.DataDir)
	if err != nil {
		return err
	}
	d.socket = httpapi.NewServer("", d.owner.Handler(withLocalIdentity(d.handler)))
	d.socketConns.Bind(d.socket)
	d.socketRequests = bindRequests(d.socket)
	d.socket.ErrorLog = slog.NewLogLogger(d.opts.Logger.Handler(), slog.LevelDebug)
	go func() {
		if err := d.socket.Serve(d.socketConns.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			d.fail(fmt.Errorf("serve %s: %w", filepath.Join(d.opts.DataDir, owner.SocketName), err))
		}
	}()
	return nil
}

// withLocalIdentity gives requests without a token the identity of the local operator:
// the default tenant with every scope, as for clients on stdin and stdout. A user who
// can open the socket can also read the data directory. A request with a token has the
// identity of the token.
func withLocalIdentity(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(access.With(r.Context(), access.Anonymous()))
		r.RemoteAddr = "" // a Unix socket has no remote address
		next.ServeHTTP(w, r)
	})
}

// Clients returns the number of clients that are attached through the socket of the
// data directory.
func (d *Daybook) Clients() int { return d.owner.Clients() }

// Released returns a channel that is closed if a Daybook with Options.Owner.Background is to
// be closed: another process requests the data directory, or the Daybook is idle. The
// program MUST then call Close.
func (d *Daybook) Released() <-chan struct{} { return d.owner.Released() }

// ReleaseReason returns the reason why Released is closed, or an empty string.
func (d *Daybook) ReleaseReason() string { return d.owner.ReleaseReason() }

// watchUse releases a background owner that is idle.
func (d *Daybook) watchUse(ctx context.Context) error {
	d.watchingUse = startTask(ctx, func(ctx context.Context) { d.owner.WatchUse(ctx, d.hasRuns) })
	return nil
}

// hasRuns reports whether a run of any tenant is running or queued. An error counts as
// a run.
func (d *Daybook) hasRuns(ctx context.Context) bool {
	if d.runner == nil {
		return false // the ledger is damaged: no run starts here
	}
	if d.runner.Stats().InFlight > 0 {
		return true
	}
	n, err := d.projections.UnfinishedRuns(ctx)
	return err != nil || n > 0
}
