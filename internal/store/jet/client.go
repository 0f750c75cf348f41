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

// Conn is a connection to a NATS server. The caller that opens it MUST close it.
type Conn = nats.Conn

// syncQueueLen is the maximum number of messages that the client holds for a
// subscription that is read message by message. It exceeds the number of messages that
// a runner fetches at once for a tenant. The default of the client would take 512 KiB for each
// tenant that submitted a run within the last minute.
const syncQueueLen = 1024

// writeTimeout bounds a write to an outside server. Meanwhile the connection is locked,
// also for callers that only ask for its state. After it the client reconnects.
const writeTimeout = 3 * time.Second

// Connect connects to an outside server or cluster. Credentials are part of url. The
// caller MUST close the connection.
func Connect(url, name string, log *slog.Logger) (*Conn, error) {
	return nats.Connect(url,
		nats.Name(name),
		nats.SyncQueueLen(syncQueueLen),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200*time.Millisecond),
		nats.FlusherTimeout(writeTimeout),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("nats connection", slog.String("connection", name), slog.Any("error", err))
		}))
}

// Options configure a Client. The zero value works.
type Options struct {
	// Replicas is the number of replicas of a new stream or bucket. Existing ones keep
	// theirs. Default: 1.
	Replicas int
	// TryWait bounds one try of a request to the server. Default: 5 s.
	TryWait time.Duration
	// Server, if set, is the HOST:PORT of an outside server, for errors. Requests then
	// fail with *events.NoAnswerError if the server does not answer.
	Server string
	// ReadExisting prevents the creation of streams and buckets: the ledger is only read.
	ReadExisting bool
	// Sync, if set, is called after a stream or consumer was created, because the server
	// writes their configurations without waiting for the disk. For an embedded server,
	// set Sync of natsserver.Server.
	Sync func() error
	// Writable, if set, returns a context that is done when the server can write no more,
	// with the reason as its cause; an embedded server does not answer such writes. For
	// an embedded server, set Writable of natsserver.Server.
	Writable func() context.Context
	// OnStored, if set, is called with the stream and the position of each message that
	// this process stored, before Publish returns.
	OnStored func(stream string, seq uint64)
	// OnWrite, if set, is called with the size of each message in bytes before it is sent
	// to be stored.
	OnWrite func(bytes int)
	// Starved, if set, returns an error while the server cannot open its files. The
	// server then reports messages that it cannot read as missing.
	Starved func() error
	// ReadOnly, if set, returns the reason why nothing may be stored now, or nil.
	ReadOnly func() error
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// Client is a client of a NATS server with JetStream. It does not own its connections.
// It is safe for concurrent use.
type Client struct {
	Conn     *nats.Conn // appends, reads and blobs
	WorkConn *nats.Conn // requests of runners and cancel requests, which must not delay acknowledgements
	JS       natsjs.JetStream
	WorkJS   natsjs.JetStream // JS over WorkConn
	Options  Options

	// warnings limits the warnings about operations that are tried again soon.
	warnings warnings
	silence  *silenceDetector // nil for an embedded server
	full     full
	usable   chan struct{} // closed by Ready
	probe    Probe         // set before usable is closed
}

// New returns a Client over two connections, so that slow readers on consume do not
// delay acknowledgements on publish. The caller keeps ownership of both.
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

// Publish sends one message and waits until it is stored. An embedded server that
// cannot store it does not answer; Publish then returns an *events.UnwritableError once
// that is known.
func (c *Client) Publish(ctx context.Context, m *nats.Msg) (*natsjs.PubAck, error) {
	refusal := c.Unwritable
	if ctx.Value(tryingKey{}) != nil {
		refusal = c.localUnwritable
	}
	if err := refusal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Options.TryWait)
	defer cancel()
	writable := context.Background()
	if c.Options.Writable != nil {
		writable = c.Options.Writable() // of the current server, which may be replaced
		defer context.AfterFunc(writable, cancel)()
	}
	// Messages to a hanging server would fill the connection and lock it.
	if err := c.silence.awaitAnswers(ctx); err != nil {
		return nil, cmp.Or(unwritableError(writable), c.Unwritable(), err)
	}
	if c.Options.OnWrite != nil {
		c.Options.OnWrite(len(m.Data))
	}
	ack, err := c.JS.PublishMsg(ctx, m)
	if err == nil {
		if c.Options.OnStored != nil {
			c.Options.OnStored(ack.Stream, ack.Sequence)
		}
		return ack, nil
	}
	if full := c.recordFull(err, len(m.Data)); full != nil {
		return nil, full
	}
	return nil, cmp.Or(unwritableError(writable), c.Unwritable(), err)
}

// Outside reports whether the server runs outside this process.
func (c *Client) Outside() bool { return c.silence != nil }

// StreamInfo returns the configuration and the state of a stream.
func (c *Client) StreamInfo(ctx context.Context, name string) (_ *natsjs.StreamInfo, err error) {
	ctx, asked := c.BoundRequest(ctx)
	defer func() { asked(&err) }()
	stream, err := c.JS.Stream(ctx, name)
	if err != nil {
		if isOffline(err) {
			return nil, fmt.Errorf("read the state of stream %s: %w; restore the directory of the stream from a backup; if the error names a consumer, it is enough to delete the directory obs/NAME of that consumer, which is created again", name, err)
		}
		return nil, fmt.Errorf("read the state of stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// Sync waits until new streams and consumers are on the disk of the server.
func (c *Client) Sync() error {
	if c.Options.Sync == nil {
		return nil
	}
	if err := c.Options.Sync(); err != nil {
		return fmt.Errorf("sync the new streams to disk: %w", err)
	}
	return nil
}

// Starved returns an error if the server may fail to find existing messages.
func (c *Client) Starved() error {
	if c.Options.Starved == nil {
		return nil
	}
	return c.Options.Starved()
}

// Health returns an error if the server does not answer or cannot store.
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

// Warn logs a warning about an operation that is tried again soon, unless an equal one
// was logged within the last minute.
func (c *Client) Warn(ctx context.Context, message string, err error, attrs ...any) {
	c.warnings.warn(ctx, message, err, attrs...)
}

// CheckTokens returns an error unless each argument is exactly one token of a subject.
// Another name could match subjects of other tenants.
func CheckTokens(tokens ...string) error {
	for _, t := range tokens {
		if t == "" || strings.ContainsAny(t, ".*> \t\r\n\x00") {
			return fmt.Errorf("%q cannot be part of a subject", t)
		}
	}
	return nil
}

// Wait waits for d. It returns early with an error if ctx is done.
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
