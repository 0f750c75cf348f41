package connections

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// lingerTime and lingerBytes bound what is read of a request whose answer was
	// sent before all of it came.
	lingerTime  = 5 * time.Second
	lingerBytes = 32 << 20
	// smallBody is how much net/http itself reads of a body before it answers.
	smallBody = 256 << 10
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

// lingerAfter is CloseWrite for a request of HTTP/1 over TLS: net/http closes the write
// side of TLS then, not that of the connection. The caller calls the function that it
// returns when the handler has returned without a panic. It sends the answer and
// discards the rest of the body.
func lingerAfter(w http.ResponseWriter, r *http.Request) func() {
	if r.ContentLength >= 0 && r.ContentLength <= smallBody {
		return func() {}
	}
	own := r.Body
	b := &countedBody{ReadCloser: own}
	r.Body = b
	return func() {
		r.Body = own // net/http looks at it to learn whether bytes are left
		if b.ended || r.ContentLength >= 0 && r.ContentLength-b.read <= smallBody {
			return
		}
		rc := http.NewResponseController(w)
		if rc.SetReadDeadline(time.Now().Add(lingerTime)) != nil || rc.Flush() != nil {
			return // the client has left
		}
		// An error means that the client has left or is too slow.
		_, _ = io.Copy(io.Discard, io.LimitReader(own, lingerBytes))
	}
}

// countedBody counts what is read of the body of a request.
type countedBody struct {
	io.ReadCloser
	read  int64
	ended bool
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
