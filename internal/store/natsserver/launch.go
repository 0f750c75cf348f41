package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"daybook/internal/store/streamfiles"
)

// writes holds whether a nats-server can write: ctx is done once a write failed.
type writes struct {
	ctx  context.Context //nolint:containedctx // it is a state, not a call's
	fail context.CancelCauseFunc
}

func newWrites() *writes {
	ctx, fail := context.WithCancelCause(context.Background())
	return &writes{ctx, fail}
}

// Writable returns a context that is done when a write to the disk has failed, with the
// reason as its cause. The server then stores nothing more and leaves publishers
// without an answer, even if space becomes free. Stored messages can be read. After
// Reopen there is a new context.
func (s *Server) Writable() context.Context { return s.writes.Load().ctx }

// launch starts a nats-server on the files and returns when it accepts connections.
func (s *Server) launch(ctx context.Context, opts Options) error {
	cfg := &server.Options{
		ServerName:         "daybook",
		DontListen:         opts.Listen == "",
		JetStream:          true,
		StoreDir:           opts.StoreDir,
		SyncAlways:         !opts.NoSync,
		JetStreamMaxStore:  1 << 50, // only the disk limits the size
		JetStreamMaxMemory: 64 << 20,
		// Each tenant has a consumer of the active volume. The gates bound the consumers of
		// subscribers. The default of the server is 1,000 for each stream.
		JetStreamLimits:        server.JSLimitOpts{DefaultMaxConsumers: -1},
		MaxPayload:             maxPayload,
		MaxConn:                cmp.Or(opts.MaxConnections, 1024) + ownConnections,
		NoSigs:                 true, // the program handles signals
		DisableJetStreamBanner: true,
	}
	cfg.CustomClientAuthentication = &doorkeeper{password: s.service, service: servicePermissions(opts.ReadableStreams, opts.ProtectedStreams), admin: adminPermissions(), subscribers: s.subscribers}
	cfg.AlwaysEnableNonce = s.subscribers != nil // subscribers sign it
	if opts.Listen != "" {
		if err := listenOn(cfg, opts.Listen, opts.Fallback); err != nil {
			return err
		}
	}
	// The index of a stream may count a message for which the disk had no space.
	dropped, err := streamfiles.DropFailedWrites(opts.StoreDir)
	if err != nil {
		return err
	}
	for _, stream := range dropped {
		opts.Logger.InfoContext(ctx, "the index of a stream counted a message that was never stored; the server rebuilds it from the messages", "stream", stream)
	}
	ns, err := server.NewServer(cfg)
	if err != nil {
		return fmt.Errorf("configure nats-server: %w", err)
	}
	if s.subscribers != nil {
		if err := s.subscribers.attach(ns); err != nil {
			return err
		}
	}
	w := newWrites()
	logged := &logger{log: opts.Logger, unwritable: w.fail}
	ns.SetLoggerV2(logged, false, false, false)
	ns.Start()
	s.current.Store(ns)
	s.writes.Store(w)
	for deadline := time.Now().Add(readyTimeout); !ns.ReadyForConnections(100 * time.Millisecond); {
		if ctx.Err() != nil || time.Now().After(deadline) || logged.fatal.Load() != nil || !ns.Running() {
			s.stop()
			return errors.Join(fmt.Errorf("the embedded NATS server did not start: %s", logged.startFailure()), ctx.Err())
		}
	}
	if opts.Listen == "" {
		return nil
	}
	// With several accounts, the server does not enable JetStream for any of them.
	if err := s.enableStreams(); err != nil {
		s.stop()
		return err
	}
	return nil
}

// Reopen stops the nats-server and starts another one on the same files, which accepts
// writes again. Connections inside the process and of subscribers are interrupted and
// reconnect automatically; pending requests are lost. After an error there is no
// server, and the context of Writable has the earlier cause; the caller calls Reopen
// again.
func (s *Server) Reopen(ctx context.Context) error {
	s.reopening.Lock()
	defer s.reopening.Unlock()
	opts := s.opts
	if s.addr != "" {
		opts.Listen, opts.Fallback = s.addr, false // subscribers know this address
	}
	failed := context.Cause(s.Writable())
	s.stop()
	if err := s.launch(ctx, opts); err != nil {
		w := newWrites() // the state of a server that did not start has no meaning
		w.fail(cmp.Or(failed, err))
		s.writes.Store(w)
		return fmt.Errorf("open the streams again: %w", err)
	}
	return nil
}

func (s *Server) nats() *server.Server { return s.current.Load() }

// stop stops the nats-server and returns once its files are closed.
func (s *Server) stop() {
	if ns := s.nats(); ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

// inProcess connects to the current nats-server.
type inProcess struct{ s *Server }

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) { return p.s.nats().InProcessConn() }
