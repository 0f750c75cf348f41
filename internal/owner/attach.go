package owner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/datadir"
	"daybook/internal/durable"
	"daybook/internal/link"
	"daybook/ledger"
)

// ErrNotServing is returned if no process serves the socket of a data directory: there
// is no owner, or it is starting or ending.
var ErrNotServing = errors.New("no process serves the data directory")

// ErrEnded is returned by Client.Attach if the owner of the data directory ended while
// the client was attached, and Client.StartOwner is nil.
var ErrEnded = errors.New("the process that owned the data directory has ended; recorded runs continue when another is started")

// Client configures a client of the process that owns a data directory.
type Client struct {
	DataDir string
	// Protocol is ProtocolMCP or ProtocolACP. MaxLine is the maximum size of a message in
	// bytes.
	Protocol string
	MaxLine  int
	// Session is the named session of runs over MCP. Default: that of the owner.
	Session string
	// Version is the version of the client. If the owner has another version, Notice
	// receives both. If Version is empty, the versions are not compared.
	Version string
	// Settings are the flags that an owner would be started with, as --name=value.
	// Notice receives the names of the flags that differ from those of the owner.
	Settings []string
	// StartOwner starts an owner and returns nil once it serves. It returns
	// datadir.ErrLocked if another process owns the directory, and ErrNotServing if the
	// owner exited without a report or a signal interrupted its start; Attach then
	// tries again. Attach returns any other error. If StartOwner is nil, the client
	// needs a running owner, and ends when that owner ends.
	StartOwner func(ctx context.Context) error
	// Notice, if set, is called with each message to the user. A message is one line.
	Notice func(text string)
}

const (
	// ownerWait is the time that a new client waits for a process that owns the data
	// directory and serves no clients. That process may be starting or ending.
	ownerWait = 30 * time.Second
	// ownerPoll is the interval between two attempts to reach or replace an owner.
	ownerPoll = 50 * time.Millisecond
	// maxStarts is the number of owners in a row that a client starts. If all of them end
	// before the client has attached, it gives up.
	maxStarts = 5
	// startingWait is the time that a command waits for an owner that is starting.
	startingWait = 5 * time.Second
	// helloWait is the maximum time for the answer to a hello.
	helloWait = 30 * time.Second
)

// Attach passes the messages of a client between a pair of streams and the owner of the
// data directory, one JSON-RPC message per line. When the owner ends, Attach connects
// to the next owner and sends it all requests without an answer; a request that already
// took effect does not take effect twice. Attach blocks until the client ends or ctx is
// done, and then returns nil.
//
// A Read of in may still block when Attach returns. It consumes at most one more
// message, which is lost, unless the caller closes in.
func (c Client) Attach(ctx context.Context, in io.Reader, out io.Writer) error {
	if c.Session != "" {
		if err := ledger.CheckSession(c.Session); err != nil {
			return err
		}
	}
	notice, last := c.Notice, ""
	c.Notice = func(text string) {
		if notice != nil && text != last { // the next owner may differ in the same way
			notice(text)
		}
		last = text
	}
	h := Hello{Protocol: c.Protocol, Session: c.Session, Connection: events.NewSessionID(), Settings: c.Settings}
	dial := func(ctx context.Context, generation int) (net.Conn, error) {
		h.Generation = generation
		return c.dial(ctx, h)
	}
	return link.Run(ctx, dial, in, out, c.MaxLine)
}

