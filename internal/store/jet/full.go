package jet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Error codes for a message that the server does not store because a storage limit is
// reached.
const (
	codeAccountFull natsjs.ErrorCode = 10002 // limits of the account
	codeServerFull  natsjs.ErrorCode = 10023 // max_file_store of the server
	codeStorageFull natsjs.ErrorCode = 10047
	codeNotStored   natsjs.ErrorCode = 10077 // any reason of the stream; the text names it
)

const (
	// fullInterval is the interval at which a full server is tried again.
	fullInterval = time.Second
	// fullSpare is the space in bytes that an account or a stream must have, besides that
	// of the refused message, before writes are tried again.
	fullSpare = 64 << 10
)

// full records whether the server refuses messages because a storage limit is reached.
// The zero value stands for a server that accepts messages.
type full struct {
	mu   sync.Mutex
	why  *events.UnwritableError // guarded by mu; nil if the server accepts messages
	need uint64                  // guarded by mu; size in bytes of the largest refused message
}

// storageLimitReason returns the reason if err is the answer of a server that has reached a storage
// limit, or "".
func storageLimitReason(err error) string {
	ae, ok := errors.AsType[*natsjs.APIError](err)
	if !ok {
		return ""
	}
	var what string
	switch ae.ErrorCode {
	case codeAccountFull:
		what = "the account has reached its storage limit"
	case codeServerFull, codeStorageFull:
		what = "it has reached its storage limit (max_file_store)"
	case codeNotStored:
		if !strings.Contains(ae.Description, "maximum bytes") && !strings.Contains(ae.Description, "maximum messages exceeded") {
			return ""
		}
		what = "a stream has reached its limit"
	default:
		return ""
	}
	return fmt.Sprintf("%s (%s, code %d); free some space there or raise the limit", what, ae.Description, ae.ErrorCode)
}

// err returns an *events.UnwritableError while the server refuses messages, or nil.
func (f *full) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		return nil
	}
	return f.why
}

// recordFull returns an *events.UnwritableError if err is the answer of a full server, or
// nil. Publish then refuses messages until the server accepts writes again.
func (c *Client) recordFull(err error, size int) error {
	reason := storageLimitReason(err)
	if reason == "" {
		return nil
	}
	server := "the NATS server"
	if c.Options.Server != "" {
		server += " at " + c.Options.Server
	}
	why := &events.UnwritableError{
		What:   "the ledger",
		Reason: server + " refuses to store more: " + reason + "; the server then takes writes again automatically, and what was acknowledged is safe",
		Passes: true,
	}
	c.full.mu.Lock()
	defer c.full.mu.Unlock()
	if c.full.why == nil {
		c.full.need = 0
		c.Options.Logger.Warn("the ledger takes no writes", slog.Any("err", why))
		go c.awaitSpace()
	}
	c.full.why, c.full.need = why, max(c.full.need, uint64(size))
	return why
}

// awaitSpace tries a full server at intervals until it accepts writes or the connection
// is closed.
func (c *Client) awaitSpace() {
	closed := c.Conn.StatusChanged(nats.CLOSED)
	defer c.Conn.RemoveStatusListener(closed)
	pause := time.NewTimer(fullInterval)
	defer pause.Stop()
	select {
	case <-c.usable:
	case <-closed:
		return
	}
	for {
		select {
		case <-pause.C:
		case <-closed:
			return
		}
		if c.Conn.IsClosed() {
			return
		}
		err := c.tryWrite()
		if err == nil {
			break
		}
		c.Options.Logger.Debug("the ledger takes no writes", slog.Any("err", err))
		pause.Reset(fullInterval)
	}
	c.full.mu.Lock()
	c.full.why = nil
	c.full.mu.Unlock()
	c.Options.Logger.Warn("the ledger takes writes again")
}

// tryingKey is the context key of a write that checks whether the server is still full.
type tryingKey struct{}

// Probe is how a Client tries a full server.
type Probe interface {
	// Streams returns the names of the streams that messages are stored in.
	Streams() []string
	// Rewrite stores an existing message again, unchanged.
	Rewrite(ctx context.Context) error
}

// Ready sets the Probe for a full server. The caller MUST call it once.
func (c *Client) Ready(p Probe) {
	c.probe = p
	close(c.usable)
}

// tryWrite returns nil if the server accepts writes. It stores an existing message
// again, because the server checks its limits only for messages that it would store.
func (c *Client) tryWrite() error {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), tryingKey{}, true), c.Options.TryWait)
	defer cancel()
	if err := c.Silent(); err != nil {
		return err
	}
	if err := c.lacksSpace(ctx); err != nil {
		return err
	}
	return c.probe.Rewrite(ctx)
}

// lacksSpace returns an error if the limits of the account or of a stream leave too
// little space for the refused message; a smaller one may fit. It ignores limits that
// it cannot read: the next message shows them.
func (c *Client) lacksSpace(ctx context.Context) error {
	c.full.mu.Lock()
	need := c.full.need + fullSpare
	c.full.mu.Unlock()
	if account, err := c.JS.AccountInfo(ctx); err == nil {
		replicas, tier := uint64(max(c.Options.Replicas, 1)), account.Tier
		if tiered, ok := account.Tiers[fmt.Sprintf("R%d", replicas)]; ok {
			tier = tiered
		}
		// The limit is 0 if the tiers have limits of their own.
		if limit := tier.Limits.MaxStore; limit > 0 && tier.Store+need*replicas > uint64(limit) {
			return fmt.Errorf("the account has %d of %d bytes", tier.Store, limit)
		}
	}
	for _, stream := range c.probe.Streams() {
		info, err := c.StreamInfo(ctx, stream)
		if err != nil {
			continue
		}
		if limit := info.Config.MaxBytes; limit > 0 && info.State.Bytes+need > uint64(limit) {
			return fmt.Errorf("stream %s has %d of %d bytes", stream, info.State.Bytes, limit)
		}
		if limit := info.Config.MaxMsgs; limit > 0 && info.State.Msgs >= uint64(limit) {
			return fmt.Errorf("stream %s has %d of %d messages", stream, info.State.Msgs, limit)
		}
	}
	return nil
}
