package embed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// takeOverWait is how long a process that holds the data directory and serves no
// socket may take to release it: it is ending, or does something of its own.
const takeOverWait = 15 * time.Second

// takeOver has the background owner of a directory release it, and takes the lock.
// While another process owns the directory, the error is ErrLocked.
func takeOver(ctx context.Context, dir string) (*dirLock, error) {
	turn, err := waitStart(ctx, dir) // no client starts an owner in between
	if err != nil {
		return nil, err
	}
	defer turn.release() //nolint:errcheck // closing the file gives it up
	for deadline := time.Now().Add(takeOverWait); ; {
		lock, locked := lockDir(dir)
		if !errors.Is(locked, ErrLocked) {
			return lock, locked
		}
		background, err := askHandOver(ctx, dir)
		switch {
		case errors.Is(err, ErrNotServing) && time.Now().Before(deadline):
		case errors.Is(err, ErrNotServing), err == nil && !background:
			return nil, locked
		case err != nil:
			return nil, err
		default: // it drains first
			deadline = time.Now().Add(takeOverWait)
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// askHandOver asks an owner to release its directory. It reports false for one
// that does not.
func askHandOver(ctx context.Context, dir string) (background bool, err error) {
	conn, err := dialSocket(ctx, dir)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(helloWait))
	resp, _, err := ask(conn, handOverPath, nil)
	if err != nil {
		return false, fmt.Errorf("ask the owner of %s to hand over: %w (%w)", dir, ErrNotServing, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusAccepted:
		return true, nil
	case http.StatusConflict:
		return false, nil
	default:
		return false, fmt.Errorf("ask the owner of %s to hand over: %s", dir, errorIn(resp))
	}
}
