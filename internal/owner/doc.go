// Package owner connects clients to the process that owns a data directory, starts that
// process in the background, and passes the directory from one owner to the next.
//
// A Server is the owner's end. It serves the socket of the directory, and decides which
// clients are left to the next owner, and when a background owner is released. A Client
// finds the owner, or starts one. Package link carries the lines between the two, and
// package datadir holds the lock that decides which process is the owner.
//
// The caller is package embed. It serves the protocols of the clients, and reports whether
// runs exist.
//
// The files, in reading order:
//
//   - socket.go: opens the socket, refuses other users, and answers a request for a takeover
//   - server.go: Server, the owner's end of the socket
//   - clients.go: accepts clients, and decides when they are left to the next owner
//   - use.go: decides when a background owner is idle, and releases it
//   - attach.go: Client: connects to the owner, or starts one, and gives up after several
//     ended
//   - takeover.go: asks the owner to release its directory, and waits for the lock
package owner
