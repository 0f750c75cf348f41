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

// maxPayload bounds one message, in bytes. Events stay below 512 KiB, and the chunks of
// blobs have up to 512 KiB.
const maxPayload = 8 << 20

// ownConnections exceeds the number of connections of the service itself, which
// nats-server counts together with those of subscribers.
const ownConnections = 32 + maxGates

// maxGates is the maximum number of subscribers. Each has a gate, a consumerProxy with a
// connection of its own. Package natscreds enforces the limit: it is that of active
// credentials.
const maxGates = 100

// readyTimeout bounds the time for which launch waits until a started nats-server accepts
// connections. The recovery of the streams comes before or after this wait and has no limit.
const readyTimeout = 10 * time.Minute

// Options configure a Server.
type Options struct {
	// StoreDir is the directory of the streams. Start creates it if it does not exist.
	StoreDir string
	// Listen is the "host:port" on loopback that subscribers connect to. Default: none;
	// only this process can connect. With Fallback, a free port replaces a busy one.
	Listen   string
	Fallback bool
	// MaxConnections is the maximum number of connections of subscribers. Default: 1024. The
	// service's own connections count against the same limit of nats-server, to which
	// ownConnections is added for them. Subscribers can take what the service does not use.
	MaxConnections int
	// ReadableStreams are exposed to subscribers from the start; see ExposeStream. If
	// there are any, the permissions of Conn are limited: its connections cannot purge
	// these streams, and of no stream can they delete a message, change the configuration,
	// or delete the stream. Connections of AdminConn can seal and remove streams.
	ReadableStreams []string
	// ProtectedStreams are other streams that connections of Conn cannot purge, if their
	// permissions are limited.
	ProtectedStreams []string
	// TenantSubjects returns a pattern for the subjects of a tenant in an exposed stream,
	// such as "ledger.0001.default.>". Required with Listen.
	TenantSubjects func(stream, tenant string) string
	// NoSync acknowledges messages before they are on disk. For tests only.
	NoSync bool
	// Logger receives the log of the server. The server reports damaged files that it finds
	// only there.
	// Default: slog.Default().
	Logger *slog.Logger
}

// Server is a running NATS server. The caller MUST call Close. It is safe for
// concurrent use.
type Server struct {
	opts    Options
	current atomic.Pointer[server.Server] // replaced by Reopen
	service string                        // password of serviceUser, adminUser and the users of gates; random
	// subscribers, view and gates are nil without a listener. gates is the connection of
	// the gates to the ledger.
	subscribers *subscribers
	view        *ledgerView
	gates       *nats.Conn
	dir         string
	log         *slog.Logger
	writes      atomic.Pointer[writes]

	reopening sync.Mutex
	addr      string // address for subscribers, or empty; set by Start
}

// Start starts a server and returns when it accepts connections. It refuses an address as
// CheckListen does. The caller MUST close the Server.
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
		s.view = &ledgerView{subjects: opts.TenantSubjects, streams: slices.Clone(opts.ReadableStreams)}
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
	own, err := s.connect("gate of subscriber "+who.ID, gateUser+who.accountName())
	if err != nil {
		return nil, err
	}
	return newGate(who, s.view, s.gates, own)
}

// ExposeStream lets subscribers read a stream. It is idempotent.
func (s *Server) ExposeStream(stream string) error {
	if s.view != nil {
		s.view.add(stream)
	}
	return nil
}

// enableStreams enables JetStream for the account of the ledger and recovers its
// streams.
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

// CheckListen returns the error that Start would return for an address: it is not host:port,
// other machines can reach it, this process cannot listen on it, or it is busy and fallback
// is not set.
func CheckListen(addr string, fallback bool) error {
	return listenOn(&server.Options{}, addr, fallback)
}

// listenOn sets the address in cfg. It sets a random port if the port of addr is 0, or is
// busy and fallback is set.
func listenOn(cfg *server.Options, addr string, fallback bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("NATS address %q: %w; give it as host:port", addr, err)
	}
	if !isLoopback(host) {
		if host == "" {
			host = "every interface"
		}
		return fmt.Errorf("NATS address %q: binding to %s lets other machines reach it, and events would cross the network unencrypted; "+
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

// isLoopback reports whether a host can be reached only from this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Conn opens a connection inside the process for the service itself. The caller MUST
// close it.
func (s *Server) Conn(name string) (*nats.Conn, error) { return s.connect(name, serviceUser) }

// AdminConn opens a connection inside the process to seal and remove streams. The server
// permits it to change, delete and describe streams, and nothing else. The caller MUST close
// it once that is done.
func (s *Server) AdminConn(name string) (*nats.Conn, error) { return s.connect(name, adminUser) }

// connectAttempts bounds the tries to connect. The server sends a client a PING a few
// seconds after it connects. If the machine stalls for so long, the client may still wait
// for its first PONG. It accepts nothing else there, and the try fails.
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

// syncQueueLen is the maximum number of messages that the client holds for a
// subscription that is read message by message. A runner has one such subscription for
// each tenant that submitted a run within the last minute, and never fetches more than 129
// messages at once. The default of the client, 65,536, would take 512 KiB for each
// subscription.
const syncQueueLen = 1024

func (s *Server) tryConnect(name, user string) (*nats.Conn, error) {
	return nats.Connect("",
		nats.InProcessServer(inProcess{s}),
		nats.Name(name),
		nats.UserInfo(user, s.service),
		// A machine under load may need more than the default of 2 s.
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
				level = slog.LevelDebug // a subscriber that floods its gate cannot fill the log
			}
			s.log.Log(context.Background(), level, "nats connection", slog.String("connection", name), slog.String("subject", subject), slog.Any("error", err))
		}))
}

// Addr returns the address that subscribers connect to, or "".
func (s *Server) Addr() string {
	if addr, ok := s.nats().Addr().(*net.TCPAddr); ok && addr != nil {
		return addr.String()
	}
	return ""
}

// Sync syncs the file system of the streams and waits for it. The server writes the
// configuration of a stream or consumer without waiting for the disk: call Sync after
// creating one.
func (s *Server) Sync() error {
	if err := durable.SyncFileSystem(s.dir); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", s.dir, err)
	}
	return nil
}

// Close stops the server and returns once its files are closed. It may be called more
// than once.
func (s *Server) Close() {
	s.subscribers.close()
	if s.gates != nil {
		s.gates.Close()
	}
	s.reopening.Lock()
	defer s.reopening.Unlock()
	s.stop()
}
