package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"daybook/internal/datadir"
)

const (
	// takeOverWait is the time for a process that holds the data directory and serves
	// no socket to release it: that process is ending, or does other work.
	takeOverWait = 15 * time.Second
	// startNotice is the time that another process may take to start an owner before
	// the wait is reported.
	startNotice = time.Second
)

// TakeOver asks the background owner of a directory to release it, and takes the lock.
// The owner first finishes its runs or hands them back, within its own Runs.DrainWait.
// TakeOver returns datadir.ErrLocked while a process that does not hand over owns the
// directory.
func TakeOver(ctx context.Context, dir string, notice func(string)) (*datadir.Lock, error) {
	startLock, err := waitStart(ctx, dir, notice) // no client starts an owner in between
	if err != nil {
		return nil, err
	}
	defer startLock.Release() //nolint:errcheck // closing the file releases the lock
	accepted := false
	for deadline := time.Now().Add(takeOverWait); ; {
		lock, locked := datadir.TakeLock(dir)
		if !errors.Is(locked, datadir.ErrLocked) {
			return lock, locked
		}
		background, err := askHandOver(ctx, dir)
		switch {
		case background && !accepted:
			accepted = true
			notice(fmt.Sprintf("taking over %s from background process %d; waiting until its runs have ended or are handed back", dir, datadir.OwnerPID(dir)))
		case background:
		case errors.Is(err, ErrNotServing) && (accepted || time.Now().Before(deadline)):
		case errors.Is(err, ErrNotServing), err == nil:
			return nil, locked
		default:
			return nil, err
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// askHandOver asks an owner to release its directory. background is false if the owner is
// not a background owner and therefore refuses.
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

// waitStart is datadir.TakeStartLock, but waits for the lock. It calls notice if the wait
// takes longer than startNotice.
func waitStart(ctx context.Context, dir string, notice func(string)) (*datadir.Lock, error) {
	report := time.NewTimer(startNotice)
	defer report.Stop()
	for {
		startLock, err := datadir.TakeStartLock(dir)
		if startLock != nil || err != nil {
			return startLock, err
		}
		select {
		case <-time.After(ownerPoll):
		case <-report.C:
			notice("another process is starting the owner of " + dir + "; waiting for it")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// WhenReleased calls open. While the address is in use and the owner of the data directory
// is ending, it calls open again: the owner may use the address. It returns
// datadir.ErrLocked if the owner does not hand over the directory.
func WhenReleased(ctx context.Context, dir string, takeOver bool, open func() error) error {
	for deadline := time.Now().Add(takeOverWait); ; {
		err := open()
		if !errors.Is(err, syscall.EADDRINUSE) || !datadir.IsLocked(dir) {
			return err
		}
		background, asked := isBackground(ctx, dir)
		switch {
		case asked == nil && background:
			return err
		case asked == nil || !takeOver:
			if locked := datadir.Probe(dir); errors.Is(locked, datadir.ErrLocked) {
				return locked
			}
			return err
		case !errors.Is(asked, ErrNotServing) || time.Now().After(deadline):
			return err
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isBackground asks an owner whether it hands over its directory on request.
func isBackground(ctx context.Context, dir string) (bool, error) {
	client := http.Client{Timeout: helloWait, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+handOverPath, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask the owner of %s for its kind: %w", dir, err)
	}
	defer resp.Body.Close()
	var kind ownerKind
	if err := json.NewDecoder(resp.Body).Decode(&kind); err != nil {
		return false, fmt.Errorf("ask the owner of %s for its kind: %w", dir, err)
	}
	return kind.Background, nil
}

// ownerKind is the answer to isBackground.
type ownerKind struct {
	Background bool `json:"background"`
}
