// Package natsserver runs the NATS server that is embedded in a Daybook: in
// process for the ledger, and on a socket for those who subscribe to it.
//
// It knows nothing of streams or events; package jetstream makes those over
// the connections handed out here.
package natsserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"daybook/internal/durable"
)

// maxPayload bounds one message, in bytes. Events stay below 512 KiB; blobs
// come in chunks of 128 KiB.
const maxPayload = 8 << 20

// ownConnections is more than the service itself opens: nats-server counts those
// with the subscribers'.
const ownConnections = 32 + maxGates

// maxGates is how many subscribers there may be, each of which has a gate. The list of
// credentials has the same limit.
const maxGates = 100

// recovery bounds how long a start may take to read the streams back.
const recovery = 10 * time.Minute

// Options set up a Server.
type Options struct {
	// StoreDir holds the streams.
	StoreDir string
	// Listen is the "host:port" that subscribers connect to, on loopback; empty
	// serves this process only. With Fallback a busy port is replaced by a free one.
	Listen   string
	Fallback bool
	// MaxConnections is how many subscribers may be connected. Default: 1024.
	MaxConnections int
	// ReadableStreams are offered to subscribers from the start (see Offer). With
	// any, the service itself cannot remove anything from a stream or change how it
	// is kept; a Keeper can.
	ReadableStreams []string
	// TenantSubjects returns the subjects of a tenant in an offered stream, such as
	// "ledger.0001.default.>". Needed with Listen.
	TenantSubjects func(stream, tenant string) string
	// NoSync acknowledges messages before they are on disk. Only for tests.
	NoSync bool
	// Logger receives the server's log: news of damaged files comes nowhere
	// else. Default slog.Default.
	Logger *slog.Logger
}

// Server is a running NATS server. Close ends it.
type Server struct {
	opts    Options
	current atomic.Pointer[server.Server] // replaced by Reopen
	service string                        // password of the service's own users
	// subscribers and book are nil without a listener. gates is the connection of
	// the gates to the ledger.
	subscribers *subscribers
	book        *ledgerView
	gates       *nats.Conn
	dir         string
	log         *slog.Logger
	writes      atomic.Pointer[writes]

	reopening sync.Mutex
	addr      string // where subscribers connect, or empty; set by Start
}

// Start runs a server and returns once it takes connections. A busy address
// without Fallback is an error.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Server{
		opts:    opts,
		service: rand.Text(),
		dir:     opts.StoreDir,
		log:     opts.Logger,
	}
	if opts.Listen != "" {
		s.book = &ledgerView{subjects: opts.TenantSubjects, streams: slices.Clone(opts.ReadableStreams)}
		s.subscribers = newSubscribers(opts.Logger, s.openGate)
	}
	if err := os.MkdirAll(opts.StoreDir, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", opts.StoreDir, err)
	}
	if err := s.launch(ctx, opts); err != nil {
		s.subscribers.close()
		return nil, err
	}
	s.addr = s.Addr()
	if opts.Listen != "" {
		var err error
		if s.gates, err = s.connect("gates to the ledger", serviceUser); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// openGate opens the gate of a subscriber.
func (s *Server) openGate(who Subscriber) (*consumerProxy, error) {
	own, err := s.connect("gate of subscriber "+who.ID, gateUser+who.place())
	if err != nil {
		return nil, err
	}
	return newGate(who, s.book, s.gates, own)
}

// SetSubscribers replaces the subscribers that may connect. It returns once the
// connections of those that are not in the list, or have another key there, are
// closed. After an error some that are new in the list may not connect: call it again.
// Without a listener it does nothing.
func (s *Server) SetSubscribers(list []Subscriber) error {
	if s.subscribers == nil {
		return nil
	}
	s.reopening.Lock()
	defer s.reopening.Unlock()
	return s.subscribers.set(list)
}

// ExposeStream lets subscribers read a stream from now on. Offering it again does nothing.
func (s *Server) ExposeStream(stream string) error {
	if s.book != nil {
		s.book.add(stream)
	}
	return nil
}

// enableStreams lets the ledger's account keep streams, and reads back those it
// has.
func (s *Server) enableStreams() error {
	tasks := make(chan func())
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for task := range tasks {
				task()
			}
		})
	}
	err := s.nats().GlobalAccount().EnableJetStream(nil, tasks)
	close(tasks)
	workers.Wait()
	if err != nil {
		return fmt.Errorf("recover the streams: %w", err)
	}
	return nil
}

