package owner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// SocketName is the socket in the data directory through which processes of the same
// user reach its owner. It speaks HTTP.
const SocketName = "owner.sock"

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
	return fn(fmt.Sprintf("/proc/self/fd/%d/%s", fd, SocketName))
}

// Listen opens the socket of a data directory, for processes of this user and of root. The
// caller MUST hold the lock of the directory: an existing socket was left by a process that
// died.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var l *net.UnixListener
	err := withSocketPath(dir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // its path was valid only inside withSocketPath
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return ownListener{l}, nil
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

// ownerKind answers the request of isBackground.
func (s *Server) ownerKind(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(ownerKind{s.opts.Background}) // a client that has left needs no answer
}

// handOver releases the data directory of a background owner. It refuses for any other
// process, such as a server: only its user may stop it.
func (s *Server) handOver(w http.ResponseWriter, _ *http.Request) {
	if !s.opts.Background {
		refuse(w, http.StatusConflict, "this process does not hand over its data directory; stop it first")
		return
	}
	w.WriteHeader(http.StatusAccepted)
	s.use.release("another process takes over")
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // a client that has left needs no answer
}
