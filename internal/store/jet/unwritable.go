package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

// Unwritable is why the server can store nothing now, as *events.UnwritableError, or
// nil.
func (c *Client) Unwritable() error { return cmp.Or(c.unwritableHere(), c.full.err()) }

// unwritableHere is why nothing is sent to be stored, or nil.
func (c *Client) unwritableHere() error {
	if c.Options.ReadOnly != nil {
		if err := c.Options.ReadOnly(); err != nil {
			return err
		}
	}
	if c.Options.Writable == nil {
		return nil
	}
	return unwritable(c.Options.Writable())
}

// unwritable is why a server whose writes ended can store nothing, or nil.
func unwritable(writable context.Context) error {
	if writable.Err() == nil {
		return nil
	}
	reason, passes := whyUnwritable(context.Cause(writable))
	return &events.UnwritableError{What: "the ledger", Reason: reason, Passes: passes}
}

// Publish sends one message and waits until it is stored. An embedded server that cannot
// store it gives no answer, so it is not waited for once that is known.
func (c *Client) Publish(ctx context.Context, m *nats.Msg) (*natsjs.PubAck, error) {
	refusal := c.Unwritable
	if ctx.Value(tryingKey{}) != nil {
		refusal = c.unwritableHere
	}
	if err := refusal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Options.TryWait)
	defer cancel()
	writable := context.Background()
	if c.Options.Writable != nil {
		writable = c.Options.Writable() // the one of now: another one may follow
		defer context.AfterFunc(writable, cancel)()
	}
	// What is sent to a server that hangs fills the connection, and locks it.
	if err := c.silence.awaitAnswers(ctx); err != nil {
		return nil, cmp.Or(unwritable(writable), c.Unwritable(), err)
	}
	if c.Options.Writing != nil {
		c.Options.Writing(len(m.Data))
	}
	ack, err := c.JS.PublishMsg(ctx, m)
	if err == nil {
		if c.Options.OnStored != nil {
			c.Options.OnStored(ack.Stream, ack.Sequence)
		}
		return ack, nil
	}
	if full := c.noteFull(err, len(m.Data)); full != nil {
		return nil, full
	}
	return nil, cmp.Or(unwritable(writable), c.Unwritable(), err)
}

// whyUnwritable puts an error that names files and calls into what an operator
// can act upon. It reports whether the server takes writes again by itself.
func whyUnwritable(err error) (reason string, passes bool) {
	r, passes := exhausted.Of(err)
	if !passes {
		r, passes = exhausted.In(err.Error())
	}
	if passes {
		return r.Reason + "; the server then takes writes again by itself, and what was acknowledged is safe", true
	}
	const restart = ", then restart the server; what was acknowledged is safe"
	for _, known := range []struct {
		errno syscall.Errno
		text  string
	}{
		{syscall.EROFS, "the file system is read-only; make it writable"},
		{syscall.EACCES, "writing is not permitted in the data directory; permit it"},
		{syscall.EIO, "the disk reports input/output errors; see to it"},
	} {
		if errors.Is(err, known.errno) {
			return known.text + restart, false
		}
	}
	return fmt.Sprintf("its storage failed (%v); see to it", err) + restart, false
}

// Writable returns a context that ends when a write of the server fails.
func (c *Client) Writable() context.Context {
	if c.Options.Writable == nil {
		return context.Background()
	}
	return c.Options.Writable()
}

// Unsure is why the answers of the server are not relied upon that came after a call of
// Writable, which returned since, or nil: until its files are opened again the server
// counts, and may return, a message whose write failed.
func (c *Client) Unsure(since context.Context) error {
	return cmp.Or(unwritable(since), unwritable(c.Writable()))
}
