package embed

import (
	"context"
	"io"
	"net"

	"daybook/acp"
	"daybook/internal/owner"
	"daybook/mcp"
)

// ErrNotServing is returned if no process serves the socket of a data directory: there
// is no owner, or it is starting or ending.
var ErrNotServing = owner.ErrNotServing

// ErrOwnerEnded is returned by Attach if the owner of the data directory ended while
// the client was attached, and Client.StartOwner is nil.
var ErrOwnerEnded = owner.ErrEnded

// Client configures a client of the process that owns a data directory.
type Client struct {
	DataDir string
	// ACP selects the Agent Client Protocol instead of MCP.
	ACP bool
	// SessionID is the named session of runs over MCP. Default: that of the owner.
	SessionID string
	// Version is the version of the client. If the owner has another version, Notice
	// receives both. If Version is empty, the versions are not compared.
	Version string
	// Settings are the flags that an owner would be started with, as --name=value.
	// Notice receives the names of the flags that differ from those of the owner.
	Settings []string
	// StartOwner starts an owner and returns nil once it serves. It returns ErrLocked
	// if another process owns the directory, and ErrNotServing if the owner exited
	// without a report or a signal interrupted its start; Attach then tries again. Attach
	// returns any other error. If StartOwner is nil, the client needs a running owner, and
	// ends when that owner ends.
	StartOwner func(ctx context.Context) error
	// Notice, if set, is called with each message to the user. A message is one line.
	Notice func(text string)
}

// Attach passes the messages of a client between a pair of streams and the owner of the
// data directory, one JSON-RPC message per line. When the owner ends, Attach connects
// to the next owner and sends it all requests without an answer; a request that already
// took effect does not take effect twice. Attach blocks until the client ends or ctx is
// done, and then returns nil.
//
// A Read of in may still block when Attach returns. It consumes at most one more
// message, which is lost, unless the caller closes in.
func Attach(ctx context.Context, c Client, in io.Reader, out io.Writer) error {
	o := owner.Client{
		DataDir: c.DataDir, Protocol: owner.ProtocolMCP, MaxLine: mcp.MaxMessageBytes, Session: c.SessionID,
		Version: c.Version, Settings: c.Settings, StartOwner: c.StartOwner, Notice: c.Notice,
	}
	if c.ACP {
		o.Protocol, o.MaxLine = owner.ProtocolACP, acp.MaxMessageBytes
	}
	return o.Attach(ctx, in, out)
}

// DialOwner connects to the process that owns a data directory. The connection speaks
// HTTP. DialOwner waits up to 5 s for an owner that is starting and returns
// ErrNotServing if there is none. The caller MUST close the connection.
func DialOwner(ctx context.Context, dir string) (net.Conn, error) { return owner.Dial(ctx, dir) }
