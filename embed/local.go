package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
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

// listenLocal serves MCP to other processes of this user. The directory is the
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
				if err := d.mcp.ServeStdio(context.Background(), conn, conn, ""); err != nil {
					d.opts.Logger.Debug("a local MCP client ended", "error", err)
				}
			})
		}
	})
	return nil
}

// ServeMCP serves one MCP client over a pair of streams until in ends, ctx is
// done or the Daybook is closed. Nothing but JSON-RPC is written to out.
func (d *Daybook) ServeMCP(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.mcp.ServeStdio(ctx, in, out, "")
}

// AttachMCP serves one MCP client over a pair of streams through the process
// that owns the data directory. It returns when either side ends.
func AttachMCP(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	var conn net.Conn
	err := withSocketPath(dir, func(short string) error {
		var dialer net.Dialer
		var err error
		conn, err = dialer.DialContext(ctx, "unix", short)
		return err
	})
	if err != nil {
		return fmt.Errorf("attach to the process that uses %s: %w", dir, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	go func() {
		// The end of in is passed on; answers still come.
		_, _ = io.Copy(conn, in)
		if c, ok := conn.(*net.UnixConn); ok {
			_ = c.CloseWrite()
		}
	}()
	if _, err := io.Copy(out, conn); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read from the process that uses %s: %w", dir, err)
	}
	return nil
}
