package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"daybook/ledger"
	"daybook/mcp"
)

// socketName is the socket in the data directory through which local processes
// share a Daybook.
const socketName = "mcp.sock"

// withSocketPath calls fn with a short path of the socket: the address of a
// Unix socket has room for 107 bytes, a data directory may be deeper.
func withSocketPath(dir string, fn func(path string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	return fn(fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName))
}

// listenLocal serves MCP and ACP to other processes of this user. The directory is the
// lock's owner's, so a socket that is there already was left by a dead process.
func (d *Daybook) listenLocal() error {
	path := filepath.Join(d.opts.DataDir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := withSocketPath(d.opts.DataDir, func(short string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // its path is only good within this function
		d.socket = l
		return nil
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	d.attached.Go(func() {
		for {
			conn, err := d.socket.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					d.opts.Logger.Error("accept a local MCP client", "error", err)
				}
				return
			}
			d.attached.Go(func() {
				defer conn.Close()
				if err := d.serveLocal(conn); err != nil {
					d.opts.Logger.Debug("a local MCP client ended", "error", err)
				}
			})
		}
	})
	return nil
}

// greeting is the first line on the socket, before any message of the protocol.
type greeting struct {
	// Protocol is what is spoken after it: empty is MCP.
	Protocol string `json:"protocol,omitempty"`
	Session  string `json:"session,omitempty"`
	// Connection is the id of the client's connection, which may have been served by
	// another process before.
	Connection string `json:"connection,omitempty"`
}

// maxGreeting bounds that line, in bytes.
const maxGreeting = 4 << 10

// serveLocal serves one process that attached.
func (d *Daybook) serveLocal(conn net.Conn) error {
	// A client that reads nothing would hold up the shutdown: once calls have
	// had their chance to answer, writing to it fails.
	stop := context.AfterFunc(d.closing, func() { _ = conn.SetDeadline(time.Now().Add(attachedGrace)) })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(greetingWait))
	line, err := readGreeting(conn)
	if err != nil {
		return fmt.Errorf("read the greeting: %w", err)
	}
	var hello greeting
	if err := json.Unmarshal(line, &hello); err != nil {
		return fmt.Errorf("read the greeting: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	if d.closing.Err() != nil { // the deadline just lifted was perhaps that of the end
		return ErrClosed
	}
	switch hello.Protocol {
	case "":
		return d.mcp.ServeStdio(mcp.WithConnection(context.Background(), hello.Connection), conn, conn, hello.Session)
	case protocolACP:
		return d.acp.Serve(context.Background(), conn, conn)
	default:
		return fmt.Errorf("the protocol %.20q of the greeting is not known: the process that sent it is of a newer version", hello.Protocol)
	}
}

// readGreeting reads one line and nothing after it, which is MCP's.
func readGreeting(r io.Reader) ([]byte, error) {
	line := make([]byte, 0, 64)
	for one := make([]byte, 1); len(line) < maxGreeting; {
		if _, err := io.ReadFull(r, one); err != nil {
			return nil, err
		}
		if one[0] == '\n' {
			return line, nil
		}
		line = append(line, one[0])
	}
	return nil, fmt.Errorf("it is longer than %d bytes", maxGreeting)
}

const (
	// greetingWait is how long a process may take to say what it wants.
	greetingWait = 10 * time.Second
	// attachedGrace is how long attached clients may take to read their last
	// answers at the end.
	attachedGrace = 2 * time.Second
)

// ServeMCP serves one MCP client over a pair of streams until in ends, ctx is
// done or the Daybook is closed. Nothing but JSON-RPC is written to out.
func (d *Daybook) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.mcp.ServeStdio(ctx, in, out, "")
}

// ErrNotServing is returned by AttachMCP when the process that owns the data
// directory takes no clients: it is starting, stopping or gone.
var ErrNotServing = errors.New("the process that uses the data directory takes no clients now")

// ErrOwnerEnded is returned by AttachMCP when the process that owns the data
// directory ended while its client was still there.
var ErrOwnerEnded = errors.New("the daybook process that served this one has ended; start it again: nothing on record is lost")

// AttachMCP serves one MCP client over a pair of streams through the process
// that owns the data directory. Runs are logged under session; empty leaves it
// to that process. It returns nil when the client ends or ctx is done, and
// ErrOwnerEnded when the other process does.
func AttachMCP(ctx context.Context, dir, session string, in io.Reader, out io.Writer) error {
	if session != "" {
		if err := ledger.CheckSession(session); err != nil {
			return err
		}
	}
	return attach(ctx, dir, greeting{Session: session, Connection: mcp.ConnectionOf(ctx)}, in, out)
}

// attach carries a conversation to the process that owns the data directory and
// back. It returns nil when the client ends or ctx is done, and ErrOwnerEnded
// when the other process does.
func attach(ctx context.Context, dir string, as greeting, in io.Reader, out io.Writer) error {
	hello, err := json.Marshal(as)
	if err != nil {
		return err
	}
	var conn net.Conn
	err = withSocketPath(dir, func(short string) error {
		var dialer net.Dialer
		var err error
		conn, err = dialer.DialContext(ctx, "unix", short)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("attach to %s: %w", filepath.Join(dir, socketName), ErrNotServing)
	case err != nil:
		return fmt.Errorf("attach to the process that uses %s: %w", dir, err)
	}
	defer conn.Close()
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return fmt.Errorf("attach to the process that uses %s: %w", dir, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var left atomic.Bool // the client, by itself
	go func() {
		// The end of in is passed on; answers still come.
		_, _ = io.Copy(conn, in)
		left.Store(true)
		if c, ok := conn.(*net.UnixConn); ok {
			_ = c.CloseWrite()
		}
	}()
	_, err = io.Copy(out, conn)
	switch {
	case left.Load() || ctx.Err() != nil:
		return nil
	case err != nil && !errors.Is(err, unix.ECONNRESET): // it was killed, or had not read everything
		return fmt.Errorf("read from the process that uses %s: %w", dir, err)
	default:
		return ErrOwnerEnded
	}
}
