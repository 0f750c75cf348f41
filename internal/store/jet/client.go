package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Conn is a connection to a NATS server. Who makes one closes it.
type Conn = nats.Conn

// syncQueueLen is how many messages the client holds of a subscription that is read one
// by one, at most: more than a runner asks for at once for a tenant. The client's default
// takes 512 KiB for each tenant that asked for a run in the last minute.
const syncQueueLen = 1024

// writeTime is how long a write to an outside server may take. The connection is locked
// meanwhile, also for those who only want to know whether there is one, and made again
// afterwards.
const writeTime = 3 * time.Second

// Connect reaches an outside server or cluster; credentials are part of the
// URL.
func Connect(url, name string, log *slog.Logger) (*Conn, error) {
	return nats.Connect(url,
		nats.Name(name),
		nats.SyncQueueLen(syncQueueLen),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond),
		nats.FlusherTimeout(writeTime),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats connection", slog.String("connection", name), slog.Any("error", err))
		}))
}

// Options set up a Client. The zero value works.
type Options struct {
	// Replicas is the number of copies of a new stream or bucket; default 1. It
	// does not change existing ones.
	Replicas int
	// TryWait bounds one try of a request to the server; default 5 s.
	TryWait time.Duration
	// Server, if set, is the HOST:PORT of an outside server, for errors: requests then
	// fail with a *events.NoAnswerError when it does not answer.
	Server string
	// ReadExisting refuses to make what does not exist: the ledger is only to be read.
	ReadExisting bool
	// Sync, if set, is called after a stream or consumer was made: the server
	// writes their descriptions without waiting for the disk. An embedded
	// server's own Sync belongs here.
	Sync func() error
	// Writable, if set, returns a context that ends when the server can write no more,
	// with the reason as its cause: an embedded server leaves writes unanswered then.
	// Its own Writable belongs here.
	Writable func() context.Context
	// OnStored, if set, is told the stream and position of what this process stored,
	// each time before whoever stored it is.
	OnStored func(stream string, seq uint64)
	// Writing, if set, is called with the size of each message, in bytes, before it is
	// sent to be stored.
	Writing func(bytes int)
	// Starved, if set, is why the server cannot open its files now, or nil: it then
	// answers that there is nothing where it cannot read.
	Starved func() error
	// ReadOnly, if set, is why nothing may be stored now, or nil.
	ReadOnly func() error
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// Client is a client of a NATS server with JetStream, over connections that stay the
// caller's. It is safe for concurrent use.
type Client struct {
	Conn     *nats.Conn // appends, reads and blobs
	WorkConn *nats.Conn // work and cancel requests, which must not hold up acknowledgements
	JS       natsjs.JetStream
	WorkJS   natsjs.JetStream // JS over WorkConn
	Options  Options

	// warnings are those about what is tried again soon.
	warnings warnings
	silence  *silence // nil for an embedded server
	full     full
	usable   chan struct{} // closed by Ready
	probe    Probe         // set before usable is closed
}

// New makes a Client over connections; two, so that slow readers do not hold up
// acknowledgements.
func New(publish, consume *nats.Conn, opts Options) (*Client, error) {
	opts.Replicas = cmp.Or(opts.Replicas, 1)
	opts.TryWait = cmp.Or(opts.TryWait, 5*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	c := &Client{Conn: publish, WorkConn: consume, Options: opts, warnings: warnings{log: opts.Logger}, usable: make(chan struct{})}
	var err error
	if c.JS, err = natsjs.New(publish, natsjs.WithDefaultTimeout(opts.TryWait)); err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	if c.WorkJS, err = natsjs.New(consume, natsjs.WithDefaultTimeout(opts.TryWait)); err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	if opts.Server != "" {
		c.silence = newSilence(publish, opts.Server)
	}
	return c, nil
}

// Outside reports whether the server is an outside one.
func (c *Client) Outside() bool { return c.silence != nil }

// StreamInfo reads how a stream is set up, and its state.
func (c *Client) StreamInfo(ctx context.Context, name string) (_ *natsjs.StreamInfo, err error) {
	ctx, asked := c.BoundRequest(ctx)
	defer func() { asked(&err) }()
	stream, err := c.JS.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the state of stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// Sync waits until the new streams and consumers are on the server's disk.
func (c *Client) Sync() error {
	if c.Options.Sync == nil {
		return nil
	}
	if err := c.Options.Sync(); err != nil {
		return fmt.Errorf("sync the new streams to disk: %w", err)
	}
	return nil
}

// Starved is why the server may not find what it has, or nil.
func (c *Client) Starved() error {
	if c.Options.Starved == nil {
		return nil
	}
	return c.Options.Starved()
}

// Health is why the server cannot be relied upon now, or nil.
func (c *Client) Health() error {
	if err := c.Unwritable(); err != nil {
		return err
	}
	if err := c.Silent(); err != nil {
		return err
	}
	if !c.Conn.IsConnected() || !c.WorkConn.IsConnected() {
		if c.Options.Server != "" {
			return &events.NoAnswerError{Server: c.Options.Server, Unreachable: true}
		}
		return errors.New("not connected to NATS")
	}
	return nil
}

// Warn logs a warning about what is tried again soon, unless an equal one was logged
// within the last minute.
func (c *Client) Warn(ctx context.Context, message string, err error, attrs ...any) {
	c.warnings.warn(ctx, message, err, attrs...)
}

// CheckTokens refuses what would be more or less than one token of a subject:
// such a name could reach what belongs to others.
func CheckTokens(tokens ...string) error {
	for _, t := range tokens {
		if t == "" || strings.ContainsAny(t, ".*> \t\r\n\x00") {
			return fmt.Errorf("%q cannot be part of a subject", t)
		}
	}
	return nil
}

// Wait pauses, or returns why not.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
