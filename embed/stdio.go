package embed

import (
	"context"
	"errors"
	"io"
	"time"

	"daybook/events"
	"daybook/mcp"
)

// takeOverWait is how long the owner of a data directory may take to come up,
// or to go away: clients start several processes at once, and a process that
// ends drains first.
const takeOverWait = 30 * time.Second

// ServeStdio serves one MCP client over a pair of streams until in ends or ctx
// is done: with a Daybook of its own, or through the process that holds
// opts.DataDir. When that process ends, this one or another takes its place;
// the client notices at most that calls in progress are answered with an error.
// Nothing but JSON-RPC is written to out.
//
// A Read of in may still be waiting when ServeStdio returns; it takes at most
// one more message, which is lost, unless the caller closes in.
func ServeStdio(ctx context.Context, opts Options, in io.Reader, out io.Writer) error {
	// The connection is the client's, whichever process serves it.
	ctx = mcp.WithConnection(ctx, events.NewSessionID())
	relay := mcp.NewRelay(in, out)
	defer relay.Close()
	for deadline := time.Now().Add(takeOverWait); ; {
		book, err := Start(ctx, opts)
		switch {
		case err == nil:
			err := relay.Serve(ctx, book.ServeMCP)
			if ctx.Err() != nil {
				err = nil // a proper way to end it
			}
			return errors.Join(err, book.Close())
		case !errors.Is(err, ErrLocked):
			return err
		}
		locked := err
		err = relay.Serve(ctx, func(ctx context.Context, in io.Reader, out io.Writer) error {
			return AttachMCP(ctx, opts.DataDir, opts.SessionID, in, out)
		})
		switch {
		case relay.Left():
			return err
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrOwnerEnded):
			deadline = time.Now().Add(takeOverWait)
		case !errors.Is(err, ErrNotServing):
			return err
		case time.Now().After(deadline):
			return locked
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}
