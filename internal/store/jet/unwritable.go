package jet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

// Unwritable returns an *events.UnwritableError while the server can store nothing, or
// nil.
func (c *Client) Unwritable() error { return cmp.Or(c.localUnwritable(), c.full.err()) }

// localUnwritable returns the reason why this process sends no messages to be stored, or
// nil.
func (c *Client) localUnwritable() error {
	if c.Options.ReadOnly != nil {
		if err := c.Options.ReadOnly(); err != nil {
			return err
		}
	}
	if c.Options.Writable == nil {
		return nil
	}
	return unwritableError(c.Options.Writable())
}

// unwritableError returns an *events.UnwritableError if the context of a server says that it
// can write no more, or nil.
func unwritableError(writable context.Context) error {
	if writable.Err() == nil {
		return nil
	}
	reason, passes := whyUnwritable(context.Cause(writable))
	return &events.UnwritableError{What: "the ledger", Reason: reason, Passes: passes}
}

// whyUnwritable translates an error about files and system calls into a reason that an
// operator can act on. passes reports whether the server recovers automatically.
func whyUnwritable(err error) (reason string, passes bool) {
	r, passes := exhausted.Of(err)
	if !passes {
		r, passes = exhausted.In(err.Error())
	}
	if passes {
		return r.Reason + "; the server then takes writes again automatically, and what was acknowledged is safe", true
	}
	const restart = ", then restart the server; what was acknowledged is safe"
	for _, known := range []struct {
		errno syscall.Errno
		text  string
	}{
		{syscall.EROFS, "the file system is read-only; make it writable"},
		{syscall.EACCES, "the data directory is not writable; make it writable"},
		{syscall.EIO, "the disk reports input/output errors; check the disk"},
	} {
		if errors.Is(err, known.errno) {
			return known.text + restart, false
		}
	}
	return fmt.Sprintf("its storage failed (%v); repair it", err) + restart, false
}

// Writable returns a context that is done when a write of the server fails.
func (c *Client) Writable() context.Context {
	if c.Options.Writable == nil {
		return context.Background()
	}
	return c.Options.Writable()
}

// CheckReliable returns an error if answers of the server are unreliable. since is the context
// that Writable returned before the requests. After a failed write, and until its files
// are opened again, the server counts, and may return, a message that was not written.
func (c *Client) CheckReliable(since context.Context) error {
	return cmp.Or(unwritableError(since), unwritableError(c.Writable()))
}
