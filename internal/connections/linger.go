package connections

import (
	"io"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is read of a request whose answer was
	// sent before all of it came.
	lingerTime  = 5 * time.Second
	lingerBytes = 32 << 20
)

// CloseWrite ends the answer and discards what the client still sends. net/http calls
// it before it closes a connection with an unread request. Without it the close
// resets the connection, and the client may lose the answer. The connection has no
// request meanwhile: it is closed when a new one needs its place.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(lingerTime)); err != nil {
		return err
	}
	// ReadFrom of io.Discard has pooled buffers. An error means that the client has
	// left or is too slow.
	_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, lingerBytes))
	return nil
}
