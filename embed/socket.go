package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"daybook/httpapi"
	"daybook/internal/web/access"
)

// socketName is the socket in the data directory through which processes of the same
// user reach its owner. It speaks HTTP.
const socketName = "owner.sock"

// Routes of the socket, besides those of the HTTP interface.
const (
	attachPath   = "/owner/attach"
	handOverPath = "/owner/handover"
)

// withSocketPath calls fn with a short path of the socket: the address of a Unix socket
// holds 107 bytes, and the path of a data directory may be longer.
func withSocketPath(dir string, fn func(path string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	return fn(fmt.Sprintf("/proc/self/fd/%d/%s", fd, socketName))
}

// listenSocket serves other processes of this user. The caller MUST hold the lock of
// the directory: an existing socket was left by a process that died.
func (d *Daybook) listenSocket() error {
	path := filepath.Join(d.opts.DataDir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var l *net.UnixListener
	err := withSocketPath(d.opts.DataDir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // its path was valid only inside withSocketPath
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+attachPath, d.attach)
	mux.HandleFunc("POST "+handOverPath, d.handOver)
	mux.HandleFunc("GET "+handOverPath, d.ownerKind)
	mux.Handle("/", withLocalIdentity(d.handler))
	d.socket = httpapi.NewServer("", d.use.countRequests(mux))
	d.socketConns.Bind(d.socket)
	d.socket.ErrorLog = slog.NewLogLogger(d.opts.Logger.Handler(), slog.LevelDebug)
	go func() {
		if err := d.socket.Serve(d.socketConns.Listener(ownListener{l})); !errors.Is(err, http.ErrServerClosed) {
			d.fail(fmt.Errorf("serve %s: %w", path, err))
		}
	}()
	return nil
}

// ownListener accepts connections from processes of this user and of root. The mode of
// the socket excludes others too; this check holds if the mode was changed.
type ownListener struct{ *net.UnixListener }

// Accept returns the next accepted connection.
func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(conn); err == nil && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		conn.Close()
	}
}

// peerUID returns the user that opened a connection.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if ctlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctlErr != nil || err != nil {
		return 0, errors.Join(ctlErr, err)
	}
	return int(peer.Uid), nil
}

// withLocalIdentity gives requests without a token the identity of the local operator:
// the default tenant with every scope, as for clients on stdin and stdout. A user who
// can open the socket can also read the data directory. A request with a token has the
// identity of the token.
func withLocalIdentity(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(access.With(r.Context(), access.Anonymous()))
		r.RemoteAddr = "" // a Unix socket has no remote address
		next.ServeHTTP(w, r)
	})
}

// handOver releases the data directory of a background owner. It refuses for any other
// process, such as a server: only its user may stop it.
func (d *Daybook) handOver(w http.ResponseWriter, _ *http.Request) {
	if !d.opts.Owner.Background {
		refuse(w, http.StatusConflict, "this process does not hand over its data directory; stop it first")
		return
	}
	w.WriteHeader(http.StatusAccepted)
	d.use.release("another process takes over")
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // a client that has left needs no answer
}