// dial attaches to an owner. Without an owner it starts one, or waits for the process
// that is starting or ending.
func (c Client) dial(ctx context.Context, h Hello) (net.Conn, error) {
	noticed, starts := false, 0
	var failure error // of the last start; nil if that owner served
	for deadline := time.Now().Add(ownerWait); ; {
		conn, err := c.tryDial(ctx, h)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrNotServing) {
			return conn, err
		}
		if c.StartOwner == nil {
			if h.Generation > 0 {
				return nil, ErrEnded
			}
			return nil, err
		}
		starting, err := c.start(ctx, starts < maxStarts)
		if errors.Is(err, errNoMoreStarts) {
			return nil, cmp.Or(failure, fmt.Errorf("the process that owns %s ended right after its start, %d times in a row; its log is in that directory", c.DataDir, maxStarts))
		}
		ended := errors.Is(err, ErrNotServing)
		if starting || ended {
			starts, failure = starts+1, err
		}
		switch {
		case err == nil && starting, ended:
			deadline = time.Now().Add(ownerWait)
			continue // try again at once
		case err != nil && !errors.Is(err, datadir.ErrLocked):
			return nil, err
		case err != nil && h.Generation == 0 && time.Now().After(deadline):
			return nil, err
		case !noticed && time.Now().After(deadline):
			noticed = true
			if err == nil {
				err = errors.New("another process is starting the owner of " + c.DataDir)
			}
			c.Notice(err.Error() + "; waiting for it")
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// errNoMoreStarts is returned by start if the client has started enough owners.
var errNoMoreStarts = errors.New("the client starts no further owner")

// start starts an owner unless another process is about to start one, which is not an
// error. It returns datadir.ErrLocked if a process holds the directory without serving
// it, and errNoMoreStarts instead of a start if mayStart is false.
func (c Client) start(ctx context.Context, mayStart bool) (started bool, err error) {
	if err := durable.MkdirAll(c.DataDir, 0o700); err != nil {
		return false, fmt.Errorf("create the data directory: %w", err)
	}
	startLock, err := datadir.TakeStartLock(c.DataDir)
	if startLock == nil || err != nil {
		return false, err
	}
	defer startLock.Release() //nolint:errcheck // closing the file releases the lock
	if err := datadir.Probe(c.DataDir); err != nil {
		return false, err
	}
	if !mayStart {
		return false, errNoMoreStarts
	}
	if err := c.StartOwner(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// tryDial attaches to the current owner, or returns ErrNotServing.
func (c Client) tryDial(ctx context.Context, h Hello) (net.Conn, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	conn, err := dialSocket(ctx, c.DataDir)
	if err != nil {
		return nil, err
	}
	attached := false
	defer func() {
		if !attached {
			conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(helloWait))
	resp, r, err := ask(conn, attachPath, body)
	if err != nil {
		return nil, fmt.Errorf("attach to the process that owns %s: %w (%w)", c.DataDir, ErrNotServing, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols:
	case http.StatusServiceUnavailable:
		return nil, ErrNotServing
	default:
		return nil, fmt.Errorf("attach to the process that owns %s: %s", c.DataDir, errorIn(resp))
	}
	owner := "the process that owns " + c.DataDir
	var news []string
	if v := resp.Header.Get(versionHeader); v != c.Version && c.Version != "" && v != "" {
		news = append(news, fmt.Sprintf("%s is Daybook %s, this is %s", owner, v, c.Version))
	}
	if differs := resp.Header.Get(differsHeader); differs != "" {
		news = append(news, owner+" was started with other options, which apply until it ends: "+differs)
	}
	if len(news) > 0 {
		c.Notice(strings.Join(news, "; "))
	}
	_ = conn.SetDeadline(time.Time{})
	attached = true
	return bufferedConn{conn.(halfCloser), r}, nil
}

// halfCloser is a connection whose writing side can be closed separately.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// bufferedConn is a connection that first returns the bytes that were read ahead.
type bufferedConn struct {
	halfCloser
	r *bufio.Reader
}

// Read implements net.Conn.
func (c bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// Dial connects to the process that owns a data directory. The connection speaks
// HTTP. Dial waits up to 5 s for an owner that is starting and returns
// ErrNotServing if there is none. The caller MUST close the connection.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	for deadline := time.Now().Add(startingWait); ; {
		conn, err := dialSocket(ctx, dir)
		if !errors.Is(err, ErrNotServing) || !datadir.IsLocked(dir) || time.Now().After(deadline) {
			return conn, err
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// dialSocket connects to the current owner.
func dialSocket(ctx context.Context, dir string) (net.Conn, error) {
	var conn net.Conn
	err := withSocketPath(dir, func(short string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EAGAIN): // EAGAIN: too many connections wait
		return nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, SocketName), ErrNotServing)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("connect to %s: %w; only the user who owns the directory may", filepath.Join(dir, SocketName), unix.EACCES)
	case err != nil:
		return nil, fmt.Errorf("connect to the process that owns %s: %w", dir, err)
	}
	return conn, nil
}

// ask sends one request to an owner.
func ask(conn net.Conn, path string, body []byte) (*http.Response, *bufio.Reader, error) {
	req, err := http.NewRequest(http.MethodPost, "http://localhost"+path, bytes.NewReader(body)) //nolint:noctx // closing the connection ends the request
	if err != nil {
		return nil, nil, err
	}
	if path == attachPath {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", upgradeName)
	}
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	resp, err := http.ReadResponse(r, req)
	return resp, r, err
}

// errorIn returns the text of an error answer.
func errorIn(resp *http.Response) string {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // without a body the status remains
	var problem struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &problem) == nil && problem.Error != "" {
		return problem.Error
	}
	return strings.TrimSpace(resp.Status + " " + string(raw))
}