// CheckListen returns the error that Start would return for an address: one that
// other machines reach, or one that is busy without a fallback.
func CheckListen(addr string, fallback bool) error {
	return listenOn(&server.Options{}, addr, fallback)
}

// listenOn points the configuration at an address that is free now.
func listenOn(cfg *server.Options, addr string, fallback bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("NATS address %q: %w; it has the form host:port", addr, err)
	}
	if !loopback(host) {
		if host == "" {
			host = "every interface"
		}
		return fmt.Errorf("NATS address %q: binding to %s lets other machines reach it, and events would cross the network in the clear; "+
			"bind to 127.0.0.1, and put an encrypting proxy or tunnel in front to reach it from elsewhere", addr, host)
	}
	cfg.Host = host
	if cfg.Port, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("NATS address %q: %q is not a port", addr, port)
	}
	probe, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		probe.Close()
		if cfg.Port == 0 {
			cfg.Port = server.RANDOM_PORT
		}
		return nil
	case fallback && errors.Is(err, unix.EADDRINUSE):
		cfg.Port = server.RANDOM_PORT
		return nil
	default:
		return fmt.Errorf("listen for NATS clients: %w; choose another --nats-addr", err)
	}
}

// loopback reports whether a host names this machine only.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Conn opens a connection inside the process, as the service itself. The
// caller closes it.
func (s *Server) Conn(name string) (*nats.Conn, error) { return s.connect(name, serviceUser) }

// AdminConn opens a connection inside the process that may seal and remove streams,
// and nothing else. The caller closes it, soon.
func (s *Server) AdminConn(name string) (*nats.Conn, error) { return s.connect(name, keeperUser) }

// connectAttempts is how often a connection is tried. The server pings a client some
// seconds after it connects, and a client that still waits for its first answer
// takes that for a wrong one: it happens on a machine that stands still so long.
const connectAttempts = 5

func (s *Server) connect(name, user string) (nc *nats.Conn, err error) {
	for range connectAttempts {
		if nc, err = s.tryConnect(name, user); err == nil || errors.Is(err, nats.ErrAuthorization) || !s.nats().Running() {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// syncQueueLen is how many messages the client holds of a subscription that is read one
// by one, at most. A runner has one subscription for each tenant that asked for a run in
// the last minute, and never asks for more than 129 messages at once. The client's
// default of 65,536 takes 512 KiB for each of them.
const syncQueueLen = 1024

func (s *Server) tryConnect(name, user string) (*nats.Conn, error) {
	return nats.Connect("",
		nats.InProcessServer(inProcess{s}),
		nats.Name(name),
		nats.UserInfo(user, s.service),
		// A loaded machine may take longer than the client's default of 2 s.
		nats.Timeout(10*time.Second),
		nats.SyncQueueLen(syncQueueLen),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			level := slog.LevelWarn
			if strings.HasPrefix(user, gateUser) && errors.Is(err, nats.ErrSlowConsumer) {
				level = slog.LevelDebug // a subscriber that floods its gate must not fill the log
			}
			s.log.Log(context.Background(), level, "nats connection", slog.String("connection", name), slog.String("subject", subject), slog.Any("error", err))
		}))
}

// Addr is the address subscribers connect to, or empty.
func (s *Server) Addr() string {
	if addr, ok := s.nats().Addr().(*net.TCPAddr); ok && addr != nil {
		return addr.String()
	}
	return ""
}

// Sync waits until the descriptions of streams and consumers are on disk, which
// the server writes without waiting. Call it after making one.
func (s *Server) Sync() error {
	if err := durable.SyncFileSystem(s.dir); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", s.dir, err)
	}
	return nil
}

// Close stops the server and returns once its files are closed. It may be
// called more than once.
func (s *Server) Close() {
	s.subscribers.close()
	if s.gates != nil {
		s.gates.Close()
	}
	s.reopening.Lock()
	defer s.reopening.Unlock()
	s.stop()
}
